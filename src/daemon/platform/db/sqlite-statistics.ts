import { sql } from 'kysely'
import type { Db } from './db.ts'

/** What the planner shall take every table for: large, and a tenant's for the most part. */
const ROWS = 100_000
/** How many values a column has in such a table; any other is taken to tell rows apart. */
const DISTINCT_VALUES: Record<string, number> = {
  tenant_id: 2,
  role: 3,
  license: 4,
  status: 2,
  state: 3,
  user_count: 100,
  user_id: 10_000,
  group_id: 10_000,
  api_key_id: 1_000,
  index_id: 100,
  endpoint_id: 100,
  document_id: 10_000,
  role_id: 10,
}

/**
 * Tells SQLite's planner what our tables look like when they matter. Without statistics it takes any index that begins
 * with tenant_id to find ten rows, and walks all of a tenant's users where it could look up twenty by id; and nobody runs
 * ANALYZE at the right moment. Figures that are fixed make plans that are, too (sqlite.org: "ANALYZE", fixed results).
 */
export async function fixSqliteStatistics(db: Db): Promise<void> {
  await db.transaction().execute(async (tx) => {
    // Makes the table of statistics when it is not there yet.
    await sql`analyze sqlite_schema`.execute(tx)
    const { rows: columns } = await sql<{ tbl: string; idx: string; isUnique: number; name: string }>`
      select m.name as tbl, i.name as idx, i."unique" as "isUnique", c.name as name
      from sqlite_schema as m, pragma_index_list(m.name) as i, pragma_index_info(i.name) as c
      where m.type = 'table' and m.name not like 'sqlite%' and m.name not like 'kysely%' and m.name not like 'passages\_fts%' escape '\\'
      order by i.name, c.seqno`.execute(tx)
    await sql`delete from sqlite_stat1`.execute(tx)
    for (const [idx, ofIndex] of byIndex(columns)) {
      const stat = toStatistics(
        ofIndex.map(({ name }) => name),
        ofIndex[0]?.isUnique === 1,
      )
      await sql`insert into sqlite_stat1 (tbl, idx, stat) values (${ofIndex[0]?.tbl}, ${idx}, ${stat})`.execute(tx)
    }
  })
  // Connections read the statistics together with the schema; the one that wrote them has read that already.
  await sql`analyze sqlite_schema`.execute(db)
}

/** The rows of the table, then how many of them share the first column, the first two, … */
function toStatistics(columns: readonly string[], isUnique: boolean): string {
  let share = ROWS
  const shares = columns.map((column, at) => {
    share = Math.max(1, Math.ceil(share / (DISTINCT_VALUES[column] ?? ROWS)))
    return isUnique && at === columns.length - 1 ? 1 : share
  })
  return [ROWS, ...shares].join(' ')
}

function byIndex<Column extends { idx: string }>(columns: readonly Column[]): Map<string, Column[]> {
  const indexes = new Map<string, Column[]>()
  for (const column of columns) indexes.set(column.idx, [...(indexes.get(column.idx) ?? []), column])
  return indexes
}
