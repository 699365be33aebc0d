import type { Db } from '../db/database.ts'
import { insertRows } from '../db/insert-rows.ts'
import type { OutboxEventRow } from '../db/tables.ts'

/** Adds an event to those to be delivered; one that is there already stays as it is. */
export async function insertEvent(db: Db, event: OutboxEventRow): Promise<void> {
  await insertRows(db, 'outbox_events', [event], { onConflict: 'ignore' })
}
