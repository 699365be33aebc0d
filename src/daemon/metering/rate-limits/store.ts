import { sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import type { RateCounterRow } from '../../platform/db/tables.ts'

/** Returns all counters of this key, including counters of past windows. */
export function findCounters(db: Db, tenantId: string, keyId: string): Promise<RateCounterRow[]> {
  return db
    .selectFrom('rate_counters')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('api_key_id', '=', keyId)
    .execute()
}

/**
 * Locks these counters until the transaction ends, in the given order, and returns their current rows. A missing
 * counter is inserted as given. Transactions that pass counters in the same order cannot deadlock. PostgreSQL only.
 */
export async function lockCounters(tx: Db, rows: readonly RateCounterRow[]): Promise<RateCounterRow[]> {
  // This update does not change any values. It is needed because the statement locks and returns only rows that it
  // writes.
  const locked = sql<RateCounterRow>`
    insert into rate_counters (tenant_id, api_key_id, counter, window_start, used, last_used_at)
    select tenant_id, api_key_id, counter, window_start, used, last_used_at
    from json_populate_recordset(null::rate_counters, ${JSON.stringify(rows)}::json)
    on conflict (tenant_id, api_key_id, counter) do update set used = rate_counters.used
    returning *`
  return (await locked.execute(tx)).rows
}
