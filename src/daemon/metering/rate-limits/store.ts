import { sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import type { RateCounterRow } from '../../platform/db/tables.ts'

/** Every counter of this key, also those whose window is over. */
export function findCounters(db: Db, tenantId: string, keyId: string): Promise<RateCounterRow[]> {
  return db
    .selectFrom('rate_counters')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('api_key_id', '=', keyId)
    .execute()
}

/**
 * Locks these counters until the transaction ends, in the order given, and returns them as they are now; one that does not
 * exist is added as given. Two transactions do not block each other for good when both give them in the same order.
 * PostgreSQL only.
 */
export async function lockCounters(tx: Db, rows: readonly RateCounterRow[]): Promise<RateCounterRow[]> {
  // An update that changes nothing, because only a row that was written is locked and returned.
  const locked = sql<RateCounterRow>`
    insert into rate_counters (tenant_id, api_key_id, counter, window_start, used, last_used_at)
    select tenant_id, api_key_id, counter, window_start, used, last_used_at
    from json_populate_recordset(null::rate_counters, ${JSON.stringify(rows)}::json)
    on conflict (tenant_id, api_key_id, counter) do update set used = rate_counters.used
    returning *`
  return (await locked.execute(tx)).rows
}
