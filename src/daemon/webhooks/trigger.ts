import type { z } from 'zod'
import { invalidField } from '../../shared/errors.ts'
import type { SubscribableEvent } from '../../shared/event-catalog.ts'
import { EVENT_SAMPLES } from '../../shared/event-samples.ts'
import { newId } from '../../shared/ids.ts'
import type { TriggerRequest } from '../../shared/wire/event-feed.ts'
import { EVENT_DATA, type EventData } from '../../shared/wire/events.ts'
import type { OutboxEventRow } from '../platform/db/tables.ts'
import { type Actor, change } from '../records/audit/change.ts'
import { sampleEvent } from '../records/events/events.ts'
import { insertEvent } from '../records/events/outbox.ts'
import { newDelivery } from './delivery.ts'
import { activityOn, changeOne, requireEnabled, type WebhookDeps } from './endpoints.ts'
import { insertDelivery } from './store.ts'

type Triggered = { event: OutboxEventRow; deliveryId: string | null }

/**
 * Sends a sample event to all listeners. If `endpoint_id` is given, also sends it to that endpoint. The sample contains
 * the ids of this caller and request, unless `data` overrides them.
 * @throws VALIDATION_ERROR for invalid data, WEBHOOK_NOT_FOUND, WEBHOOK_DISABLED
 */
export async function trigger(
  deps: WebhookDeps,
  actor: Actor,
  { type, data = {}, endpoint_id: endpointId }: z.output<typeof TriggerRequest>,
): Promise<Triggered> {
  const { caller, requestId } = actor
  const now = deps.clock.now()
  const own = { userId: caller.userId, apiKeyId: caller.keyId, requestId, incidentId: newId(now) }
  const event = sampleEvent(type, { tenantId: caller.tenantId, now }, toData(type, { ...own, ...data }))
  const metadata = { eventId: event.id, eventType: type }
  if (endpointId === undefined) {
    await change(deps, actor, async ({ tx, record }) => {
      await insertEvent(tx, event)
      await record({
        type: 'webhook_management',
        operation: 'test',
        resourceType: 'webhook',
        resourceId: event.id.slice('evt_test_'.length),
        description: `sent a sample of ${type} to all listening clients`,
        metadata,
      })
    })
    return { event, deliveryId: null }
  }
  const delivery = newDelivery(event, endpointId, now, { isTest: true })
  await changeOne(deps, actor, endpointId, async ({ tx, record, row }) => {
    requireEnabled(row)
    await insertEvent(tx, event)
    await insertDelivery(tx, delivery)
    await record({ ...activityOn(row, 'test'), metadata: { ...metadata, deliveryId: delivery.id } })
  })
  return { event, deliveryId: delivery.id }
}

/** Returns the sample data with the caller's changes. Unknown fields are removed. @throws VALIDATION_ERROR */
function toData<Type extends SubscribableEvent>(type: Type, changes: object): EventData<Type> {
  const checked = EVENT_DATA[type].safeParse({ ...EVENT_SAMPLES[type], ...changes })
  if (checked.success) return checked.data as EventData<Type>
  const [issue] = checked.error.issues
  const field = ['data', ...(issue?.path ?? [])].join('.')
  throw invalidField(field, `${field}: ${issue?.message}`)
}
