import { sql } from 'kysely'
import type { Db } from './db.ts'
import { engineOf } from './engine.ts'

/**
 * Returns the current time for leases. PostgreSQL's server clock is used, because the clocks of the daemons that share
 * the server may differ.
 * @param now milliseconds since 1970 by this daemon's clock; used only on SQLite, because only one daemon uses an
 * SQLite file
 */
export async function readLeaseTime(db: Db, now: number): Promise<number> {
  if (engineOf(db).name === 'sqlite') return now
  const { rows } = await sql<{ now: string }>`
    select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as now
  `.execute(db)
  return rows[0] ? Date.parse(rows[0].now) : now
}
