// Events without a request: keys that expire soon, and lost evidence. Jobs look for them. The id of an event is derived
// from its cause, so neither a restart nor a second daemon sends it twice.
import { KEY_EXPIRING_DAYS, WEBHOOK_KEPT_DAYS } from '../../shared/spec-limits.ts'
import { type Clock, DAY_MS, isoTime } from '../../shared/time.ts'
import type { Db } from '../platform/db/db.ts'
import { evidenceDegraded, keyExpiring } from '../records/events/events.ts'
import { findOperatorTenant } from '../records/events/operator-tenant.ts'
import { insertEvents } from '../records/events/outbox.ts'

type NoticeDeps = { db: Db; clock: Clock; announceEvents(): void }

/** Sends `key:expiring` for keys that expire within KEY_EXPIRING_DAYS, except keys that were created for less time. */
export async function reportExpiringKeys({ db, clock, announceEvents }: NoticeDeps): Promise<void> {
  const now = clock.now()
  const keys = await db
    .selectFrom('api_keys')
    .select(['id', 'tenant_id', 'user_id', 'name', 'created_at', 'expires_at'])
    .where('revoked_at', 'is', null)
    .where('expires_at', '>', isoTime(now))
    .where('expires_at', '<=', isoTime(now + KEY_EXPIRING_DAYS * DAY_MS))
    .execute()
  const events = keys
    .filter(({ created_at, expires_at }) => lifeMs(created_at, expires_at) > KEY_EXPIRING_DAYS * DAY_MS)
    .map(({ id, tenant_id, user_id, name, expires_at }) =>
      keyExpiring(
        { tenantId: tenant_id, createdAt: isoTime(now) },
        { apiKeyId: id, keyName: name, userId: user_id, expiresAt: expires_at as string },
      ),
    )
  if (await insertEvents(db, events)) announceEvents()
}

const lifeMs = (createdAt: string, expiresAt: string | null): number =>
  expiresAt === null ? 0 : Date.parse(expiresAt) - Date.parse(createdAt)

/** Sends `evidence:degraded` to the operator for each loss that was found while its event is kept. */
export async function reportLosses({ db, clock, announceEvents }: NoticeDeps): Promise<void> {
  const now = clock.now()
  const losses = await db
    .selectFrom('evidence_losses')
    .select(['id', 'cause', 'tenant_id', 'chain', 'found_at'])
    .where('acknowledged_at', 'is', null)
    .where('found_at', '>', isoTime(now - WEBHOOK_KEPT_DAYS * DAY_MS))
    .execute()
  if (losses.length === 0) return
  const tenantId = await findOperatorTenant(db)
  if (tenantId === undefined) return
  const events = losses.map(({ id, cause, tenant_id, chain, found_at }) =>
    evidenceDegraded(
      { tenantId, createdAt: isoTime(now) },
      { lossId: id, cause, tenantId: tenant_id, chain, foundAt: found_at },
    ),
  )
  if (await insertEvents(db, events)) announceEvents()
}
