// The parts of a tenant's log that overlap a period: summarised blocks, and ranges of entries that must be read.
import type { Db } from '../../platform/db/db.ts'
import {
  BLOCK_ENTRIES,
  BLOCKS_PER_PARENT,
  type BlockGroup,
  entriesIn,
  type OwnedEntries,
  parseGroups,
  parseOwners,
  TOP_LEVEL,
} from './log-blocks.ts'
import { measureChains } from './store.ts'

/** Entries of a chain from `from` (inclusive) to `to` (exclusive). */
export type EntryRange = { chain: string; from: number; to: number }

/** A stored block without its groups. */
export type BlockBounds = { chain: string; level: number; block: number; first_at: string; last_at: string }

export type Period = { startDate?: string | undefined; endDate?: string | undefined }

/** For each chain: how many entries exist, and how many of them are in complete level-1 blocks. */
export type ChainExtent = { chain: string; size: number; summarised: number }

export async function readExtents(db: Db, tenantId: string): Promise<ChainExtent[]> {
  const positions = await db.selectFrom('log_positions').selectAll().where('tenant_id', '=', tenantId).execute()
  const sizes = new Map(positions.map(({ chain, size }) => [chain, size]))
  return (await measureChains(db, tenantId)).map(({ chain, size }) => {
    const known = Math.min(size, sizes.get(chain) ?? 0)
    return { chain, size, summarised: known - (known % BLOCK_ENTRIES) }
  })
}

/** The ranges of entries outside all blocks. */
export const tailsOf = (extents: readonly ChainExtent[]): EntryRange[] =>
  extents.flatMap(({ chain, size, summarised }) => (size > summarised ? [{ chain, from: summarised, to: size }] : []))

/** Blocks of one level of a chain, from `from` (inclusive) to `to` (exclusive). */
type BlockRange = { chain: string; level: number; from: number; to: number }

/** The largest stored blocks that overlap a period. Together, they contain all its summarised entries. */
export const readTopBlocks = (
  db: Db,
  tenantId: string,
  extents: readonly ChainExtent[],
  period: Period,
): Promise<BlockBounds[]> =>
  readBounds(
    db,
    tenantId,
    period,
    extents.flatMap(({ chain, summarised }) => {
      const ranges: BlockRange[] = []
      let from = 0
      for (let level = TOP_LEVEL; level > 0; level--) {
        const to = Math.floor(summarised / entriesIn(level))
        ranges.push({ chain, level, from, to })
        from = to * BLOCKS_PER_PARENT
      }
      return ranges
    }),
  )

/** The child blocks of the given blocks (level 2 and above) that overlap a period. */
export const readChildren = (
  db: Db,
  tenantId: string,
  blocks: readonly BlockBounds[],
  period: Period,
): Promise<BlockBounds[]> =>
  readBounds(
    db,
    tenantId,
    period,
    blocks.map(({ chain, level, block }) => ({
      chain,
      level: level - 1,
      from: block * BLOCKS_PER_PARENT,
      to: (block + 1) * BLOCKS_PER_PARENT,
    })),
  )

async function readBounds(
  db: Db,
  tenantId: string,
  { startDate, endDate }: Period,
  ranges: readonly BlockRange[],
): Promise<BlockBounds[]> {
  let query = db
    .selectFrom('log_blocks')
    .select(['chain', 'level', 'block', 'first_at', 'last_at'])
    .where('tenant_id', '=', tenantId)
  if (startDate !== undefined) query = query.where('last_at', '>=', startDate)
  if (endDate !== undefined) query = query.where('first_at', '<=', endDate)
  // One query for each range: the engines read a range of the key, but not several ranges joined by `or`.
  const found = await Promise.all(
    ranges.flatMap(({ chain, level, from, to }) =>
      from === to
        ? []
        : query
            .where('chain', '=', chain)
            .where('level', '=', level)
            .where('block', '>=', from)
            .where('block', '<', to)
            .execute(),
    ),
  )
  return found.flat()
}

/** Maximum number of blocks whose groups one statement reads. */
const BLOCKS_PER_READ = 200

/**
 * The groups of these blocks, in the same order. A block that was removed in the meantime has an empty list of groups.
 */
export async function readGroups(
  db: Db,
  tenantId: string,
  blocks: readonly BlockBounds[],
): Promise<(readonly BlockGroup[])[]> {
  const rows = await readRows(db, tenantId, blocks, 'groups')
  return blocks.map((block) => {
    const stored = rows.get(block)
    return stored === undefined ? [] : parseGroups(stored)
  })
}

/** One column of these blocks. Blocks that were removed in the meantime are omitted. */
async function readRows(
  db: Db,
  tenantId: string,
  blocks: readonly BlockBounds[],
  column: 'groups' | 'owners',
): Promise<Map<BlockBounds, string>> {
  const lists = new Map<string, BlockBounds[]>()
  for (const bounds of blocks) {
    const name = `${bounds.chain} ${bounds.level}`
    const list = lists.get(name)
    if (list) list.push(bounds)
    else lists.set(name, [bounds])
  }
  const reads: Promise<[BlockBounds, string][]>[] = []
  for (const list of lists.values()) {
    for (let from = 0; from < list.length; from += BLOCKS_PER_READ) {
      reads.push(readPart(db, tenantId, list.slice(from, from + BLOCKS_PER_READ), column))
    }
  }
  return new Map((await Promise.all(reads)).flat())
}

/** One column of these blocks of one chain and level. */
async function readPart(
  db: Db,
  tenantId: string,
  blocks: readonly BlockBounds[],
  column: 'groups' | 'owners',
): Promise<[BlockBounds, string][]> {
  const { chain, level } = blocks[0] as BlockBounds
  const byPosition = new Map(blocks.map((bounds) => [bounds.block, bounds]))
  const rows = await db
    .selectFrom('log_blocks')
    .select(['block', `${column} as text`])
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .where('level', '=', level)
    .where('block', 'in', [...byPosition.keys()])
    .execute()
  return rows.map(({ block, text }) => [byPosition.get(block) as BlockBounds, text])
}

/** The entries of one user or key in these blocks of level 1, for each block that has any. */
export async function readOwnersIn(
  db: Db,
  tenantId: string,
  blocks: readonly BlockBounds[],
  { userId, keyId }: { userId?: string | undefined; keyId?: string | undefined },
): Promise<{ bounds: BlockBounds; owners: OwnedEntries[] }[]> {
  const rows = await readRows(db, tenantId, blocks, 'owners')
  // Parsing takes far longer than this search, and most blocks have no entry of this user or key.
  const names = [userId, keyId].flatMap((name) => (name === undefined ? [] : JSON.stringify(name)))
  return blocks.flatMap((bounds) => {
    const stored = rows.get(bounds)
    if (!stored || !names.every((name) => stored.includes(name))) return []
    const owners = parseOwners(stored).filter(
      (owner) => (userId === undefined || owner.userId === userId) && (keyId === undefined || owner.keyId === keyId),
    )
    return owners.length > 0 ? [{ bounds, owners }] : []
  })
}
