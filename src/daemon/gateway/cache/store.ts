// SQL of the answer cache.
import type { Db } from '../../platform/db/db.ts'
import type { CacheEntryRow } from '../../platform/db/tables.ts'

/**
 * Returns the newest answer of a key that was stored after `oldest` and has not expired at `now` (both ISO 8601). The
 * first bound applies a shorter lifetime to answers that were stored before the operator changed it.
 */
export function findEntry(
  db: Db,
  { tenantId, keyHash, now, oldest }: { tenantId: string; keyHash: string; now: string; oldest: string },
): Promise<Pick<CacheEntryRow, 'id' | 'created_at' | 'sealed'> | undefined> {
  return db
    .selectFrom('cache_entries')
    .select(['id', 'created_at', 'sealed'])
    .where('tenant_id', '=', tenantId)
    .where('key_hash', '=', keyHash)
    .where('created_at', '>', oldest)
    .where('expires_at', '>', now)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** The stored answers of a tenant. `oldestAt` is null without any. */
export type CacheSize = { entries: number; bytes: number; oldestAt: string | null }

/** Returns the number and the size of a tenant's answers that have not expired at `now` (ISO 8601). */
export async function sizeOf(db: Db, tenantId: string, now: string): Promise<CacheSize> {
  const { entries, bytes, oldestAt } = await db
    .selectFrom('cache_entries')
    .select(({ fn }) => [fn.countAll().as('entries'), fn.sum('bytes').as('bytes'), fn.min('created_at').as('oldestAt')])
    .where('tenant_id', '=', tenantId)
    .where('expires_at', '>', now)
    .executeTakeFirstOrThrow()
  return { entries: Number(entries), bytes: Number(bytes ?? 0), oldestAt }
}

/** Returns the size of all of a tenant's answers, including expired ones that are not deleted yet. */
export async function bytesOf(db: Db, tenantId: string): Promise<number> {
  const { bytes } = await db
    .selectFrom('cache_entries')
    .select(({ fn }) => fn.sum('bytes').as('bytes'))
    .where('tenant_id', '=', tenantId)
    .executeTakeFirstOrThrow()
  return Number(bytes ?? 0)
}

/** Returns the ids and sizes of a tenant's oldest answers, at most `limit`. */
export function findOldest(db: Db, tenantId: string, limit: number): Promise<Pick<CacheEntryRow, 'id' | 'bytes'>[]> {
  return db
    .selectFrom('cache_entries')
    .select(['id', 'bytes'])
    .where('tenant_id', '=', tenantId)
    .orderBy('created_at')
    .limit(limit)
    .execute()
}

/** Deletes these answers of a tenant. */
export async function deleteEntries(db: Db, tenantId: string, ids: readonly string[]): Promise<void> {
  await db.deleteFrom('cache_entries').where('tenant_id', '=', tenantId).where('id', 'in', ids).execute()
}

/** Deletes all answers of a tenant. Returns their number. */
export async function deleteAllEntries(db: Db, tenantId: string): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('cache_entries')
    .where('tenant_id', '=', tenantId)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/**
 * Deletes at most `limit` answers of all tenants that expired before `now` (ISO 8601). Returns the number of deleted
 * rows.
 */
export async function deleteExpiredEntries(db: Db, now: string, limit: number): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('cache_entries')
    .where('id', 'in', (expired) =>
      expired.selectFrom('cache_entries').select('id').where('expires_at', '<=', now).limit(limit),
    )
    .where('expires_at', '<=', now)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}
