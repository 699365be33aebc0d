// The body and headers of a delivery.
import { sign } from '../../../shared/webhook-signature.ts'
import type { OutboxEventRow } from '../../platform/db/tables.ts'

export type DeliverableEvent = Pick<OutboxEventRow, 'id' | 'type' | 'created_at' | 'data'>

/** Returns the body for all deliveries of an event. Each attempt sends exactly the same bytes. */
export function envelopeOf({ id, type, created_at, data }: DeliverableEvent): string {
  const created = Math.floor(Date.parse(created_at) / 1000)
  // The data is already stored as JSON. It is inserted unchanged, because parsing and serializing could change it.
  return `{"id":${JSON.stringify(id)},"type":${JSON.stringify(type)},"created":${created},"data":${data}}`
}

/**
 * Returns the names and values of the headers of one attempt. Each attempt is signed with its own timestamp, because
 * many receivers reject signatures that are more than a few minutes old.
 * @param now milliseconds since 1970
 */
export function headersOf(
  { id, eventType, body }: { id: string; eventType: string; body: string },
  secrets: readonly string[],
  now: number,
): string[] {
  return [
    'content-type',
    'application/json',
    'user-agent',
    'aigw-webhooks',
    'x-service-event',
    eventType,
    'x-service-delivery',
    id,
    'x-service-signature',
    sign(body, secrets, Math.floor(now / 1000)),
  ]
}
