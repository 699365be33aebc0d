import { sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { rowList } from '../../platform/db/row-list.ts'
import type { WebhookDeliveryRow, WebhookEndpointRow } from '../../platform/db/tables.ts'
import type { DeliverableEvent } from './envelope.ts'

// The dispatcher serves all tenants, so it selects rows by endpoint and delivery, not by tenant. Each new delivery has
// the tenant of its event.
//
// States of a delivery and their transitions:
//   pending -> pending    claimed (lease, fence + 1), an attempt failed (due later), or released
//   pending -> delivered  a 2xx                         pending -> failed   the last attempt failed
//   pending -> held       its endpoint is disabled      held, failed -> pending  an administrator recovers it
//   pending, held -> cancelled  its endpoint or event was deleted, or too many are held
// A result is stored only if the fence of its claim is still current. If two daemons send the same delivery, only one
// result therefore counts.

/** A delivery that is due, with its event. */
export type DueDelivery = Pick<
  WebhookDeliveryRow,
  'id' | 'tenant_id' | 'endpoint_id' | 'event_type' | 'fence' | 'attempts' | 'due_at' | 'is_test' | 'resend_of'
> & { event_id: string; event_created_at: string; data: string }

/** Returns events whose deliveries do not exist yet, the oldest first. The events stay locked until `tx` ends. */
export async function findWaitingEvents(tx: Db, limit: number): Promise<(DeliverableEvent & { tenant_id: string })[]> {
  const query = tx
    .selectFrom('outbox_events')
    .select(['id', 'tenant_id', 'type', 'created_at', 'data'])
    .where('fanned_out_at', 'is', null)
    .orderBy('created_at')
    .orderBy('id')
    .limit(limit)
  return (engineOf(tx).name === 'postgres' ? query.forUpdate().skipLocked() : query).execute()
}

const SUBSCRIBER = [
  'id',
  'tenant_id',
  'url',
  'events',
  'enabled',
  'secret',
  'previous_secret',
  'previous_secret_until',
  'updated_at',
] as const

/** The columns of an endpoint that fan-out needs. */
export type Subscriber = Pick<WebhookEndpointRow, (typeof SUBSCRIBER)[number]>

/** Returns the endpoints of these tenants, sorted by id. The endpoints cannot be deleted until `tx` ends. */
export async function listSubscribers(tx: Db, tenantIds: readonly string[]): Promise<Subscriber[]> {
  const query = tx.selectFrom('webhook_endpoints').select(SUBSCRIBER).where('tenant_id', 'in', tenantIds).orderBy('id')
  return (engineOf(tx).name === 'postgres' ? query.forKeyShare() : query).execute()
}

export async function findSubscribers(db: Db, ids: readonly string[]): Promise<Subscriber[]> {
  return db.selectFrom('webhook_endpoints').select(SUBSCRIBER).where('id', 'in', ids).execute()
}

export async function markFannedOut(tx: Db, ids: readonly string[], now: string): Promise<void> {
  const events = rowList(
    tx,
    { id: 'text' },
    ids.map((id) => ({ id })),
  )
  await sql`update outbox_events set fanned_out_at = ${now} where id in (select id from ${events} as listed)`.execute(
    tx,
  )
}

/**
 * Returns at most `limit` unclaimed pending deliveries of each endpoint, sorted by due time, earliest first. The rows
 * stay locked until `tx` ends.
 * @param leaseNow the result of `readLeaseTime`
 */
export async function findDue(
  tx: Db,
  wanted: readonly { endpointId: string; limit: number }[],
  leaseNow: string,
): Promise<Map<string, DueDelivery[]>> {
  const found = new Map<string, DueDelivery[]>(wanted.map(({ endpointId }) => [endpointId, []]))
  if (wanted.length === 0) return found
  const lock = engineOf(tx).name === 'postgres' ? sql`for update of d skip locked` : sql``
  // Uses a single statement. Each part of the union scans the index for one endpoint, up to the endpoint's limit.
  const parts = wanted.map(
    ({ endpointId, limit }) => sql`select * from (
      select d.id, d.tenant_id, d.endpoint_id, d.event_type, d.fence, d.attempts, d.due_at,
        d.is_test, d.resend_of, e.id as event_id, e.created_at as event_created_at, e.data
      from webhook_deliveries as d join outbox_events as e on e.id = d.event_id
      where d.endpoint_id = ${endpointId} and d.state = 'pending' and (d.lease_until is null or d.lease_until <= ${leaseNow})
      order by d.due_at limit ${limit} ${lock}
    ) as one`,
  )
  const { rows } = await sql<DueDelivery>`${sql.join(parts, sql` union all `)}`.execute(tx)
  for (const row of rows) found.get(row.endpoint_id)?.push(row)
  for (const due of found.values()) due.sort((a, b) => (a.due_at < b.due_at ? -1 : 1))
  return found
}

/** The owner and the end of a lease. `now` is the result of `readLeaseTime`, from which `until` is computed. */
export type Lease = { owner: string; now: string; until: string }

/** Claims deliveries that `tx` has locked: sets their lease and increments their fence. */
export async function claimDeliveries(
  tx: Db,
  ids: readonly string[],
  { owner, until }: Pick<Lease, 'owner' | 'until'>,
): Promise<void> {
  if (ids.length === 0) return
  const listed = rowList(
    tx,
    { id: 'text' },
    ids.map((id) => ({ id })),
  )
  await sql`
    update webhook_deliveries set lease_owner = ${owner}, lease_until = ${until}, fence = fence + 1
    where id in (select id from ${listed} as listed)
  `.execute(tx)
}

/** Renews the leases of claims that this daemon still owns. */
export async function renewLeases(
  db: Db,
  claims: readonly { id: string; fence: number }[],
  until: string,
): Promise<void> {
  const held = rowList(
    db,
    { id: 'text', fence: 'integer' },
    claims.map(({ id, fence }) => ({ id, fence })),
  )
  await sql`
    update webhook_deliveries as d set lease_until = ${until} from ${held} as held
    where d.id = held.id and d.fence = held.fence and d.state = 'pending'
  `.execute(db)
}

/**
 * Call this only at startup, and only if a single process uses the store. All existing leases then belong to a process
 * that has ended.
 */
export async function releaseAllLeases(db: Db): Promise<void> {
  await sql`
    update webhook_deliveries set lease_owner = null, lease_until = null
    where state = 'pending' and lease_owner is not null
  `.execute(db)
}

/** The new state of a claimed delivery. */
export type Settlement = {
  id: string
  fence: number
  state: WebhookDeliveryRow['state']
  due_at: string | null
  attempts: number
  last_status: number | null
  last_error: string | null
  last_duration_ms: number | null
  last_response: string | null
  delivered_at: string | null
}

const SETTLEMENT = {
  // The column must not be named `id`: in RETURNING, SQLite rejects qualified names, and PostgreSQL rejects ambiguous
  // names.
  delivery_id: 'text',
  fence: 'integer',
  state: 'text',
  due_at: 'text',
  attempts: 'integer',
  last_status: 'integer',
  last_error: 'text',
  last_duration_ms: 'integer',
  last_response: 'text',
  delivered_at: 'text',
} as const

/**
 * Stores each result if the fence of its claim is still current, and ends the lease. @returns the ids of claims that
 * were still owned
 */
export async function settleDeliveries(tx: Db, settlements: readonly Settlement[]): Promise<Set<string>> {
  const listed = settlements.map(({ id, ...row }) => ({ ...row, delivery_id: id }))
  const { rows } = await sql<{ id: string }>`
    update webhook_deliveries as d set
      state = s.state, due_at = coalesce(s.due_at, d.due_at), attempts = s.attempts, lease_owner = null,
      lease_until = null, last_status = s.last_status, last_error = s.last_error,
      last_duration_ms = s.last_duration_ms, last_response = s.last_response, delivered_at = s.delivered_at
    from ${rowList(tx, SETTLEMENT, listed)} as s
    where d.id = s.delivery_id and d.fence = s.fence and d.state = 'pending'
    returning id
  `.execute(tx)
  return new Set(rows.map(({ id }) => id))
}

/** Releases claims without an attempt. */
export async function releaseClaims(tx: Db, claims: readonly { id: string; fence: number }[]): Promise<void> {
  if (claims.length === 0) return
  const held = rowList(
    tx,
    { id: 'text', fence: 'integer' },
    claims.map(({ id, fence }) => ({ id, fence })),
  )
  await sql`
    update webhook_deliveries as d set lease_owner = null, lease_until = null from ${held} as held
    where d.id = held.id and d.fence = held.fence and d.state = 'pending'
  `.execute(tx)
}

export type EndpointHealth = Pick<
  WebhookEndpointRow,
  'id' | 'tenant_id' | 'enabled' | 'failure_count' | 'disabled_reason'
>

/** Reads the health of endpoints, and locks their rows until `tx` ends. Locking in id order prevents deadlocks. */
export async function lockHealth(tx: Db, ids: readonly string[]): Promise<EndpointHealth[]> {
  const query = tx
    .selectFrom('webhook_endpoints')
    .select(['id', 'tenant_id', 'enabled', 'failure_count', 'disabled_reason'])
    .where('id', 'in', ids)
    .orderBy('id')
  return (engineOf(tx).name === 'postgres' ? query.forNoKeyUpdate() : query).execute()
}

const HEALTH = {
  id: 'text',
  enabled: 'integer',
  disabled_reason: 'text',
  failure_count: 'integer',
  last_delivery_at: 'text',
  last_status: 'integer',
} as const

export type HealthRow = {
  id: string
  enabled: number
  disabled_reason: string | null
  failure_count: number
  last_delivery_at: string
  last_status: number | null
}

export async function saveHealth(tx: Db, rows: readonly HealthRow[]): Promise<void> {
  await sql`
    update webhook_endpoints as e set enabled = h.enabled, disabled_reason = h.disabled_reason,
      failure_count = h.failure_count, last_delivery_at = h.last_delivery_at, last_status = h.last_status
    from ${rowList(tx, HEALTH, rows)} as h where e.id = h.id
  `.execute(tx)
}

/**
 * Sets the pending deliveries of a disabled endpoint to `held`. Deliveries in flight become `held` when their attempt
 * fails.
 */
export async function holdPending(tx: Db, endpointId: string, leaseNow: string): Promise<void> {
  await sql`
    update webhook_deliveries set state = 'held', lease_owner = null, lease_until = null, fence = fence + 1
    where endpoint_id = ${endpointId} and state = 'pending'
      and (lease_until is null or lease_until <= ${leaseNow})
  `.execute(tx)
}

/** Returns every endpoint with unclaimed pending deliveries, and the due time of its first delivery. */
export async function listWaitingEndpoints(db: Db, leaseNow: string): Promise<{ id: string; due_at: string }[]> {
  const { rows } = await sql<{ id: string; due_at: string }>`
    select id, due_at from (
      select e.id, (
        select d.due_at from webhook_deliveries as d
        where d.endpoint_id = e.id and d.state = 'pending' and (d.lease_until is null or d.lease_until <= ${leaseNow})
        order by d.due_at limit 1
      ) as due_at from webhook_endpoints as e
    ) as waiting where due_at is not null
  `.execute(db)
  return rows
}
