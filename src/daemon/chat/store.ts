import type { Db } from '../db/database.ts'
import type { IdempotencyResultRow } from '../db/tables.ts'

export type StoredResult = Pick<IdempotencyResultRow, 'fingerprint' | 'status' | 'content_type' | 'body'>
export type ResultScope = { tenantId: string; apiKeyId: string; route: string; idempotencyKey: string }

/** The stored answer to an earlier request with this Idempotency-Key. */
export function findResult(db: Db, scope: ResultScope): Promise<StoredResult | undefined> {
  return db
    .selectFrom('idempotency_results')
    .select(['fingerprint', 'status', 'content_type', 'body'])
    .where('tenant_id', '=', scope.tenantId)
    .where('api_key_id', '=', scope.apiKeyId)
    .where('route', '=', scope.route)
    .where('idempotency_key', '=', scope.idempotencyKey)
    .executeTakeFirst()
}

/** Makes room for a new answer under a key whose old one has expired. @param now ISO 8601 */
export async function deleteExpiredResult(db: Db, scope: ResultScope, now: string): Promise<void> {
  await db
    .deleteFrom('idempotency_results')
    .where('tenant_id', '=', scope.tenantId)
    .where('api_key_id', '=', scope.apiKeyId)
    .where('route', '=', scope.route)
    .where('idempotency_key', '=', scope.idempotencyKey)
    .where('expires_at', '<=', now)
    .execute()
}
