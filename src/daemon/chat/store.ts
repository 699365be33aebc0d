import type { Db } from '../db/database.ts'
import type { IdempotencyResultRow } from '../db/tables.ts'

export type StoredResult = Pick<IdempotencyResultRow, 'fingerprint' | 'status' | 'content_type' | 'body' | 'expires_at'>
export type ResultScope = { tenantId: string; apiKeyId: string; route: string; idempotencyKey: string }

/** The stored answer to an earlier request with this Idempotency-Key, also when it has expired. */
export function findResult(db: Db, scope: ResultScope): Promise<StoredResult | undefined> {
  return db
    .selectFrom('idempotency_results')
    .select(['fingerprint', 'status', 'content_type', 'body', 'expires_at'])
    .where('tenant_id', '=', scope.tenantId)
    .where('api_key_id', '=', scope.apiKeyId)
    .where('route', '=', scope.route)
    .where('idempotency_key', '=', scope.idempotencyKey)
    .executeTakeFirst()
}

/** Makes room for a new answer under a key whose old one has expired. */
export async function deleteResult(db: Db, scope: ResultScope): Promise<void> {
  await db
    .deleteFrom('idempotency_results')
    .where('tenant_id', '=', scope.tenantId)
    .where('api_key_id', '=', scope.apiKeyId)
    .where('route', '=', scope.route)
    .where('idempotency_key', '=', scope.idempotencyKey)
    .execute()
}

/** Deletes answers of all tenants that expired before `now` (ISO 8601), at most `limit`; returns how many. */
export async function deleteExpiredResults(db: Db, now: string, limit: number): Promise<number> {
  const expired = db.selectFrom('idempotency_results').select('request_id').where('expires_at', '<=', now).limit(limit)
  const { numDeletedRows } = await db
    .deleteFrom('idempotency_results')
    .where('request_id', 'in', expired)
    .where('expires_at', '<=', now)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}
