import { type Expression, type RawBuilder, type SelectQueryBuilder, type SqlBool, sql } from 'kysely'
import type { Pagination } from '../../../shared/wire/common.ts'

/** The page number and the page size, both clamped. */
export type Page = { page: number; limit: number }

/** The `pagination` object of a list response. */
export const toPagination = ({ page, limit }: Page, total: number): Pagination => ({
  page,
  limit,
  total,
  pages: Math.ceil(total / limit),
})

/**
 * The maximum number of matches for which one unordered query fetches all ids. If more rows match a search, a scan in
 * index order fills a page quickly.
 */
const FEW_MATCHES = 200

/** The parameters of one page of a list. */
export type Listing<Row> = Page & {
  /** The sort keys: an indexed column, then the tie-breakers. All sort keys have the same direction. */
  sortKeys: readonly (string | RawBuilder<unknown>)[]
  sortOrder: 'asc' | 'desc'
  /** Whether rows are matched by substring. An index order does not speed up a substring search. */
  isSearch: boolean
  /**
   * The number of matching rows, if known. If this number is set, rows are not counted, and the query stops at the last
   * match.
   */
  total?: number | undefined
  /** Loads the rows with these ids, in any order. Rows that were deleted in the meantime are omitted. */
  find(ids: readonly string[]): Promise<readonly Row[]>
}

/**
 * Returns one page of the matching rows, and the total count. Ids are selected first, in index order. Full rows are
 * therefore read only for the requested page, even if the page number is high.
 * @param matching the query that selects the ids of all rows of the list
 */
export async function pageOf<Database, Table extends keyof Database, Row extends { id: string }>(
  matching: SelectQueryBuilder<Database, Table, { id: string }>,
  { page, limit: longest, sortKeys, sortOrder, isSearch, total: known, find }: Listing<Row>,
): Promise<{ rows: Row[]; total: number }> {
  const few = isSearch ? await findFew(matching) : undefined
  if (few?.length === 0) return { rows: [], total: 0 }
  const offset = (page - 1) * longest
  const limit = known === undefined ? longest : Math.min(longest, known - offset)
  if (known !== undefined && limit <= 0) return { rows: [], total: known }
  let onPage = few ? matching.where(sql<SqlBool>`id in (${sql.join(few)})`) : matching
  for (const key of sortKeys) onPage = onPage.orderBy(typeof key === 'string' ? sql.ref(key) : key, sortOrder)
  const ids = (await onPage.limit(limit).offset(offset).execute()).map(({ id }) => id)
  // A page that is not full ends the list, so the total is known without a count.
  const isLast = ids.length < limit && (ids.length > 0 || page === 1)
  const [rows, total] = await Promise.all([
    ids.length === 0 ? [] : find(ids),
    known ?? few?.length ?? (isLast ? offset + ids.length : countOf(matching)),
  ])
  const byId = new Map(rows.map((row) => [row.id, row]))
  return { rows: ids.flatMap((id) => byId.get(id) ?? []), total }
}

type Ids<Database, Table extends keyof Database> = SelectQueryBuilder<Database, Table, { id: string }>

async function findFew<Database, Table extends keyof Database>(
  matching: Ids<Database, Table>,
): Promise<string[] | undefined> {
  const found = await matching.limit(FEW_MATCHES + 1).execute()
  return found.length > FEW_MATCHES ? undefined : found.map(({ id }) => id)
}

async function countOf<Database, Table extends keyof Database>(matching: Ids<Database, Table>): Promise<number> {
  const counted = matching.clearSelect().select(sql<number>`count(*)`.as('total')).$castTo<{ total: number }>()
  return (await counted.executeTakeFirstOrThrow()).total
}

/** The searchable text in lower case, with one field per line so that a match never spans two fields. */
export const toSearchText = (...texts: string[]): string => texts.join('\n').toLowerCase()

/** Whether the column contains `text`, ignoring case. `%` and `_` are literal. */
export function contains(column: string, text: string): Expression<SqlBool> {
  const pattern = `%${text.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`
  return sql<SqlBool>`${sql.ref(column)} like ${pattern} escape '\\'`
}
