// Uses the blocks of the log (log-blocks.ts) to count and find the matching entries of a period. This file is long,
// because counting and finding walk the same blocks under the same limits.
import type { Db } from '../../platform/db/db.ts'
import {
  countEntries,
  type EntryCount,
  type EntryFilter,
  hasContentFilter,
  matching,
  testGroup,
} from './entry-filter.ts'
import {
  BLOCK_ENTRIES,
  BLOCKS_PER_PARENT,
  type BlockGroup,
  entriesIn,
  fromStoredOwned,
  type OwnedGroup,
} from './log-blocks.ts'
import {
  type BlockBounds,
  type ChainExtent,
  type EntryRange,
  readChildren,
  readGroups,
  readOwnersIn,
  readTopBlocks,
  tailsOf,
} from './log-map.ts'

/** The matching entries of one list. */
export type LogView = {
  total: number
  /** Whether `total` and `counts` are estimates. */
  estimated: boolean
  counts: EntryCount[]
  /** The ids of `length` matching entries in descending order of time and id. Skips the first `offset` matches. */
  newest(offset: number, length: number): Promise<string[]>
}

/** Maximum number of parts of the log that a count reads because their summaries are not sufficient. */
const UNDECIDED_PARTS = 32
/** Maximum number of blocks of one user or key, per chain, that are read at once. */
const OWNED_BLOCKS = 500

/** Positions that one statement reads, until a further part would be added. */
const POSITIONS_PER_READ = 1_000

/** A part of the log, with bounds of the times of its entries. */
type Part = {
  first_at: string
  last_at: string
  /** Number of known matches, in total and by type and severity. */
  count: number
  kinds: EntryCount[]
  /** Estimated number of further matches. */
  expected: number
} & (
  | Block
  | Positions
  /**
   * Entries outside any summary block, or in a block that is only partly within the period. They were read and counted.
   */
  | { kind: 'range'; range: EntryRange }
  /** Level-2 blocks with entries of `owner` (if known) that were not read. */
  | { kind: 'unread'; owner: string | undefined; run: EntryRange }
)
/** A block above level 1, and the positions of the blocks in it that have matches or possible matches. */
type Block = { kind: 'block'; block: BlockBounds; members: number[] }
/** Matches and possible matches by their position in the chain. */
type Positions = { kind: 'positions'; chain: string; readonly seqs: number[]; readonly unsure: number[] }
type PartOf<Kind extends Block | Positions> = Part & Kind

export async function openLogView(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  extents: readonly ChainExtent[],
): Promise<LogView> {
  const { startDate, endDate } = filter
  const isInside = ({ first_at, last_at }: BlockBounds) =>
    (startDate === undefined || first_at >= startDate) && (endDate === undefined || last_at <= endDate)

  const inside: BlockBounds[] = []
  const ranges: EntryRange[] = tailsOf(extents)
  let blocks = await readTopBlocks(db, tenantId, extents, filter)
  while (blocks.length > 0) {
    const cut: BlockBounds[] = []
    for (const block of blocks) {
      if (isInside(block)) inside.push(block)
      else if (block.level > 1) cut.push(block)
      else ranges.push(rangeOf(block))
    }
    blocks = await readChildren(db, tenantId, cut, filter)
  }

  const isOwned = filter.userId !== undefined || filter.keyId !== undefined
  const [read, found] = await Promise.all([
    Promise.all(ranges.map((range) => readRange(db, tenantId, filter, range))),
    isOwned ? ownedParts(db, tenantId, filter, inside) : blockParts(db, tenantId, filter, inside),
  ])
  const parts = [...read, ...(await decide(db, tenantId, filter, found))].filter(hasMatches)
  const counts = sumKinds(parts)
  const total = counts.reduce((sum, { count }) => sum + count, 0)
  const estimated = parts.some(({ expected }) => expected > 0)
  const isCertain = !estimated && !parts.some((part) => part.kind === 'positions' && part.unsure.length > 0)
  const finder = createFinder(db, tenantId, filter)
  return {
    total,
    estimated,
    counts,
    async newest(offset, length) {
      const { until, rest, left } =
        isCertain && offset >= BLOCK_ENTRIES
          ? await finder.skip(parts, offset)
          : { until: undefined, rest: offset, left: parts }
      return hasContentFilter(filter) ? finder.collect(left, until, rest, length) : finder.byTime(until, rest, length)
    },
  }
}

const hasMatches = ({ count, expected }: Part): boolean => count + expected > 0

const rangeOf = ({ chain, block }: BlockBounds): EntryRange => ({
  chain,
  from: block * BLOCK_ENTRIES,
  to: (block + 1) * BLOCK_ENTRIES,
})

/** Reads a range of entries and counts its matches. */
async function readRange(db: Db, tenantId: string, filter: EntryFilter, range: EntryRange): Promise<Part> {
  const [kinds, times] = await Promise.all([
    countEntries(db, tenantId, { ...filter, part: range }),
    matching(db, tenantId, { part: range })
      .select(({ fn }) => [fn.min('created_at').as('first_at'), fn.max('created_at').as('last_at')])
      .executeTakeFirstOrThrow(),
  ])
  const { first_at, last_at } = times
  return {
    kind: 'range',
    range,
    count: sumOf(kinds),
    kinds,
    expected: 0,
    first_at: first_at ?? '',
    last_at: last_at ?? '',
  }
}

const sumOf = (kinds: readonly { count: number }[]): number => kinds.reduce((sum, { count }) => sum + count, 0)

/** The matches in these blocks, as far as their groups show them. */
async function blockParts(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  blocks: readonly BlockBounds[],
): Promise<Part[]> {
  const groups = await readGroups(db, tenantId, blocks)
  return blocks.map((block, at) => toPart(filter, block, groups[at] ?? []))
}

function toPart(filter: EntryFilter, block: BlockBounds, groups: readonly BlockGroup[]): Part {
  const certain = new Set<number>()
  const unsure = new Set<number>()
  const kinds = new Kinds()
  let possible = 0
  for (const group of groups) {
    const matches = testGroup(filter, group)
    if (matches === false) continue
    if (matches) kinds.add(group.values[0] ?? null, group.values[1] ?? null, group.count)
    else possible += group.count
    for (const member of group.members) (matches ? certain : unsure).add(member)
  }
  const { chain, first_at, last_at } = block
  const common = { first_at, last_at, kinds: kinds.all, count: sumOf(kinds.all), expected: possible / 2 }
  if (block.level > 1) return { ...common, kind: 'block', block, members: [...certain, ...unsure] }
  const toSeqs = (members: Set<number>) => [...members].map((member) => block.block * BLOCK_ENTRIES + member)
  return { ...common, kind: 'positions', chain, seqs: toSeqs(certain), unsure: toSeqs(unsure) }
}

/**
 * For ranges that the summaries leave open, reads the lower blocks, then the entries. Stops if there is too much to
 * read.
 */
async function decide(db: Db, tenantId: string, filter: EntryFilter, parts: readonly Part[]): Promise<Part[]> {
  const decided: Part[] = parts.filter(({ expected }) => expected === 0)
  const open = parts.filter(({ expected }) => expected > 0)
  for (let reads = 0; reads < UNDECIDED_PARTS; reads++) {
    const part = open.sort(byAge).shift()
    if (part === undefined) break
    if (part.kind === 'block') {
      for (const child of await childParts(db, tenantId, filter, part))
        (child.expected > 0 ? open : decided).push(child)
    } else if (part.kind === 'positions') decided.push(await readUnsure(db, tenantId, filter, part))
    else decided.push(part)
  }
  return [...decided, ...open]
}

/** Reads the possible matches of a part. */
async function readUnsure(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  part: PartOf<Positions>,
): Promise<PartOf<Positions>> {
  const { chain, unsure } = part
  const found = await countEntries(db, tenantId, { ...filter, part: { chain, seqs: unsure } })
  const more = sumOf(found)
  const kinds = new Kinds([...part.kinds, ...found]).all
  return { ...part, count: part.count + more, kinds, expected: 0, unsure: more > 0 ? unsure : [] }
}

/** The blocks with matches or possible matches in a block above level 1. */
async function childParts(db: Db, tenantId: string, filter: EntryFilter, part: PartOf<Block>): Promise<Part[]> {
  const children = await readChildren(db, tenantId, [part.block], {})
  const wanted = children.filter(({ block }) => part.members.includes(block % BLOCKS_PER_PARENT))
  return (await blockParts(db, tenantId, filter, wanted)).filter(hasMatches)
}

/** The entries of one user or key in these blocks. */
async function ownedParts(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  inside: readonly BlockBounds[],
): Promise<Part[]> {
  const single = await readOwnersIn(
    db,
    tenantId,
    inside.filter(({ level }) => level === 1),
    filter,
  )
  const wanted = toOwnedFilter(filter)
  const parts = single.flatMap(({ bounds, owners }) =>
    owners.flatMap(({ groups }) => toOwnedPart(wanted, bounds, groups)),
  )
  const owner = filter.userId ?? (await findOwnerOfKey(db, tenantId, filter.keyId ?? ''))
  const runs = await Promise.all(runsOf(inside).map((run) => readOwned(db, tenantId, filter, owner, run)))
  return [...parts, ...runs.flat()]
}

/** The entries of one user or key in blocks of level 2, newest blocks first, and the blocks that were not read. */
async function readOwned(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  owner: string | undefined,
  { chain, from, to }: EntryRange,
): Promise<Part[]> {
  let query = db
    .selectFrom('log_owners')
    .select(['block', 'groups', 'first_at', 'last_at'])
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .where('block', '>=', from)
    .where('block', '<', to)
  if (owner !== undefined) query = query.where('user_id', '=', owner)
  if (filter.keyId !== undefined) query = query.where('api_key_id', '=', filter.keyId)
  const rows = await query.orderBy('block', 'desc').limit(OWNED_BLOCKS).execute()
  const wanted = toOwnedFilter(filter)
  const parts = rows.flatMap(({ groups, ...bounds }) =>
    toOwnedPart(wanted, { chain, level: 2, ...bounds }, fromStoredOwned(JSON.parse(groups))),
  )
  const last = rows.at(-1)
  if (rows.length < OWNED_BLOCKS || last === undefined || last.block === from) return parts
  // Assumes that older blocks contain as many matches per block as the blocks that were read.
  const known = parts.reduce((sum, { count, expected }) => sum + count + expected, 0)
  const expected = Math.ceil((Math.max(1, known) * (last.block - from)) / (to - last.block))
  const { first_at, last_at } = last
  const run = { chain, from, to: last.block }
  return [...parts, { kind: 'unread', owner, run, first_at, last_at, count: 0, kinds: [], expected }]
}

/** The conditions that the groups of an owner show, and whether there are others. */
type OwnedFilter = Pick<EntryFilter, 'types' | 'severity'> & { hasOthers: boolean }

function toOwnedFilter({ userId, keyId, types, severity, ...others }: EntryFilter): OwnedFilter {
  return { types, severity, hasOthers: hasContentFilter(others) }
}

/**
 * The entries of one owner in a block. If the filter has conditions that the groups do not show, the entries are only
 * possible matches. A count reads thousands of blocks, so positions are computed only when they are read.
 */
function toOwnedPart(
  { types, severity, hasOthers }: OwnedFilter,
  block: BlockBounds,
  groups: readonly OwnedGroup[],
): Part[] {
  const possible = groups.filter(
    (group) =>
      (types === undefined || (group.type !== null && types.includes(group.type))) &&
      (severity === undefined || group.severity === severity),
  )
  const count = sumOf(possible)
  if (count === 0) return []
  const { chain, first_at, last_at } = block
  const first = block.block * entriesIn(block.level)
  const toSeqs = () => possible.flatMap(({ members }) => members.map((at) => first + at))
  if (hasOthers) {
    return [
      {
        ...{ kind: 'positions', chain, first_at, last_at, seqs: [], count: 0, kinds: [], expected: count / 2 },
        get unsure() {
          return toSeqs()
        },
      },
    ]
  }
  return [
    {
      ...{ kind: 'positions', chain, first_at, last_at, unsure: [], count, kinds: possible, expected: 0 },
      get seqs() {
        return toSeqs()
      },
    },
  ]
}

/** The user of a key. Undefined for a deleted key, whose blocks are then searched under all users. */
async function findOwnerOfKey(db: Db, tenantId: string, keyId: string): Promise<string | undefined> {
  const key = await db
    .selectFrom('api_keys')
    .select('user_id')
    .where('tenant_id', '=', tenantId)
    .where('id', '=', keyId)
    .executeTakeFirst()
  return key?.user_id
}

/** The runs of consecutive blocks of level 2 in these blocks. */
function runsOf(blocks: readonly BlockBounds[]): EntryRange[] {
  const spans = blocks
    .filter(({ level }) => level > 1)
    .map(({ chain, level, block }) => {
      const size = entriesIn(level) / entriesIn(2)
      return { chain, from: block * size, to: (block + 1) * size }
    })
  spans.sort((one, other) => (one.chain === other.chain ? one.from - other.from : one.chain < other.chain ? -1 : 1))
  const runs: EntryRange[] = []
  for (const span of spans) {
    const last = runs.at(-1)
    if (last && last.chain === span.chain && last.to === span.from) last.to = span.to
    else runs.push(span)
  }
  return runs
}

/** Counts by type and severity. */
class Kinds {
  readonly #byName = new Map<string, EntryCount>()

  constructor(start: readonly EntryCount[] = []) {
    for (const { type, severity, count } of start) this.add(type, severity, count)
  }

  add(type: string | null, severity: string | null, count: number): void {
    // Values contain no NUL, so names differ if values differ.
    const name = `${type ?? '\0'}\0${severity ?? '\0'}`
    const known = this.#byName.get(name)
    if (known) known.count += count
    else this.#byName.set(name, { type, severity, count })
  }

  get all(): EntryCount[] {
    return [...this.#byName.values()]
  }
}

/** The sums over all parts. Expected matches are distributed like the known matches. */
function sumKinds(parts: readonly Part[]): EntryCount[] {
  const sums = new Kinds(parts.flatMap(({ kinds }) => kinds)).all
  const expected = parts.reduce((sum, part) => sum + part.expected, 0)
  const factor = 1 + expected / Math.max(1, sumOf(sums))
  return sums.map((kind) => ({ ...kind, count: Math.round(kind.count * factor) }))
}

const byAge = (one: { last_at: string }, other: { last_at: string }): number =>
  one.last_at > other.last_at ? -1 : one.last_at < other.last_at ? 1 : 0

type Match = { id: string; created_at: string }

const newestFirst = (one: Match, other: Match): number => {
  if (one.created_at !== other.created_at) return one.created_at > other.created_at ? -1 : 1
  return one.id > other.id ? -1 : 1
}

/** Joins parts that consist of positions in the same chain, so that one statement reads them. */
function joinPositions(parts: readonly Part[]): Part[] {
  const joined: Part[] = []
  const open = new Map<string, PartOf<Positions>>()
  for (const part of parts) {
    const last = part.kind === 'positions' ? open.get(part.chain) : undefined
    if (part.kind !== 'positions') joined.push(part)
    else if (last && last.seqs.length + last.unsure.length < POSITIONS_PER_READ) {
      last.seqs.push(...part.seqs)
      last.unsure.push(...part.unsure)
    } else {
      const copy = { ...part, seqs: [...part.seqs], unsure: [...part.unsure] }
      open.set(part.chain, copy)
      joined.push(copy)
    }
  }
  return joined
}

function createFinder(db: Db, tenantId: string, filter: EntryFilter) {
  /** The filter with a period up to `until`, inclusive. */
  const upTo = (until: string | undefined): EntryFilter =>
    until !== undefined && (filter.endDate === undefined || until < filter.endDate)
      ? { ...filter, endDate: until }
      : filter

  /** The smaller parts that make up a part. Undefined if its matches can be read. */
  function divide(part: Part): Promise<Part[]> | undefined {
    if (part.kind === 'block') return childParts(db, tenantId, filter, part)
    return part.kind === 'unread' ? readOwned(db, tenantId, filter, part.owner, part.run) : undefined
  }

  /** The matches of a part up to `until`. */
  async function matchesOf(part: Part, until: string | undefined): Promise<Match[]> {
    const allowed = upTo(until)
    const read = (where: EntryFilter) => matching(db, tenantId, where).select(['id', 'created_at']).execute()
    if (part.kind === 'range') return read({ ...allowed, part: part.range })
    if (part.kind !== 'positions') return []
    const { chain, seqs, unsure } = part
    const { startDate, endDate } = allowed
    const found = await Promise.all([
      seqs.length > 0 ? read({ startDate, endDate, part: { chain, seqs } }) : [],
      unsure.length > 0 ? read({ ...allowed, part: { chain, seqs: unsure } }) : [],
    ])
    return found.flat()
  }

  /**
   * Finds a time with nearly `offset` newer matches, but never more than `offset`. Returns this time, the number of
   * further matches to skip, and the parts that may have matches up to this time.
   */
  async function skip(parts: readonly Part[], offset: number) {
    let known = [...parts]
    for (;;) {
      known.sort(byAge)
      let newer = 0
      let at = 0
      while (at < known.length && newer + (known[at] as Part).count <= offset) newer += (known[at++] as Part).count
      const next = known[at]
      if (next === undefined) return { until: '', rest: 0, left: [] }
      const until = next.last_at
      // All parts before `at` end at `until` or later. Parts that begin at `until` or earlier may have matches on both
      // sides.
      const across = known.slice(0, at).filter(({ first_at }) => first_at <= until)
      const divisible = new Set([...across, next].filter(({ kind }) => kind === 'block'))
      if (divisible.size > 0) {
        const smaller = await Promise.all([...divisible].map((part) => divide(part) ?? []))
        known = [...known.filter((part) => !divisible.has(part)), ...smaller.flat()]
        continue
      }
      const older = await Promise.all(across.map((part) => matchesOf(part, until)))
      const skipped = newer - older.reduce((sum, matches) => sum + matches.length, 0)
      return { until, rest: offset - skipped, left: [...across, ...known.slice(at)] }
    }
  }

  /** The matches of a filter by time alone, in the order of an index. */
  async function byTime(until: string | undefined, offset: number, length: number): Promise<string[]> {
    const rows = await matching(db, tenantId, upTo(until))
      .select('id')
      .orderBy('created_at', 'desc')
      .orderBy('id', 'desc')
      .offset(offset)
      .limit(length)
      .execute()
    return rows.map(({ id }) => id)
  }

  /** Reads the parts, newest first, until the remaining parts can contain only older matches. */
  async function collect(
    parts: readonly Part[],
    until: string | undefined,
    offset: number,
    length: number,
  ): Promise<string[]> {
    const needed = offset + length
    let left = [...parts].sort(byAge)
    let found: Match[] = []
    while (left.length > 0) {
      const last = found[needed - 1]
      if (last && last.created_at > (left[0] as Part).last_at) break
      const batch: Part[] = []
      let expected = found.length
      for (const part of left) {
        batch.push(part)
        expected += part.count + part.expected
        if (part.kind === 'block' || part.kind === 'unread' || expected >= needed) break
      }
      left = left.slice(batch.length)
      const whole: Part[] = []
      for (const part of batch) {
        const smaller = await divide(part)
        if (smaller) left.push(...smaller)
        else whole.push(part)
      }
      const matches = await Promise.all(joinPositions(whole).map((part) => matchesOf(part, until)))
      found.push(...matches.flat())
      left.sort(byAge)
      found = found.sort(newestFirst)
    }
    return found.slice(offset, needed).map(({ id }) => id)
  }

  return { skip, byTime, collect }
}
