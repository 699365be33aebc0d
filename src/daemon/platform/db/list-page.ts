import { type Expression, type RawBuilder, type SelectQueryBuilder, type SqlBool, sql } from 'kysely'
import type { Pagination } from '../../../shared/wire/common.ts'

/** Where a page begins and how long it is; both have been clamped. */
export type Page = { page: number; limit: number }

/** The `pagination` block of a list (named-endpoints §1.3). */
export const toPagination = ({ page, limit }: Page, total: number): Pagination => ({
  page,
  limit,
  total,
  pages: Math.ceil(total / limit),
})

/**
 * A text that so few rows hold is looked for once, in whatever order is quickest. One that more hold fills a page soon, in
 * any order.
 */
const FEW_MATCHES = 200

/** One page of a list, and how to find it. */
export type Listing<Row> = Page & {
  /** What the list is sorted by, all in one direction: a column with an index, and what breaks its ties. */
  sortKeys: readonly (string | RawBuilder<unknown>)[]
  sortOrder: 'asc' | 'desc'
  /** Whether rows are matched by a part of a text, for which no order helps. */
  isSearch: boolean
  /** How many rows match, where it is known: none is looked for behind the last of them, and nobody counts. */
  total?: number | undefined
  /** The rows with these ids, in any order; those that are gone by now are left out. */
  find(ids: readonly string[]): Promise<readonly Row[]>
}

/**
 * One page of the rows that match, with how many there are in all. Ids come first and in the order of an index, so that
 * only the rows of the page are read, however far down the list it is.
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

/** What a search looks at: the texts in lower case, one a line, so that a match never spans two of them. */
export const toSearchText = (...texts: string[]): string => texts.join('\n').toLowerCase()

/** Whether the column holds `text` somewhere, whatever its case; `%` and `_` mean themselves. */
export function contains(column: string, text: string): Expression<SqlBool> {
  const pattern = `%${text.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`
  return sql<SqlBool>`${sql.ref(column)} like ${pattern} escape '\\'`
}
