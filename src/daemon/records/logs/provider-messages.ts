// What providers said about failed attempts, for administrators of the tenant.
import { PROVIDER_MESSAGE_DAYS } from '../../../shared/spec-limits.ts'
import { type Clock, DAY_MS, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'

/** The messages of one entry by the index of the attempt. */
export type AttemptMessages = ReadonlyMap<number, string>

/** The maximum number of rows that select the entries whose messages one statement deletes. */
const PURGED_ENTRIES = 500

/** Returns the messages of these entries by the entry's id. */
export async function findProviderMessages(
  db: Db,
  tenantId: string,
  entryIds: readonly string[],
): Promise<ReadonlyMap<string, AttemptMessages>> {
  const found = new Map<string, Map<number, string>>()
  if (entryIds.length === 0) return found
  const rows = await db
    .selectFrom('provider_messages')
    .select(['entry_id', 'attempt', 'message'])
    .where('tenant_id', '=', tenantId)
    .where('entry_id', 'in', entryIds)
    .execute()
  for (const { entry_id, attempt, message } of rows) {
    const ofEntry = found.get(entry_id) ?? new Map()
    found.set(entry_id, ofEntry.set(attempt, message))
  }
  return found
}

/**
 * Deletes messages of all tenants that are older than PROVIDER_MESSAGE_DAYS, or whose entries were expunged. Deletes in
 * batches, so that other writers can run between two batches.
 * @param retentionDays the age at which the content of entries is expunged. 0 means never.
 */
export async function purgeProviderMessages({
  db,
  clock,
  retentionDays,
}: {
  db: Db
  clock: Clock
  retentionDays: number
}): Promise<void> {
  const days = retentionDays === 0 ? PROVIDER_MESSAGE_DAYS : Math.min(retentionDays, PROVIDER_MESSAGE_DAYS)
  const before = isoTime(clock.now() - days * DAY_MS)
  for (const { id } of await db.selectFrom('tenants').select('id').execute()) {
    while ((await purgeOldest(db, id, before)) >= PURGED_ENTRIES);
  }
}

async function purgeOldest(db: Db, tenantId: string, before: string): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('provider_messages')
    .where('tenant_id', '=', tenantId)
    .where('entry_id', 'in', (old) =>
      old
        .selectFrom('provider_messages')
        .select('entry_id')
        .where('tenant_id', '=', tenantId)
        .where('created_at', '<', before)
        .limit(PURGED_ENTRIES),
    )
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}
