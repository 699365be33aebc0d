import { sql } from 'kysely'
import { WEBHOOK_HELD, WEBHOOK_KEPT_DAYS } from '../../shared/spec-limits.ts'
import { type Clock, DAY_MS, isoTime } from '../../shared/time.ts'
import type { Db } from '../platform/db/db.ts'
import { rowList } from '../platform/db/row-list.ts'
import type { WebhookEndpointRow } from '../platform/db/tables.ts'

/** Maximum number of deliveries to delete in one statement. */
export const WEBHOOK_PURGE_ROWS = 500

/**
 * Deletes deliveries that were created more than WEBHOOK_KEPT_DAYS ago, except pending deliveries. Held deliveries are
 * also deleted. Events without deliveries are deleted one day later. Deletes in batches, so that other writers are not
 * blocked.
 */
export async function purgeWebhooks({ db, clock }: { db: Db; clock: Clock }): Promise<void> {
  const before = clock.now() - WEBHOOK_KEPT_DAYS * DAY_MS
  for (const { id } of await db.selectFrom('tenants').select('id').execute()) {
    while ((await purgeDeliveries(db, id, isoTime(before))) === WEBHOOK_PURGE_ROWS);
    while ((await purgeEvents(db, id, isoTime(before - DAY_MS))) === WEBHOOK_PURGE_ROWS);
  }
  while ((await cancelLost(db)) === WEBHOOK_PURGE_ROWS);
}

/** If an endpoint has more than WEBHOOK_HELD held deliveries, cancels the oldest held deliveries. */
export async function trimHeldDeliveries({ db }: { db: Db }): Promise<void> {
  // The subquery reads only the index of held deliveries, not the table.
  const { rows } = await sql<Pick<WebhookEndpointRow, 'id' | 'tenant_id'>>`
    select id, tenant_id from webhook_endpoints where id in (
      select endpoint_id from webhook_deliveries where state = 'held' and is_test = 0
      group by endpoint_id having count(*) > ${WEBHOOK_HELD}
    )
  `.execute(db)
  for (const endpoint of rows) while ((await dropOldest(db, endpoint)) === WEBHOOK_PURGE_ROWS);
}

/**
 * Deletes one batch of deliveries. The ids are selected on a read connection, so that SQLite's single writer only has
 * to delete rows.
 * @returns the number of selected ids
 */
async function purgeDeliveries(db: Db, tenantId: string, before: string): Promise<number> {
  const found = await db
    .selectFrom('webhook_deliveries')
    .select('id')
    .where('tenant_id', '=', tenantId)
    .where('created_at', '<', before)
    .where('state', '!=', 'pending')
    .limit(WEBHOOK_PURGE_ROWS)
    .execute()
  // Checks the state again: a delivery that was recovered in the meantime must be kept.
  await sql`
    delete from webhook_deliveries
    where tenant_id = ${tenantId} and state != 'pending' and id in (select id from ${rowList(db, ID, found)} as found)
  `.execute(db)
  return found.length
}

async function purgeEvents(db: Db, tenantId: string, before: string): Promise<number> {
  const found = await db
    .selectFrom('outbox_events')
    .select('id')
    .where('tenant_id', '=', tenantId)
    .where('created_at', '<', before)
    .where('fanned_out_at', 'is not', null)
    .where(isUnreferred)
    .limit(WEBHOOK_PURGE_ROWS)
    .execute()
  // Checks for deliveries again: an event that was resent in the meantime must be kept.
  await sql`
    delete from outbox_events
    where tenant_id = ${tenantId} and ${isUnreferred} and id in (select id from ${rowList(db, ID, found)} as found)
  `.execute(db)
  return found.length
}

const isUnreferred = sql<boolean>`not exists (
  select 1 from webhook_deliveries as d where d.event_id = outbox_events.id
)`

/**
 * In all tenants, cancels the deliveries whose event was deleted. On PostgreSQL, this is necessary, because an event
 * can be resent while it is being deleted.
 */
async function cancelLost(db: Db): Promise<number> {
  const { rows } = await sql<{ id: string }>`
    select d.id from webhook_deliveries as d where d.state = 'pending'
      and not exists (select 1 from outbox_events as e where e.id = d.event_id) limit ${WEBHOOK_PURGE_ROWS}
  `.execute(db)
  return cancel(db, { ids: rows, from: 'pending', because: 'its event is past the retention time' })
}

async function dropOldest(db: Db, { id, tenant_id }: Pick<WebhookEndpointRow, 'id' | 'tenant_id'>): Promise<number> {
  const found = await db
    .selectFrom('webhook_deliveries')
    .select('id')
    .where('endpoint_id', '=', id)
    // The query contains the state as a literal, not as a parameter; only then can it use the index of held deliveries.
    .where(sql<boolean>`state = 'held' and is_test = 0`)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .offset(WEBHOOK_HELD)
    .limit(WEBHOOK_PURGE_ROWS)
    .execute()
  return db.transaction().execute(async (tx) => {
    const dropped = await cancel(tx, {
      ids: found,
      from: 'held',
      because: `more than ${WEBHOOK_HELD} deliveries were held`,
    })
    await tx
      .updateTable('webhook_endpoints')
      .set((the) => ({ held_dropped: the('held_dropped', '+', dropped) }))
      .where('tenant_id', '=', tenant_id)
      .where('id', '=', id)
      .execute()
    return dropped
  })
}

/** Cancels the given deliveries that are still in the state `from`. @returns how many were cancelled */
async function cancel(
  db: Db,
  { ids, from, because }: { ids: readonly { id: string }[]; from: 'pending' | 'held'; because: string },
): Promise<number> {
  const { numAffectedRows } = await sql`
    update webhook_deliveries set state = 'cancelled', last_error = ${because}, lease_owner = null, lease_until = null,
      fence = fence + 1
    where state = ${from} and id in (select id from ${rowList(db, ID, ids)} as found)
  `.execute(db)
  return Number(numAffectedRows ?? 0)
}

const ID = { id: 'text' } as const
