// The parts of a tenant's log that overlap a period: summarised blocks, and ranges of entries that must be read.
import { sql } from 'kysely'
import { chunksOf } from '../../../shared/lists.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { rowList } from '../../platform/db/row-list.ts'
import type { EntryRange } from './entry-filter.ts'
import { BLOCK_ENTRIES, BLOCKS_PER_PARENT, entriesIn, TOP_LEVEL } from './log-blocks.ts'

/** A block of a chain. `block` is its position among the blocks of its level. */
export type BlockPlace = { chain: string; level: number; block: number }

/** A stored block without its groups. */
export type BlockBounds = BlockPlace & { first_at: string; last_at: string }

/** A stored block with one of its columns. `text` is null if the block is only partly within the period. */
export type StoredBlock = BlockBounds & { text: string | null }

export type Period = { startDate?: string | undefined; endDate?: string | undefined }

/** For each chain: how many entries exist, and how many of them are in complete level-1 blocks. */
export type ChainExtent = { chain: string; size: number; summarised: number }

/** The extents of a tenant's chains. Reads only a few rows per chain. */
export async function readExtents(db: Db, tenantId: string): Promise<ChainExtent[]> {
  const entries = sql`from evidence_entries where tenant_id = ${tenantId}`
  const { rows } = await sql<{ chain: string; size: number; known: number }>`
    with recursive chains (chain) as (
      select (select min(chain) ${entries})
      union all
      select (select min(chain) ${entries} and chain > chains.chain) from chains where chain is not null
    )
    select chain,
      (select max(seq) + 1 ${entries} and chain = chains.chain) as size,
      coalesce((
        select size from log_positions where tenant_id = ${tenantId} and log_positions.chain = chains.chain
      ), 0) as known
    from chains where chain is not null`.execute(db)
  return rows.map(({ chain, size, known }) => {
    const summarised = Math.min(size, known)
    return { chain, size, summarised: summarised - (summarised % BLOCK_ENTRIES) }
  })
}

/** The ranges of entries outside all blocks. */
const tailsOf = (extents: readonly ChainExtent[]): EntryRange[] =>
  extents.flatMap(({ chain, size, summarised }) => (size > summarised ? [{ chain, from: summarised, to: size }] : []))

/** The largest blocks. Together, they contain all summarised entries. */
function topPlaces(extents: readonly ChainExtent[]): BlockPlace[] {
  const places: BlockPlace[] = []
  for (const { chain, summarised } of extents) {
    let from = 0
    for (let level = TOP_LEVEL; level > 0; level--) {
      const to = Math.floor(summarised / entriesIn(level))
      for (let block = from; block < to; block++) places.push({ chain, level, block })
      from = to * BLOCKS_PER_PARENT
    }
  }
  return places
}

/** The blocks of the next lower level in a block, at these positions in it. */
export const childPlaces = ({ chain, level, block }: BlockPlace, members: readonly number[]): BlockPlace[] =>
  members.map((member) => ({ chain, level: level - 1, block: block * BLOCKS_PER_PARENT + member }))

const ALL_CHILDREN = Array.from({ length: BLOCKS_PER_PARENT }, (_, at) => at)

/**
 * The largest blocks within a period, with one of their columns, and all ranges of entries of the period that are
 * outside these blocks.
 */
export async function readPeriod(
  db: Db,
  tenantId: string,
  extents: readonly ChainExtent[],
  period: Period,
  column: BlockColumn,
): Promise<{ inside: StoredBlock[]; ranges: EntryRange[] }> {
  const { startDate = FIRST_TIME, endDate = LAST_TIME } = period
  const inside: StoredBlock[] = []
  const ranges = tailsOf(extents)
  let places = topPlaces(extents)
  while (places.length > 0) {
    const blocks = await readBlocks(db, tenantId, places, period, column)
    places = []
    for (const block of blocks) {
      if (block.first_at >= startDate && block.last_at <= endDate) inside.push(block)
      else if (block.level > 1) places.push(...childPlaces(block, ALL_CHILDREN))
      else ranges.push(rangeOf(block))
    }
  }
  return { inside, ranges }
}

const rangeOf = ({ chain, block }: BlockPlace): EntryRange => ({
  chain,
  from: block * BLOCK_ENTRIES,
  to: (block + 1) * BLOCK_ENTRIES,
})

/** The columns with the content of blocks. Only blocks of level 1 have owners. */
type BlockColumn = 'groups' | 'owners'

/** Before and after every ISO time. */
export const [FIRST_TIME, LAST_TIME] = ['', '~']

const BLOCK_KEY = 'tenant_id = in_tenant and chain = in_chain and level = in_level and block = in_block'

/** Maximum number of blocks that one statement reads. */
const BLOCKS_PER_READ = 500

/** Those of these blocks that overlap a period. Blocks that were removed in the meantime are omitted. */
export async function readBlocks(
  db: Db,
  tenantId: string,
  places: readonly BlockPlace[],
  { startDate = FIRST_TIME, endDate = LAST_TIME }: Period,
  column: BlockColumn,
): Promise<StoredBlock[]> {
  const reads = chunksOf(places, BLOCKS_PER_READ).map(async (chunk) => {
    const rows = chunk.map(({ chain, level, block }) => ({ in_chain: chain, in_level: level, in_block: block }))
    const listed = rowList(db, { in_chain: 'text', in_level: 'integer', in_block: 'integer' }, rows)
    const byKey = engineOf(db).joinByKey('log_blocks', BLOCK_KEY)
    return sql<StoredBlock>`
      select chain, level, block, first_at, last_at,
        case when first_at >= ${startDate} and last_at <= ${endDate} then ${sql.ref(column)} end as text
      from (select ${tenantId} as in_tenant, place.* from ${listed} as place) as place ${sql.raw(byKey)}
      where last_at >= ${startDate} and first_at <= ${endDate}`.execute(db)
  })
  return (await Promise.all(reads)).flatMap(({ rows }) => rows)
}
