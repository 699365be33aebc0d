import { type Expression, type RawBuilder, type SelectQueryBuilder, type SqlBool, sql } from 'kysely'
import type { Pagination } from '../../../shared/wire/common.ts'

/** Page number and page size, both clamped. */
export type Page = { page: number; limit: number }

/** The `pagination` block of a list. */
export const toPagination = ({ page, limit }: Page, total: number): Pagination => ({
  page,
  limit,
  total,
  pages: Math.ceil(total / limit),
})

/**
 * Up to this many matches are fetched in one query, in the quickest order. More matches fill a page soon in any order.
 */
const FEW_MATCHES = 200

/** One page of a list, and the queries that find it. */
export type Listing<Row> = Page & {
  /** The sort keys, all in one direction: an indexed column, then the tie-breakers. */
  sortKeys: readonly (string | RawBuilder<unknown>)[]
  sortOrder: 'asc' | 'desc'
  /** Whether rows are matched by substring, which no index order speeds up. */
  isSearch: boolean
  /** How many rows match, if known. It replaces the count, and the search stops at the last match. */
  total?: number | undefined
  /** The rows with these ids, in any order. Rows that were deleted meanwhile are omitted. */
  find(ids: readonly string[]): Promise<readonly Row[]>
}

/**
 * One page of the matching rows, and the total count. Ids are selected first, in index order, so only the rows of the
 * page are read, however deep the page is.
 * @param matching selects the ids of all rows of the list
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
  // A page that is not full shows where the list ends.
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

/** The searchable text in lower case, one field a line, so that a match never spans two fields. */
export const toSearchText = (...texts: string[]): string => texts.join('\n').toLowerCase()

/** Whether the column contains `text`, ignoring case; `%` and `_` are literal. */
export function contains(column: string, text: string): Expression<SqlBool> {
  const pattern = `%${text.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`
  return sql<SqlBool>`${sql.ref(column)} like ${pattern} escape '\\'`
}
