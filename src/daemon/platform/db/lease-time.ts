import { sql } from 'kysely'
import type { Db } from './db.ts'
import { engineOf } from './engine.ts'

/**
 * What leases are measured by: on PostgreSQL its own clock, since those of the daemons that share it may differ.
 * @param now milliseconds since 1970 by the clock of this daemon, which is the only one on SQLite
 */
export async function readLeaseTime(db: Db, now: number): Promise<number> {
  if (engineOf(db).name === 'sqlite') return now
  const { rows } = await sql<{ now: string }>`
    select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as now
  `.execute(db)
  return rows[0] ? Date.parse(rows[0].now) : now
}
