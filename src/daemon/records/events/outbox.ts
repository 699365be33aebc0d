import { TEST_EVENT } from '../../../shared/event-catalog.ts'
import type { Db } from '../../platform/db/db.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import type { OutboxEventRow } from '../../platform/db/tables.ts'

/** Adds an event to those to be delivered; one that is there already stays as it is. */
export async function insertEvent(db: Db, event: OutboxEventRow): Promise<void> {
  await insertRows(db, 'outbox_events', [event], { onConflict: 'ignore' })
}

/** Where an event stands in its tenant's: by time, then by id. An empty id is before everything that happened then. */
export type EventPlace = { createdAt: string; id: string }

/** The first events behind a place, or the latest there are; the oldest first, without those of the test route. */
export async function listEvents(
  db: Db,
  tenantId: string,
  { after, limit }: { after: EventPlace | undefined; limit: number },
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
