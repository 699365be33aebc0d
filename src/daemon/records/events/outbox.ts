import { TEST_EVENT } from '../../../shared/event-catalog.ts'
import type { Db } from '../../platform/db/db.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import type { OutboxEventRow } from '../../platform/db/tables.ts'

/** Adds an event to the outbox. An existing event with the same id is not changed. */
export async function insertEvent(db: Db, event: OutboxEventRow): Promise<void> {
  await insertRows(db, 'outbox_events', [event], { onConflict: 'ignore' })
}

/**
 * Marks the events of tenants without a webhook endpoint as dispatched, before they are stored. Marking each event in a
 * later transaction would cost as much as the request that caused it. An endpoint that is created at the same time
 * receives only later events.
 */
export async function markWithoutEndpoints(db: Db, events: readonly OutboxEventRow[]): Promise<void> {
  const tenantIds = [...new Set(events.map(({ tenant_id }) => tenant_id))]
  const found = await db
    .selectFrom('webhook_endpoints')
    .select('tenant_id')
    .distinct()
    .where('tenant_id', 'in', tenantIds)
    .execute()
  const withEndpoints = new Set(found.map(({ tenant_id }) => tenant_id))
  for (const event of events) event.fanned_out_at = withEndpoints.has(event.tenant_id) ? null : event.created_at
}

/**
 * Stores events without the ledger. Events that are already stored are skipped, so each event is sent once, also if
 * several daemons report the same occurrence. Returns whether any event is new.
 */
export async function insertEvents(db: Db, events: readonly OutboxEventRow[]): Promise<boolean> {
  if (events.length === 0) return false
  await markWithoutEndpoints(db, events)
  return (await insertRows(db, 'outbox_events', events, { onConflict: 'ignore' })) > 0
}

/**
 * The position of an event among its tenant's events: ordered by time, then by id. An empty id precedes all events of
 * the same time.
 */
export type EventPosition = { createdAt: string; id: string }

/**
 * Returns the first events after a position, or the latest events if there is no position. Oldest first. Events of the
 * test route are excluded.
 */
export async function listEvents(
  db: Db,
  tenantId: string,
  { after, limit }: { after: EventPosition | undefined; limit: number },
): Promise<OutboxEventRow[]> {
  const query = db
    .selectFrom('outbox_events')
    .select(['id', 'tenant_id', 'type', 'created_at', 'data'])
    .where('tenant_id', '=', tenantId)
    .where('type', '!=', TEST_EVENT)
    .limit(limit)
  if (after === undefined) {
    return (await query.orderBy('created_at', 'desc').orderBy('id', 'desc').execute()).reverse()
  }
  return query
    .where(({ eb, refTuple, tuple }) => eb(refTuple('created_at', 'id'), '>', tuple(after.createdAt, after.id)))
    .orderBy('created_at')
    .orderBy('id')
    .execute()
}
