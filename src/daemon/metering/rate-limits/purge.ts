import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import type { RateCounterRow } from '../../platform/db/tables.ts'

/** How long counters are kept after the end of their window. */
const COUNTERS_KEPT_DAYS = 62
/** Maximum number of counters to delete in one statement. */
const COUNTERS_PURGE_ROWS = 500

/**
 * Length of the longest window. It is used for all windows, so counters of shorter windows are kept a little longer.
 */
const WINDOW_DAYS = 31

/**
 * Deletes the counters of windows that ended COUNTERS_KEPT_DAYS ago. The counter `minute` of an existing key is kept,
 * because it records when the key was last used. Deletes in small batches, so that other writers do not wait long.
 */
export async function purgeCounters({ db, clock }: { db: Db; clock: Clock }): Promise<void> {
  const before = isoTime(clock.now() - (COUNTERS_KEPT_DAYS + WINDOW_DAYS) * 86_400_000)
  while ((await deleteSome(db, before)) === COUNTERS_PURGE_ROWS);
}

/** Returns the number of counters found. */
async function deleteSome(db: Db, before: string): Promise<number> {
  // Selects the rows on a read connection, not in a subquery, so that SQLite's single writer only has to delete them.
  const found = await db
    .selectFrom('rate_counters as c')
    .select(['c.tenant_id', 'c.api_key_id', 'c.counter'])
    .where('c.window_start', '<', before)
    .where((the) =>
      the.or([
        the('c.counter', '<>', 'minute'),
        the.not(the.exists(the.selectFrom('api_keys as k').select('k.id').whereRef('k.id', '=', 'c.api_key_id'))),
      ]),
    )
    .limit(COUNTERS_PURGE_ROWS)
    .execute()
  await db.transaction().execute(async (tx) => {
    for (const counter of found) await deleteCounter(tx, counter, before)
  })
  return found.length
}

/** Deletes the counter, unless it was used after the scan. */
async function deleteCounter(
  tx: Db,
  { tenant_id, api_key_id, counter }: Pick<RateCounterRow, 'tenant_id' | 'api_key_id' | 'counter'>,
  before: string,
): Promise<void> {
  await tx
    .deleteFrom('rate_counters')
    .where('tenant_id', '=', tenant_id)
    .where('api_key_id', '=', api_key_id)
    .where('counter', '=', counter)
    .where('window_start', '<', before)
    .execute()
}
