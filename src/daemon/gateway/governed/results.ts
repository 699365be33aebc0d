// SQL of idempotency: stored answers, and claims of running requests.
import type { Db } from '../../platform/db/db.ts'
import type { IdempotencyResultRow } from '../../platform/db/tables.ts'

export type StoredResult = Pick<
  IdempotencyResultRow,
  'fingerprint' | 'status' | 'content_type' | 'body' | 'expires_at' | 'is_sealed'
>
export type ResultScope = { tenantId: string; apiKeyId: string; route: string; idempotencyKey: string }

/** Returns the stored answer or the claim for this Idempotency-Key, even if it has expired. */
export function findResult(
  db: Db,
  scope: ResultScope,
): Promise<(StoredResult & Pick<IdempotencyResultRow, 'request_id' | 'lease_until'>) | undefined> {
  return db
    .selectFrom('idempotency_results')
    .select(['fingerprint', 'status', 'content_type', 'body', 'expires_at', 'is_sealed', 'request_id', 'lease_until'])
    .where('tenant_id', '=', scope.tenantId)
    .where('api_key_id', '=', scope.apiKeyId)
    .where('route', '=', scope.route)
    .where('idempotency_key', '=', scope.idempotencyKey)
    .executeTakeFirst()
}

/** Deletes the expired answer of a key, so that a new answer can be stored. */
export async function deleteResult(db: Db, scope: ResultScope): Promise<void> {
  await db
    .deleteFrom('idempotency_results')
    .where('tenant_id', '=', scope.tenantId)
    .where('api_key_id', '=', scope.apiKeyId)
    .where('route', '=', scope.route)
    .where('idempotency_key', '=', scope.idempotencyKey)
    .execute()
}

/**
 * Deletes at most `limit` answers and claims of all tenants that expired before `now` (ISO 8601). Returns the number of
 * deleted rows.
 */
export async function deleteExpiredResults(db: Db, now: string, limit: number): Promise<number> {
  const expired = db.selectFrom('idempotency_results').select('request_id').where('expires_at', '<=', now).limit(limit)
  const { numDeletedRows } = await db
    .deleteFrom('idempotency_results')
    .where('request_id', 'in', expired)
    .where('expires_at', '<=', now)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/**
 * Claims a key for the request in `claim`. Replaces an answer or a lease if it has expired at `now` (ISO 8601). Returns
 * false if the key is taken. If several requests claim the key at the same time, exactly one succeeds.
 */
export async function insertClaim(db: Db, claim: IdempotencyResultRow, now: string): Promise<boolean> {
  const { tenant_id, api_key_id, route, idempotency_key, ...changes } = claim
  const claimed = await db
    .insertInto('idempotency_results')
    .values(claim)
    .onConflict((conflict) =>
      conflict
        .columns(['tenant_id', 'api_key_id', 'route', 'idempotency_key'])
        .doUpdateSet(changes)
        .where(({ eb, or }) =>
          or([eb('idempotency_results.expires_at', '<=', now), eb('idempotency_results.lease_until', '<=', now)]),
        ),
    )
    .returning('request_id')
    .executeTakeFirst()
  return claimed !== undefined
}

/** Releases a claim without an answer. Does nothing if the claim was taken over or answered. */
export async function deleteClaim(db: Db, requestId: string): Promise<void> {
  await db
    .deleteFrom('idempotency_results')
    .where('request_id', '=', requestId)
    .where('lease_until', 'is not', null)
    .execute()
}

/**
 * Renews the leases of these requests, except claims that are being committed or taken over. `SKIP LOCKED` never waits,
 * so it cannot deadlock. Only for PostgreSQL.
 */
export async function renewClaims(db: Db, requestIds: readonly string[], leaseUntil: string): Promise<void> {
  const free = db
    .selectFrom('idempotency_results')
    .select('request_id')
    .where('request_id', 'in', requestIds)
    .where('lease_until', 'is not', null)
    .forUpdate()
    .skipLocked()
  await db
    .updateTable('idempotency_results')
    .set({ lease_until: leaseUntil })
    .where('request_id', 'in', free)
    .where('lease_until', 'is not', null)
    .execute()
}

/** Returns the requests among `requestIds` that still have their claim at `now` (ISO 8601). */
export async function findLiveClaims(db: Db, requestIds: readonly string[], now: string): Promise<Set<string>> {
  const live = await db
    .selectFrom('idempotency_results')
    .select('request_id')
    .where('request_id', 'in', requestIds)
    .where('lease_until', '>', now)
    .execute()
  return new Set(live.map(({ request_id }) => request_id))
}
