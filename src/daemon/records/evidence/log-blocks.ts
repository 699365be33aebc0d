// Blocks summarise consecutive entries of a chain. Lists use them to find and count entries without reading the
// entries.
import type { EvidenceEntryRow, LogBlockRow } from '../../platform/db/tables.ts'
import type { SummaryFacts } from './entry-payload.ts'

/** Number of entries in a block of level 1. */
export const BLOCK_ENTRIES = 256
/** Number of blocks that one block of the next level contains. */
export const BLOCKS_PER_PARENT = 16
/** The highest level of blocks. */
export const TOP_LEVEL = 4

/** Number of entries in a block of this level. */
export const entriesIn = (level: number): number => BLOCK_ENTRIES * BLOCKS_PER_PARENT ** (level - 1)

/**
 * Maximum number of groups in a block above level 1. If there are more, the block omits names. A count reads many such
 * blocks, so they must stay small.
 */
const PARENT_GROUPS = 200

/** The properties of a payload by which lists filter and count. */
export const FACETS = [
  'type',
  'severity',
  'result',
  'compliance_category',
  'operation',
  'endpoint',
  'status',
  'error',
  'model',
  'requested_model',
] as const
export type Facet = (typeof FACETS)[number]

/** If a block above level 1 would have too many groups, it omits these facets, in this order. */
const OMITTED: readonly (readonly Facet[])[] = [
  ['model', 'requested_model'],
  ['endpoint', 'operation', 'error'],
]

/** The properties of entries that a block groups. A facet is null if its property is missing, undefined if omitted. */
export type EntryFacets = {
  /** Whether the payloads were expunged or are unreadable. In this case, all facets are null. */
  hidden: boolean
  /** Whether the payloads have a description, which is not a facet. */
  described: boolean
  values: readonly (string | null | undefined)[]
}

/**
 * A group of entries of a block with equal facets. `members` contains positions in the block. At level 1, these are the
 * positions of the entries; at higher levels, the positions of the next lower blocks that contain the entries.
 */
export type BlockGroup = EntryFacets & { count: number; members: readonly number[] }

/** A block. `block` is its position among the blocks of its level. */
export type LogBlock = Pick<LogBlockRow, 'block' | 'first_at' | 'last_at'> & { groups: readonly BlockGroup[] }

/** The type of every entry whose id begins like a bundle id. */
export const REQUEST_TYPE = 'api_access'
const isRequestId = (id: string): boolean => id.startsWith('jti-')

const HIDDEN: EntryFacets = { hidden: true, described: false, values: FACETS.map(() => null) }

const FACETS_KEPT = 1_000
/** Most entries have the same facets as an earlier entry. They share one object. */
const known = new Map<string, EntryFacets>()

/** The facets of an entry. Equal facets are usually the same object. */
export function facetsOf(id: string, payload: SummaryFacts | undefined): EntryFacets {
  if (payload === undefined) return HIDDEN
  const values: (string | null)[] = []
  for (const facet of FACETS) values.push(textOf(payload[facet]))
  if (isRequestId(id)) values[0] = REQUEST_TYPE
  const facets = { hidden: false, described: typeof payload.description === 'string', values }
  const key = keyOf(facets)
  const found = known.get(key)
  if (found) return found
  if (known.size >= FACETS_KEPT) known.clear()
  known.set(key, facets)
  return facets
}

/** Equal for equal facets. Values contain no NUL, so keys differ if values differ. */
function keyOf({ hidden, described, values }: EntryFacets): string {
  let key = hidden ? 'h' : described ? 'd' : ''
  for (const value of values) key += value === null ? '\0-' : value === undefined ? '\0?' : `\0=${value}`
  return key
}

/** Like `jsonMember` of the engines: a text or a number as text, any other value as null. */
const textOf = (value: unknown): string | null =>
  typeof value === 'string'
    ? value.includes('\0')
      ? value.replaceAll('\0', '\ufffd')
      : value
    : typeof value === 'number'
      ? String(value)
      : null

/** A summarised entry: its position in its chain, its time, its facets, its user and its key. */
export type SummarisedEntry = { seq: number; createdAt: string; facets: EntryFacets; userId: string; keyId: string }

type Entry = Pick<EvidenceEntryRow, 'seq' | 'id' | 'created_at'>
export const toSummary = ({ seq, id, created_at }: Entry, payload: SummaryFacts | undefined): SummarisedEntry => ({
  seq,
  createdAt: created_at,
  facets: facetsOf(id, payload),
  userId: textOf(payload?.user_id) ?? '',
  keyId: textOf(payload?.key_id) ?? '',
})

/** The block of level 1 over these entries (at least one). */
export function blockOf(entries: readonly SummarisedEntry[]): LogBlock {
  const groups = new Groups()
  for (const { seq, facets } of entries) groups.add(facets, 1, seq % BLOCK_ENTRIES)
  const [{ seq, createdAt }] = entries as [SummarisedEntry]
  let [first_at, last_at] = [createdAt, createdAt]
  for (const { createdAt } of entries) {
    if (createdAt < first_at) first_at = createdAt
    if (createdAt > last_at) last_at = createdAt
  }
  return { block: Math.floor(seq / BLOCK_ENTRIES), first_at, last_at, groups: groups.all }
}

/**
 * The entries of one user and key in a block of level 1 or 2, by type and severity. `members` contains positions of
 * entries in the block, in ascending order.
 */
export type OwnedEntries = { userId: string; keyId: string; groups: readonly OwnedGroup[] }
export type OwnedGroup = {
  type: string | null
  severity: string | null
  count: number
  readonly members: readonly number[]
}

/** The owners of the entries in a level-1 block. Entries without user and key are omitted. */
export function ownersOf(entries: readonly SummarisedEntry[]): OwnedEntries[] {
  const owners = new Owners()
  for (const { seq, userId, keyId, facets } of entries) {
    const [type = null, severity = null] = facets.values
    if (userId !== '' || keyId !== '') owners.add(userId, keyId, type, severity, [seq % BLOCK_ENTRIES])
  }
  return owners.all
}

/** The owners of the entries in a level-2 block, merged from the owners of its level-1 blocks. */
export function mergeOwners(blocks: readonly { block: number; owners: readonly OwnedEntries[] }[]): OwnedEntries[] {
  const merged = new Owners()
  for (const { block, owners } of blocks) {
    const from = (block % BLOCKS_PER_PARENT) * BLOCK_ENTRIES
    for (const { userId, keyId, groups } of owners) {
      for (const { type, severity, members } of groups) {
        merged.add(
          userId,
          keyId,
          type,
          severity,
          members.map((member) => from + member),
        )
      }
    }
  }
  return merged.all
}

class Owners {
  readonly #byName = new Map<
    string,
    { userId: string; keyId: string; groups: (OwnedGroup & { members: number[] })[] }
  >()

  add(userId: string, keyId: string, type: string | null, severity: string | null, members: readonly number[]): void {
    const name = `${userId} ${keyId}`
    const owner = this.#byName.get(name) ?? { userId, keyId, groups: [] }
    this.#byName.set(name, owner)
    const group = owner.groups.find((one) => one.type === type && one.severity === severity)
    if (group) {
      group.count += members.length
      group.members.push(...members)
    } else owner.groups.push({ type, severity, count: members.length, members: [...members] })
  }

  get all(): OwnedEntries[] {
    return [...this.#byName.values()]
  }
}

type StoredOwned = [type: string | null, severity: string | null, ...steps: number[]]

/** The stored form: type, severity, and the distance of each member from the previous member. */
export const toStoredOwned = (groups: readonly OwnedGroup[]): StoredOwned[] =>
  groups.map(({ type, severity, members }) => [
    type,
    severity,
    ...members.map((member, at) => member - (members[at - 1] ?? 0)),
  ])

/** The groups of a stored owner. A count reads many owners without their members, so `members` is computed when read. */
export const fromStoredOwned = (stored: readonly StoredOwned[]): OwnedGroup[] =>
  stored.map((group) => ({
    type: group[0],
    severity: group[1],
    count: group.length - 2,
    get members() {
      let member = 0
      return (group.slice(2) as number[]).map((step) => {
        member += step
        return member
      })
    },
  }))

export const toStoredOwners = (owners: readonly OwnedEntries[]): string =>
  JSON.stringify(owners.map(({ userId, keyId, groups }) => [userId, keyId, toStoredOwned(groups)]))

export const parseOwners = (stored: string): OwnedEntries[] =>
  (JSON.parse(stored) as [string, string, StoredOwned[]][]).map(([userId, keyId, groups]) => ({
    userId,
    keyId,
    groups: fromStoredOwned(groups),
  }))

/** The block over these blocks (at least one) of the next lower level. */
export function parentOf(blocks: readonly LogBlock[]): LogBlock {
  const block = Math.floor((blocks[0]?.block ?? 0) / BLOCKS_PER_PARENT)
  for (let omittedLists = 0; ; omittedLists++) {
    const omitted = OMITTED.slice(0, omittedLists).flat()
    const groups = new Groups()
    for (const child of blocks) {
      const position = child.block % BLOCKS_PER_PARENT
      for (const group of child.groups) groups.add(without(group, omitted), group.count, position)
    }
    if (omittedLists === OMITTED.length || groups.all.length <= PARENT_GROUPS) {
      return { block, ...rangeOf(blocks), groups: groups.all }
    }
  }
}

const without = (group: EntryFacets, omitted: readonly Facet[]): EntryFacets =>
  group.hidden || omitted.length === 0
    ? group
    : { ...group, values: group.values.map((value, at) => (omitted.includes(FACETS[at] as Facet) ? undefined : value)) }

function rangeOf(parts: readonly { first_at: string; last_at: string }[]): { first_at: string; last_at: string } {
  let { first_at, last_at } = parts[0] as { first_at: string; last_at: string }
  for (const part of parts) {
    if (part.first_at < first_at) first_at = part.first_at
    if (part.last_at > last_at) last_at = part.last_at
  }
  return { first_at, last_at }
}

type Group = EntryFacets & { count: number; members: number[] }

/** Collects groups of entries with equal facets. */
class Groups {
  readonly #byKey = new Map<string, Group>()
  /** The groups by the objects that were added. Most entries of a block share a few objects. */
  readonly #byFacets = new Map<EntryFacets, Group>()

  add(facets: EntryFacets, count: number, position: number): void {
    const group = this.#byFacets.get(facets) ?? this.#groupOf(facets)
    group.count += count
    if (group.members.at(-1) !== position) group.members.push(position)
  }

  #groupOf(facets: EntryFacets): Group {
    const { hidden, described, values } = facets
    const key = keyOf(facets)
    const group = this.#byKey.get(key) ?? { hidden, described, values, count: 0, members: [] }
    this.#byKey.set(key, group)
    this.#byFacets.set(facets, group)
    return group
  }

  get all(): readonly BlockGroup[] {
    return [...this.#byKey.values()]
  }
}

const IS_HIDDEN = 1
const IS_DESCRIBED = 2
const MISSING = -1
const OMITTED_VALUE = -2

/**
 * The stored form of the groups of a block: each value once, and for each group its flags, its count, the positions of
 * its values, and a bit for each position in the block.
 */
function toStoredGroups(groups: readonly BlockGroup[]): string {
  const values = new Map<string, number>()
  const positionOf = (value: string | null | undefined): number => {
    if (value === undefined) return OMITTED_VALUE
    if (value === null) return MISSING
    const known = values.get(value)
    if (known !== undefined) return known
    values.set(value, values.size)
    return values.size - 1
  }
  const stored = groups.map((group) => [
    (group.hidden ? IS_HIDDEN : 0) + (group.described ? IS_DESCRIBED : 0),
    group.count,
    toBits(group.members),
    ...group.values.map(positionOf),
  ])
  return JSON.stringify([[...values.keys()], stored])
}

/** The groups of a stored block. */
export function parseGroups(stored: string): BlockGroup[] {
  const [values, groups] = JSON.parse(stored) as [string[], [number, number, string, ...number[]][]]
  return groups.map(([flags, count, bits, ...positions]) => ({
    hidden: (flags & IS_HIDDEN) !== 0,
    described: (flags & IS_DESCRIBED) !== 0,
    count,
    get members() {
      return fromBits(bits)
    },
    values: positions.map((at) => (at === OMITTED_VALUE ? undefined : at === MISSING ? null : (values[at] as string))),
  }))
}

const BITS = Buffer.alloc(BLOCK_ENTRIES / 8)

/** Positions below BLOCK_ENTRIES as bits in base64, without the zero bytes at the end. */
function toBits(positions: readonly number[]): string {
  BITS.fill(0)
  let bytes = 0
  for (const at of positions) {
    BITS[at >> 3] = (BITS[at >> 3] as number) | (1 << (at & 7))
    bytes = Math.max(bytes, (at >> 3) + 1)
  }
  return BITS.toString('base64url', 0, bytes)
}

function fromBits(bits: string): number[] {
  const positions: number[] = []
  for (const [byte, value] of Buffer.from(bits, 'base64url').entries()) {
    for (let bit = 0; bit < 8; bit++) if (value & (1 << bit)) positions.push(byte * 8 + bit)
  }
  return positions
}

/** The row of a block. */
export const toBlockRow = (
  of: Pick<LogBlockRow, 'tenant_id' | 'chain' | 'level'>,
  { groups, ...block }: LogBlock,
  owners = '',
): LogBlockRow => ({ ...of, ...block, groups: toStoredGroups(groups), owners })

export const fromBlockRow = ({
  block,
  first_at,
  last_at,
  groups,
}: Pick<LogBlockRow, 'block' | 'first_at' | 'last_at' | 'groups'>): LogBlock => ({
  block,
  first_at,
  last_at,
  groups: parseGroups(groups),
})
