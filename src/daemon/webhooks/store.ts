import { sql } from 'kysely'
import { WEBHOOK_HELD_COUNTED, WEBHOOK_KEPT_DAYS, WEBHOOK_RECOVERED } from '../../shared/spec-limits.ts'
import { DAY_MS, isoTime } from '../../shared/time.ts'
import type { Subscription } from '../../shared/wire/webhooks.ts'
import type { Db } from '../platform/db/db.ts'
import { insertRows } from '../platform/db/insert-rows.ts'
import { type Page, pageOf } from '../platform/db/list-page.ts'
import type { OutboxEventRow, WebhookDeliveryRow, WebhookEndpointRow } from '../platform/db/tables.ts'
import { newDelivery } from './delivery.ts'

/**
 * An endpoint, and the number of held deliveries that a recovery would send. The count is capped at
 * WEBHOOK_HELD_COUNTED.
 */
export type EndpointWithHeld = { row: WebhookEndpointRow; held: number }

export const insertEndpoint = async (db: Db, endpoint: WebhookEndpointRow): Promise<void> => {
  await insertRows(db, 'webhook_endpoints', [endpoint])
}

export const findEndpoint = (db: Db, tenantId: string, id: string): Promise<WebhookEndpointRow | undefined> =>
  db
    .selectFrom('webhook_endpoints')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .executeTakeFirst()

/** Returns all endpoints of a tenant, the newest first. */
export async function listEndpoints(db: Db, tenantId: string): Promise<EndpointWithHeld[]> {
  const rows = await endpointsWithHeld(db, tenantId).orderBy('created_at', 'desc').orderBy('id', 'desc').execute()
  return rows.map(toEndpointWithHeld)
}

export async function findEndpointWithHeld(
  db: Db,
  tenantId: string,
  id: string,
): Promise<EndpointWithHeld | undefined> {
  const row = await endpointsWithHeld(db, tenantId).where('id', '=', id).executeTakeFirst()
  return row && toEndpointWithHeld(row)
}

const endpointsWithHeld = (db: Db, tenantId: string) =>
  db.selectFrom('webhook_endpoints').selectAll().select(heldOf.as('held')).where('tenant_id', '=', tenantId)

/**
 * The query contains states as literals, not as parameters; only then can it use the index of held deliveries. The
 * count is capped at the limit.
 */
const heldOf = sql<number>`(select count(*) from (
  select 1 from webhook_deliveries as d
  where d.endpoint_id = webhook_endpoints.id and d.state = 'held' and d.is_test = 0
  limit ${sql.lit(WEBHOOK_HELD_COUNTED)}
) as counted)`

const toEndpointWithHeld = ({ held, ...row }: WebhookEndpointRow & { held: number }): EndpointWithHeld => ({
  row,
  held,
})

export const countEndpoints = async (db: Db, tenantId: string): Promise<number> => {
  const counted = db.selectFrom('webhook_endpoints').select(sql<number>`count(*)`.as('total'))
  const { total } = await counted
    .where('tenant_id', '=', tenantId)
    .$castTo<{ total: number }>()
    .executeTakeFirstOrThrow()
  return total
}

export type EndpointChange = {
  url?: string | undefined
  description?: string | undefined
  events?: readonly Subscription[] | undefined
  enabled?: boolean | undefined
}

/**
 * Changes only the given fields. Enabling a disabled endpoint resets its count of consecutive failures. A single
 * statement makes both changes, because a failed delivery may disable the endpoint at any moment.
 */
export async function updateEndpoint(
  tx: Db,
  { tenant_id, id }: Pick<WebhookEndpointRow, 'tenant_id' | 'id'>,
  { url, description, events, enabled }: EndpointChange,
  updated_at: string,
): Promise<void> {
  await tx
    .updateTable('webhook_endpoints')
    .set({
      updated_at,
      ...(url !== undefined && { url }),
      ...(description !== undefined && { description }),
      ...(events !== undefined && { events: JSON.stringify(events) }),
      ...(enabled === true && {
        enabled: 1,
        disabled_reason: null,
        failure_count: sql<number>`case when enabled = 0 then 0 else failure_count end`,
      }),
      ...(enabled === false && {
        enabled: 0,
        // If an endpoint was disabled automatically, the reason is kept.
        disabled_reason: sql<'failures' | 'manual'>`coalesce(disabled_reason, 'manual')`,
      }),
    })
    .where('tenant_id', '=', tenant_id)
    .where('id', '=', id)
    .execute()
}

/**
 * Sets the next secret of an endpoint. The current secret also signs until `previousUntil`. If `previousUntil` is null,
 * the current secret stops signing immediately.
 */
export async function rotateSecret(
  tx: Db,
  { tenant_id, id, secret }: Pick<WebhookEndpointRow, 'tenant_id' | 'id' | 'secret'>,
  next: { sealed: string; previousUntil: string | null; updatedAt: string },
): Promise<void> {
  await tx
    .updateTable('webhook_endpoints')
    .set({
      secret: next.sealed,
      previous_secret: next.previousUntil === null ? null : secret,
      previous_secret_until: next.previousUntil,
      updated_at: next.updatedAt,
    })
    .where('tenant_id', '=', tenant_id)
    .where('id', '=', id)
    .execute()
}

/** Deletes an endpoint and cancels its deliveries, including deliveries in flight. @returns the deleted endpoint */
export async function deleteEndpoint(
  tx: Db,
  tenantId: string,
  id: string,
): Promise<{ endpoint: WebhookEndpointRow; cancelled: number } | undefined> {
  const endpoint = await tx
    .deleteFrom('webhook_endpoints')
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()
  if (!endpoint) return undefined
  const { numUpdatedRows } = await tx
    .updateTable('webhook_deliveries')
    .set((the) => ({ state: 'cancelled' as const, ...RELEASED, fence: the('fence', '+', 1) }))
    .where('tenant_id', '=', tenantId)
    .where('endpoint_id', '=', id)
    .where('state', 'in', ['pending', 'held'])
    .executeTakeFirstOrThrow()
  return { endpoint, cancelled: Number(numUpdatedRows) }
}

const RELEASED = { lease_owner: null, lease_until: null }

export const insertDelivery = async (tx: Db, delivery: WebhookDeliveryRow): Promise<void> => {
  await insertRows(tx, 'webhook_deliveries', [delivery])
}

export const findDelivery = (db: Db, tenantId: string, id: string): Promise<WebhookDeliveryRow | undefined> =>
  db
    .selectFrom('webhook_deliveries')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .executeTakeFirst()

export const findEvent = (db: Db, tenantId: string, id: string): Promise<OutboxEventRow | undefined> =>
  db.selectFrom('outbox_events').selectAll().where('tenant_id', '=', tenantId).where('id', '=', id).executeTakeFirst()

export type DeliveryFilter = Page & {
  webhookId?: string | undefined
  state?: WebhookDeliveryRow['state'] | undefined
  event?: string | undefined
  sortOrder: 'asc' | 'desc'
}

/** Returns one page of a tenant's deliveries, and the total number of matches. */
export function listDeliveries(
  db: Db,
  tenantId: string,
  { webhookId, state, event, sortOrder, ...page }: DeliveryFilter,
): Promise<{ rows: WebhookDeliveryRow[]; total: number }> {
  let matching = db.selectFrom('webhook_deliveries').select('id').where('tenant_id', '=', tenantId)
  if (webhookId !== undefined) matching = matching.where('endpoint_id', '=', webhookId)
  if (state !== undefined) matching = matching.where('state', '=', state)
  if (event !== undefined) matching = matching.where('event_type', '=', event)
  return pageOf(matching, {
    ...page,
    sortKeys: ['created_at', 'id'],
    sortOrder,
    isSearch: false,
    find: (ids) =>
      db
        .selectFrom('webhook_deliveries')
        .selectAll()
        .where('tenant_id', '=', tenantId)
        .where('id', 'in', ids)
        .execute(),
  })
}

/**
 * Requeues failed and held deliveries that were created at or after `since`. Requeues at most WEBHOOK_RECOVERED
 * deliveries, the oldest first. Each delivery keeps its id, and its attempts start again from 0.
 * @returns how many were requeued
 */
export async function requeueDeliveries(
  tx: Db,
  { tenant_id, id }: Pick<WebhookEndpointRow, 'tenant_id' | 'id'>,
  { since, now }: { since: string; now: string },
): Promise<number> {
  const waiting = tx
    .selectFrom('webhook_deliveries')
    .select('id')
    .where('tenant_id', '=', tenant_id)
    .where('endpoint_id', '=', id)
    .where('created_at', '>=', since)
    .where('state', 'in', ['failed', 'held'])
    .where('is_test', '=', 0)
    // Deliveries without an event are excluded: they cannot be sent and would stay pending forever.
    .where(({ exists, selectFrom }) =>
      exists(selectFrom('outbox_events as e').select('e.id').whereRef('e.id', '=', 'webhook_deliveries.event_id')),
    )
    .orderBy('created_at')
    .orderBy('id')
    .limit(WEBHOOK_RECOVERED)
  const { numUpdatedRows } = await tx
    .updateTable('webhook_deliveries')
    .set((the) => ({
      state: 'pending' as const,
      due_at: now,
      attempts: 0,
      ...RELEASED,
      fence: the('fence', '+', 1),
    }))
    .where('id', 'in', waiting)
    .executeTakeFirstOrThrow()
  return Number(numUpdatedRows)
}

/**
 * Creates deliveries for past events if the endpoint now subscribes to their type, but did not when they were created.
 * The oldest events come first. Events from before the endpoint was created are excluded. Events older than
 * WEBHOOK_KEPT_DAYS are also excluded: their deliveries may be purged, so it is unknown whether they were sent. Creates
 * at most `limit` deliveries. @returns how many were created
 */
export async function deliverMissed(
  tx: Db,
  endpoint: WebhookEndpointRow,
  { types, since, now, limit }: { types: readonly string[]; since: string; now: number; limit: number },
): Promise<number> {
  if (limit <= 0) return 0
  const { tenant_id, id, created_at } = endpoint
  const known = isoTime(now - WEBHOOK_KEPT_DAYS * DAY_MS)
  const events = await tx
    .selectFrom('outbox_events as e')
    .select(['e.id', 'e.tenant_id', 'e.type'])
    .where('e.tenant_id', '=', tenant_id)
    .where(
      'e.created_at',
      '>=',
      [since, created_at, known].reduce((a, b) => (a > b ? a : b)),
    )
    .where('e.type', 'in', types)
    // Sample events go only to the endpoint that requested them.
    .where('e.id', 'not like', 'evt_test_%')
    // Events without `fanned_out_at` are excluded, because fan-out still delivers them.
    .where('e.fanned_out_at', 'is not', null)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('webhook_deliveries as d')
            .select('d.id')
            .where('d.endpoint_id', '=', id)
            .whereRef('d.event_id', '=', 'e.id')
            .where('d.resend_of', 'is', null),
        ),
      ),
    )
    .orderBy('e.created_at')
    .orderBy('e.id')
    .limit(limit)
    .execute()
  const rows = events.map((event) => newDelivery(event, id, now))
  return insertRows(tx, 'webhook_deliveries', rows, { onConflict: 'ignore' })
}
