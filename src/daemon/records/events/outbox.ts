import { TEST_EVENT } from '../../../shared/event-catalog.ts'
import type { Db } from '../../platform/db/db.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import type { OutboxEventRow } from '../../platform/db/tables.ts'

/** Adds an event to the outbox. An existing event with the same id is not changed. */
export async function insertEvent(db: Db, event: OutboxEventRow): Promise<void> {
  await insertRows(db, 'outbox_events', [event], { onConflict: 'ignore' })
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
