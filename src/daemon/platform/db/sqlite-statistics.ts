import { sql } from 'kysely'
import type { Db } from './db.ts'

/** The size that the planner assumes for every table: large, with most rows belonging to one tenant. */
const ROWS = 100_000
/** How many distinct values these columns have in a table of ROWS rows. All other columns are assumed to be unique. */
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
 * Gives SQLite's planner fixed statistics for large tables. Without statistics, the planner uses any index that begins
 * with tenant_id: it scans all users of a tenant instead of looking up twenty users by id. ANALYZE is not an
 * alternative, because it would have to run at the right moment. Fixed statistics also keep the query plans stable
 * (sqlite.org: "ANALYZE", fixed results).
 */
export async function fixSqliteStatistics(db: Db): Promise<void> {
  await db.transaction().execute(async (tx) => {
    // Creates the statistics table if it does not exist.
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
  // Each connection reads the statistics only when it reads the schema. The connection that wrote the statistics must
  // therefore reload them.
  await sql`analyze sqlite_schema`.execute(db)
}

/**
 * A row of sqlite_stat1: the number of rows, then the average number of rows with equal first column, first two
 * columns, …
 */
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
