import { GatewayError } from '../../shared/errors.ts'
import { SUBSCRIBABLE_EVENTS } from '../../shared/event-catalog.ts'
import { WEBHOOK_RECOVERED } from '../../shared/spec-limits.ts'
import { isoTime } from '../../shared/time.ts'
import type { Db } from '../platform/db/db.ts'
import type { OutboxEventRow, WebhookDeliveryRow } from '../platform/db/tables.ts'
import type { Actor } from '../records/audit/change.ts'
import { webhookTest } from '../records/events/events.ts'
import { insertEvent } from '../records/events/outbox.ts'
import { newDelivery } from './delivery.ts'
import { activityOn, changeOne, requireEnabled, type WebhookDeps } from './endpoints.ts'
import { deliverMissed, findDelivery, findEvent, insertDelivery, requeueDeliveries } from './store.ts'
import { subscriptionsOf } from './subscription.ts'

/** Queues a `webhook:test` event and returns the id of its delivery. @throws WEBHOOK_NOT_FOUND, WEBHOOK_DISABLED */
export async function sendTest(deps: WebhookDeps, actor: Actor, webhookId: string | undefined): Promise<string> {
  let deliveryId = ''
  await changeOne(deps, actor, webhookId, async ({ tx, record, row }) => {
    requireEnabled(row)
    const now = deps.clock.now()
    const event = webhookTest({ tenantId: row.tenant_id, now }, row.id)
    const delivery = newDelivery(event, row.id, now, { isTest: true })
    deliveryId = delivery.id
    await insertEvent(tx, event)
    await insertDelivery(tx, delivery)
    await record({ ...activityOn(row, 'test'), metadata: { deliveryId, eventId: event.id } })
  })
  return deliveryId
}

/**
 * Resends a delivery: creates a new delivery of the same event to the same endpoint. Returns the id of the new
 * delivery.
 * @throws DELIVERY_NOT_FOUND, WEBHOOK_NOT_FOUND if its endpoint was deleted, WEBHOOK_DISABLED
 */
export async function resend(deps: WebhookDeps, actor: Actor, deliveryId: string | undefined): Promise<string> {
  const { tenantId } = actor.caller
  const { delivery } = await getDelivery(deps.db, tenantId, deliveryId)
  let resentId = ''
  await changeOne(deps, actor, delivery.endpoint_id, async ({ tx, record, row }) => {
    requireEnabled(row)
    const event = await findEvent(tx, tenantId, delivery.event_id)
    if (!event)
      throw deliveryNotFound('This delivery cannot be resent: its event is past the retention time and was deleted.')
    const resent = newDelivery(event, row.id, deps.clock.now(), {
      resendOf: delivery.id,
      isTest: delivery.is_test === 1,
    })
    resentId = resent.id
    await insertDelivery(tx, resent)
    await record({ ...activityOn(row, 'resend'), metadata: { deliveryId: delivery.id, resentAs: resentId } })
  })
  return resentId
}

/**
 * Requeues an endpoint's failed and held deliveries if they were created since a given time, and creates missed
 * deliveries. Each call handles at most WEBHOOK_RECOVERED deliveries in total.
 * @throws WEBHOOK_NOT_FOUND, WEBHOOK_DISABLED
 */
export async function recover(
  deps: WebhookDeps,
  actor: Actor,
  webhookId: string | undefined,
  since: string,
): Promise<{ recovered: number; more: boolean }> {
  let recovered = 0
  await changeOne(deps, actor, webhookId, async ({ tx, record, row }) => {
    requireEnabled(row)
    const now = deps.clock.now()
    const sinceUtc = isoTime(Date.parse(since))
    const requeued = await requeueDeliveries(tx, row, { since: sinceUtc, now: isoTime(now) })
    const missed = await deliverMissed(tx, row, {
      types: SUBSCRIBABLE_EVENTS.filter(subscriptionsOf(row)),
      since: sinceUtc,
      now,
      limit: WEBHOOK_RECOVERED - requeued,
    })
    recovered = requeued + missed
    await record({ ...activityOn(row, 'recover'), metadata: { since: sinceUtc, requeued, missed } })
  })
  return { recovered, more: recovered >= WEBHOOK_RECOVERED }
}

/**
 * Returns a delivery of this tenant, and its event if the event is still stored. `deliveryId` is unvalidated input.
 * @throws DELIVERY_NOT_FOUND
 */
export async function getDelivery(
  db: Db,
  tenantId: string,
  deliveryId: string | undefined,
): Promise<{ delivery: WebhookDeliveryRow; event: OutboxEventRow | undefined }> {
  const id = (deliveryId ?? '').toLowerCase()
  const delivery = UUID.test(id) ? await findDelivery(db, tenantId, id) : undefined
  if (!delivery) throw deliveryNotFound('Delivery not found. GET /api/admin/deliveries lists all deliveries.')
  return { delivery, event: await findEvent(db, tenantId, delivery.event_id) }
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const deliveryNotFound = (message: string) => new GatewayError('DELIVERY_NOT_FOUND', message)
