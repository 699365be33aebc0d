// Uses the blocks of the log (log-blocks.ts) to count and find the matching entries of a period. This file is long,
// because counting and finding walk the same blocks under the same limits.
import { sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import type { EvidenceEntryRow, LogOwnerRow } from '../../platform/db/tables.ts'
import { createPacer } from '../../platform/pacing.ts'
import { type EntryFilter, type EntryPlace, type EntryRange, hasContentFilter, testGroup } from './entry-filter.ts'
import {
  countAt,
  countRanges,
  type EntryCount,
  findInRanges,
  findMatches,
  findPage,
  findRows,
  Kinds,
  type MarkedCount,
  type Match,
  newestFirst,
  together,
  unionsOf,
} from './entry-search.ts'
import {
  BLOCK_ENTRIES,
  type BlockGroup,
  entriesIn,
  fromStoredOwned,
  type OwnedEntries,
  type OwnedGroup,
  parseGroups,
  parseOwners,
} from './log-blocks.ts'
import {
  type BlockBounds,
  type ChainExtent,
  childPlaces,
  FIRST_TIME,
  LAST_TIME,
  readBlocks,
  readPeriod,
  type StoredBlock,
} from './log-map.ts'

/** The matching entries of one list. */
export type LogView = {
  total: number
  /** Whether `total` and `counts` are estimates. */
  estimated: boolean
  counts: EntryCount[]
  /** `length` matching entries in descending order of time and id. Skips the first `offset` matches. */
  newest(offset: number, length: number): Promise<EvidenceEntryRow[]>
}

/** Maximum number of parts of the log that a count reads because their summaries are not sufficient. */
const UNDECIDED_PARTS = 32
/** Maximum number of blocks of one user or key, per chain, that are read at once. */
const OWNED_BLOCKS = 500

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
  | { kind: 'range'; range: EntryRange; matches: Match[] | undefined }
  | Unread
)
/** A block above level 1, and the positions of the blocks in it that have matches or possible matches. */
type Block = { kind: 'block'; block: BlockBounds; members: number[] }
/** Matches and possible matches by their position in the chain. */
type Positions = { kind: 'positions'; chain: string; readonly seqs: number[]; readonly unsure: number[] }
/** Level-2 blocks with entries of `owner` (if known) that were not read. */
type Unread = { kind: 'unread'; owner: string | undefined; run: EntryRange }
type PartOf<Kind extends Block | Positions | Unread> = Part & Kind

export async function openLogView(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  extents: readonly ChainExtent[],
): Promise<LogView> {
  const isOwned = filter.userId !== undefined || filter.keyId !== undefined
  const { inside, ranges } = await readPeriod(db, tenantId, extents, filter, isOwned ? 'owners' : 'groups')
  const [read, found] = await Promise.all([
    readRanges(db, tenantId, filter, ranges),
    isOwned ? ownedParts(db, tenantId, filter, inside) : blockParts(filter, inside),
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
      const isByTime = !hasContentFilter(filter)
      const older = total - offset - length
      // The end of the log is read from its end.
      if (isByTime && isCertain && older >= 0 && older < Math.min(offset, BLOCK_ENTRIES)) {
        return (await findPage(db, tenantId, filter, { sortOrder: 'asc', offset: older, length })).reverse()
      }
      const { until, rest, left } =
        isCertain && offset >= BLOCK_ENTRIES
          ? await finder.skip(parts, offset)
          : { until: LAST_TIME, rest: offset, left: parts }
      return isByTime ? finder.byTime(until, rest, length) : finder.collect(left, until, rest, length)
    },
  }
}

const hasMatches = ({ count, expected }: Part): boolean => count + expected > 0

/**
 * Reads ranges of entries and counts their matches. Keeps the matches of a filter by content, because they are few and
 * each payload is parsed to find them.
 */
async function readRanges(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  ranges: readonly EntryRange[],
): Promise<Part[]> {
  const toPart = (mark: number, kinds: MarkedCount[], matches?: Match[]): Part => ({
    kind: 'range',
    range: ranges[mark] as EntryRange,
    matches,
    count: sumOf(kinds),
    kinds: new Kinds(kinds).all,
    expected: 0,
    first_at: kinds.reduce((first, { first_at }) => (first_at < first ? first_at : first), LAST_TIME),
    last_at: kinds.reduce((last, { last_at }) => (last_at > last ? last_at : last), FIRST_TIME),
  })
  if (hasContentFilter(filter)) {
    const found = await findInRanges(db, tenantId, filter, ranges)
    const counted = found.map((match) => ({
      ...{ ...match, count: 1, first_at: match.created_at, last_at: match.created_at },
    }))
    return [...byMark(counted)].map(([mark, matches]) => toPart(mark, matches, matches))
  }
  return [...byMark(await countRanges(db, tenantId, filter, ranges))].map(([mark, kinds]) => toPart(mark, kinds))
}

function byMark<Count extends MarkedCount>(counts: readonly Count[]): Map<number, Count[]> {
  const lists = new Map<number, Count[]>()
  for (const count of counts) {
    const list = lists.get(count.mark)
    if (list) list.push(count)
    else lists.set(count.mark, [count])
  }
  return lists
}

const sumOf = (kinds: readonly { count: number }[]): number => kinds.reduce((sum, { count }) => sum + count, 0)

/** The matches in these blocks, as far as their groups show them. */
async function blockParts(filter: EntryFilter, blocks: readonly StoredBlock[]): Promise<Part[]> {
  const pacer = createPacer()
  const parts: Part[] = []
  for (const { text, ...block } of blocks) {
    const turn = pacer.turn()
    if (turn) await turn
    parts.push(toPart(filter, block, text === null ? [] : parseGroups(text)))
  }
  return parts
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
 * For parts that the summaries leave open, reads the lower blocks, then the entries: all open parts together, level by
 * level. Stops if there is too much to read.
 */
async function decide(db: Db, tenantId: string, filter: EntryFilter, parts: readonly Part[]): Promise<Part[]> {
  const decided: Part[] = parts.filter(({ expected }) => expected === 0)
  const open = parts.filter(({ expected }) => expected > 0)
  for (let reads = 0; reads < UNDECIDED_PARTS && open.length > 0; ) {
    const batch = open.sort(byAge).splice(0, UNDECIDED_PARTS - reads)
    reads += batch.length
    const [children, read] = await Promise.all([
      childParts(db, tenantId, filter, batch.filter(isBlock)),
      readUnsure(db, tenantId, filter, batch.filter(isPositions)),
    ])
    const others = batch.filter((part) => !isBlock(part) && !isPositions(part))
    for (const child of children) (child.expected > 0 ? open : decided).push(child)
    decided.push(...read, ...others)
  }
  return [...decided, ...open]
}

const isBlock = (part: Part): part is PartOf<Block> => part.kind === 'block'
const isPositions = (part: Part): part is PartOf<Positions> => part.kind === 'positions'
const isUnread = (part: Part): part is PartOf<Unread> => part.kind === 'unread'

/** Reads the possible matches of these parts. */
async function readUnsure(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  parts: readonly PartOf<Positions>[],
): Promise<PartOf<Positions>[]> {
  const places = parts.flatMap(({ chain, unsure }, mark) => placesOf(chain, unsure, mark))
  const found = byMark(await countAt(db, tenantId, filter, places))
  return parts.map((part, mark) => {
    const more = found.get(mark) ?? []
    const kinds = new Kinds([...part.kinds, ...more]).all
    const { chain, first_at, last_at, seqs } = part
    const unsure = more.length > 0 ? part.unsure : []
    return {
      ...{ kind: 'positions', chain, first_at, last_at, seqs, unsure },
      ...{ count: part.count + sumOf(more), kinds, expected: 0 },
    }
  })
}

const placesOf = (chain: string, seqs: readonly number[], mark = 0): EntryPlace[] =>
  seqs.map((seq) => ({ chain, seq, mark }))

/** The parts with matches or possible matches in these blocks above level 1. */
async function childParts(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  parts: readonly PartOf<Block>[],
): Promise<Part[]> {
  const places = parts.flatMap(({ block, members }) => childPlaces(block, members))
  return (await blockParts(filter, await readBlocks(db, tenantId, places, {}, 'groups'))).filter(hasMatches)
}

/** The entries of one user or key in these blocks. */
async function ownedParts(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  inside: readonly StoredBlock[],
): Promise<Part[]> {
  const wanted = toOwnedFilter(filter)
  const single = inside.flatMap(({ text, ...bounds }) =>
    ownersIn(filter, text ?? '').flatMap(({ groups }) => toOwnedPart(wanted, bounds, groups)),
  )
  const owner = filter.userId ?? (await findOwnerOfKey(db, tenantId, filter.keyId ?? ''))
  return [...single, ...(await readOwned(db, tenantId, filter, owner, runsOf(inside)))]
}

/** The entries of the filter's user or key in the stored owners of a block. */
function ownersIn({ userId, keyId }: EntryFilter, stored: string): OwnedEntries[] {
  // Parsing takes far longer than this search, and most blocks have no entry of this user or key.
  const names = [userId, keyId].flatMap((name) => (name === undefined ? [] : JSON.stringify(name)))
  if (stored === '' || !names.every((name) => stored.includes(name))) return []
  return parseOwners(stored).filter(
    (owner) => (userId === undefined || owner.userId === userId) && (keyId === undefined || owner.keyId === keyId),
  )
}

/**
 * The entries of one user or key in these runs of blocks of level 2, newest blocks first, and the blocks that were not
 * read.
 */
async function readOwned(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  owner: string | undefined,
  runs: readonly EntryRange[],
): Promise<Part[]> {
  const queries = runs.map(({ chain, from, to }, at) => {
    let query = db
      .selectFrom('log_owners')
      .select([sql.lit(at).as('run'), 'block', 'groups', 'first_at', 'last_at'])
      .where('tenant_id', '=', tenantId)
      .where('chain', '=', chain)
      .where('block', '>=', from)
      .where('block', '<', to)
    if (owner !== undefined) query = query.where('user_id', '=', owner)
    if (filter.keyId !== undefined) query = query.where('api_key_id', '=', filter.keyId)
    return db.selectFrom(query.orderBy('block', 'desc').limit(OWNED_BLOCKS).as('newest')).selectAll()
  })
  const rows = await together(unionsOf(queries).map((query) => query.execute()))
  const wanted = toOwnedFilter(filter)
  return runs.flatMap((run, at) =>
    ownedPartsOf(
      wanted,
      owner,
      run,
      rows.filter((row) => row.run === at),
    ),
  )
}

type OwnedRow = Pick<LogOwnerRow, 'block' | 'groups' | 'first_at' | 'last_at'>

/** The entries of one user or key in a run of blocks. `rows` are the newest OWNED_BLOCKS blocks of the run. */
function ownedPartsOf(
  wanted: OwnedFilter,
  owner: string | undefined,
  { chain, from, to }: EntryRange,
  rows: readonly OwnedRow[],
): Part[] {
  const parts = rows.flatMap(({ block, first_at, last_at, groups }) =>
    toOwnedPart(wanted, { chain, level: 2, block, first_at, last_at }, fromStoredOwned(JSON.parse(groups))),
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

/** The sums over all parts. Expected matches are distributed like the known matches. */
function sumKinds(parts: readonly Part[]): EntryCount[] {
  const sums = new Kinds(parts.flatMap(({ kinds }) => kinds)).all
  const expected = parts.reduce((sum, part) => sum + part.expected, 0)
  const factor = 1 + expected / Math.max(1, sumOf(sums))
  return sums.map((kind) => ({ ...kind, count: Math.round(kind.count * factor) }))
}

const byAge = (one: { last_at: string }, other: { last_at: string }): number =>
  one.last_at > other.last_at ? -1 : one.last_at < other.last_at ? 1 : 0

function createFinder(db: Db, tenantId: string, filter: EntryFilter) {
  /** The filter with a period up to `until`, inclusive. */
  const upTo = (until: string): EntryFilter =>
    until < (filter.endDate ?? LAST_TIME) ? { ...filter, endDate: until } : filter

  /** The smaller parts that make up these parts. */
  async function divide(blocks: readonly PartOf<Block>[], unread: readonly PartOf<Unread>[]): Promise<Part[]> {
    const [first] = unread
    const [children, owned] = await Promise.all([
      childParts(db, tenantId, filter, blocks),
      first
        ? readOwned(
            db,
            tenantId,
            filter,
            first.owner,
            unread.map(({ run }) => run),
          )
        : [],
    ])
    return [...children, ...owned]
  }

  /** The matches of these parts up to `until`. */
  async function matchesOf(parts: readonly Part[], until: string): Promise<Match[]> {
    const positions = parts.filter(isPositions)
    const ranges = parts.flatMap((part) => (part.kind === 'range' ? [part] : []))
    const kept = ranges.flatMap(({ matches = [] }) => matches.filter(({ created_at }) => created_at <= until))
    const found = await findMatches(db, tenantId, upTo(until), {
      ranges: ranges.flatMap(({ range, matches }) => (matches ? [] : [range])),
      known: positions.flatMap(({ chain, seqs }) => placesOf(chain, seqs)),
      unsure: positions.flatMap(({ chain, unsure }) => placesOf(chain, unsure)),
    })
    return [...kept, ...found]
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
      const divisible = new Set<Part>([...across, next].filter(isBlock))
      if (divisible.size > 0) {
        // The time may be in older blocks too, if they overlap the next part.
        if (isBlock(next)) {
          for (const part of known.slice(at)) if (isBlock(part) && part.last_at >= next.first_at) divisible.add(part)
        }
        const smaller = await divide([...divisible].filter(isBlock), [])
        known = [...known.filter((part) => !divisible.has(part)), ...smaller]
        continue
      }
      const older = await matchesOf(across, until)
      return { until, rest: offset - newer + older.length, left: [...across, ...known.slice(at)] }
    }
  }

  /** The matches of a filter by time alone, in the order of an index. */
  const byTime = (until: string, offset: number, length: number) =>
    findPage(db, tenantId, upTo(until), { sortOrder: 'desc', offset, length })

  /** Reads the parts, newest first, until the remaining parts can contain only older matches. */
  async function collect(parts: readonly Part[], until: string, offset: number, length: number) {
    const needed = offset + length
    let left = [...parts].sort(byAge)
    let found: Match[] = []
    while (left.length > 0) {
      const last = found[needed - 1]
      if (last && last.created_at > (left[0] as Part).last_at) break
      const batch = nextBatch(left, needed - found.length)
      left = left.slice(batch.length)
      const blocks = batch.filter(isBlock)
      const unread = batch.filter(isUnread)
      if (blocks.length + unread.length > 0) {
        const rest = batch.filter((part) => !isBlock(part) && !isUnread(part))
        left.push(...rest, ...(await divide(blocks, unread)))
        left.sort(byAge)
      } else found = [...found, ...(await matchesOf(batch, until))].sort(newestFirst)
    }
    return findRows(db, found.slice(offset, needed))
  }

  return { skip, byTime, collect }
}

/** The newest parts that contain this number of matches, and the parts that overlap them. At least one part. */
function nextBatch(parts: readonly Part[], needed: number): Part[] {
  const batch: Part[] = []
  let expected = 0
  let firstAt = ''
  for (const part of parts) {
    const isEnough = batch.length > 0 && expected >= needed
    if (isEnough && (part.last_at < firstAt || isBlock(part) || isUnread(part))) break
    batch.push(part)
    if (!isEnough) firstAt = batch.length === 1 || part.first_at < firstAt ? part.first_at : firstAt
    expected += part.count + part.expected
  }
  return batch
}
