import type { Db } from '../../platform/db/db.ts'
import { type Page, pageOf } from '../../platform/db/list-page.ts'
import type { EvidenceEntryRow } from '../../platform/db/tables.ts'
import { type EntryFilter, kindIn, matching } from './entry-filter.ts'
import { countEntries, type EntryCount, Kinds, newestFirst } from './entry-search.ts'
import { readExtents } from './log-map.ts'
import { openLogView } from './log-view.ts'

export type EntryPage = Page & { sortOrder: 'asc' | 'desc' }

/**
 * One page of entries, the number of all matching entries, and their number by type and severity. Type and severity are
 * null for expunged entries. If `estimated` is set, the numbers are estimates.
 */
export type EntryList = { rows: EvidenceEntryRow[]; total: number; estimated: boolean; counts: EntryCount[] }

/**
 * Chains with more unsummarised entries are listed without summaries. This happens only after an upgrade from a version
 * without summaries, until the daemon has summarised the log.
 */
const UNSUMMARISED_ENTRIES = 4_096
/** Up to this number, unsummarised entries are counted one by one. Totals of longer logs are estimated. */
const COUNTED_ENTRIES = 50_000
/** How many of the newest entries are used to estimate the totals of an unsummarised log. */
const SAMPLED_ENTRIES = 1_000

/**
 * One page of a tenant's matching entries, ordered by age. Filters on payload fields exclude entries whose payload was
 * expunged. A page reads the summaries of the log (log-blocks.ts), the entries on the page, and a few other entries.
 */
export async function listEntries(db: Db, tenantId: string, filter: EntryFilter, page: EntryPage): Promise<EntryList> {
  if (filter.id !== undefined) return listOne(db, tenantId, filter, page)
  if (filter.requestId !== undefined) {
    const near = idsNear(filter.requestId)
    const found = near && (await listOne(db, tenantId, { ...filter, ids: near }, page))
    return found && found.total > 0 ? found : listOne(db, tenantId, filter, page)
  }
  const extents = await readExtents(db, tenantId)
  const behind = extents.reduce((sum, { size, summarised }) => sum + size - summarised, 0)
  if (behind > UNSUMMARISED_ENTRIES + extents.length * UNSUMMARISED_PER_CHAIN) {
    return behind > COUNTED_ENTRIES
      ? listUnsummarised(db, tenantId, filter, page, extents)
      : listFew(db, tenantId, filter, page)
  }
  const view = await openLogView(db, tenantId, filter, extents)
  const { total, estimated, counts } = view
  const { limit, sortOrder } = page
  const offset = (page.page - 1) * limit
  if (offset >= total && !estimated) return { rows: [], total, estimated, counts }
  if (estimated && sortOrder === 'asc') {
    const { rows } = await pageBySql(db, tenantId, filter, page, Number.MAX_SAFE_INTEGER)
    return { rows, total, estimated, counts }
  }
  // Entries are always read newest first, so an ascending page is read from the other end and reversed.
  const isReversed = sortOrder === 'asc'
  const length = isReversed ? Math.min(limit, total - offset) : limit
  const from = isReversed ? total - offset - length : offset
  const rows = length > 0 ? await view.newest(Math.max(0, from), length) : []
  return { rows: isReversed ? rows.reverse() : rows, total, estimated, counts }
}

/** The maximum number of entries of one request that are read to list them. */
const ENTRIES_OF_ONE = 200

/** Lists and counts the entries of one request. */
async function listOne(db: Db, tenantId: string, filter: EntryFilter, page: EntryPage): Promise<EntryList> {
  const rows = await matching(db, tenantId, filter)
    .selectAll()
    .limit(ENTRIES_OF_ONE + 1)
    .execute()
  if (rows.length > ENTRIES_OF_ONE) return listFew(db, tenantId, filter, page)
  rows.sort(newestFirst)
  if (page.sortOrder === 'asc') rows.reverse()
  const offset = (page.page - 1) * page.limit
  const { all: counts } = new Kinds(rows.map((row) => ({ ...kindIn(row), count: 1 })))
  return { rows: rows.slice(offset, offset + page.limit), total: rows.length, estimated: false, counts }
}

/** Lists and counts matches without summaries. */
async function listFew(db: Db, tenantId: string, filter: EntryFilter, page: EntryPage): Promise<EntryList> {
  const counts = await countEntries(db, tenantId, filter)
  const total = counts.reduce((sum, { count }) => sum + count, 0)
  const { rows } = await pageBySql(db, tenantId, filter, page, total)
  return { rows, total, estimated: false, counts }
}

const pageBySql = (db: Db, tenantId: string, filter: EntryFilter, { sortOrder, ...page }: EntryPage, total: number) =>
  pageOf(matching(db, tenantId, filter).select('id'), {
    ...page,
    sortKeys: ['created_at', 'id'],
    sortOrder,
    isSearch: false,
    total,
    find: (ids) => db.selectFrom('evidence_entries').selectAll().where('id', 'in', ids).execute(),
  })

/** An incomplete last block of each chain is normal. */
const UNSUMMARISED_PER_CHAIN = 256

/** Lists a log that is not yet summarised. Its numbers are estimated from its newest entries. */
async function listUnsummarised(
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  page: EntryPage,
  extents: readonly { size: number }[],
): Promise<EntryList> {
  const newest = await db
    .selectFrom('evidence_entries')
    .select('created_at')
    .where('tenant_id', '=', tenantId)
    .orderBy('created_at', 'desc')
    .offset(SAMPLED_ENTRIES - 1)
    .limit(1)
    .executeTakeFirst()
  const since = newest?.created_at ?? ''
  const startDate = filter.startDate !== undefined && filter.startDate > since ? filter.startDate : since
  const sampled = await countEntries(db, tenantId, { ...filter, startDate })
  // More than SAMPLED_ENTRIES entries may have the time `since` or a later time.
  const sample = (await countEntries(db, tenantId, { startDate: since })).reduce((sum, { count }) => sum + count, 0)
  const factor = startDate === since ? extents.reduce((sum, { size }) => sum + size, 0) / sample : 1
  const counts = sampled.map(({ count, ...kind }) => ({ ...kind, count: Math.round(count * factor) }))
  const { rows } = await pageBySql(db, tenantId, filter, page, Number.MAX_SAFE_INTEGER)
  const seen = (page.page - 1) * page.limit + rows.length
  const total = Math.max(
    seen,
    counts.reduce((sum, { count }) => sum + count, 0),
  )
  return { rows, total, estimated: true, counts }
}

/** The first matching entries of one chain, by position, from `from` (inclusive) to `size` (exclusive). */
export const listChainEntries = (
  db: Db,
  tenantId: string,
  filter: EntryFilter,
  { chain, from, size, limit }: { chain: string; from: number; size: number; limit: number },
): Promise<EvidenceEntryRow[]> =>
  matching(db, tenantId, filter)
    .selectAll()
    .where('chain', '=', chain)
    .where('seq', '>=', from)
    .where('seq', '<', size)
    .orderBy('seq')
    .limit(limit)
    .execute()

/** A request id contains the second in which it was created; so does the id of its entry. */
const REQUEST_ID = /^req-([0-9a-f]{8})[0-9a-f]{16}$/
/** Maximum difference in seconds between the times in the two ids. */
const ID_SECONDS = { before: 2, after: 60 }

/** The ranges of ids of entries that were created with this request. Undefined for an id without a time. */
function idsNear(requestId: string): [from: string, to: string][] | undefined {
  const hex = REQUEST_ID.exec(requestId)?.[1]
  if (hex === undefined) return undefined
  const seconds = Number.parseInt(hex, 16)
  const [from, to] = [seconds - ID_SECONDS.before, seconds + ID_SECONDS.after]
  const bundle = (at: number) =>
    (at * 1000)
      .toString(16)
      .padStart(12, '0')
      .replace(/^(.{8})/, 'jti-$1-')
  return [
    [bundle(from), bundle(to)],
    [from.toString(16).padStart(8, '0'), to.toString(16).padStart(8, '0')],
  ]
}
