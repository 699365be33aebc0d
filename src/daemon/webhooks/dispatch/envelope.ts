// The body and headers of a delivery.
import { sign } from '../../../shared/webhook-signature.ts'
import type { OutboxEventRow } from '../../platform/db/tables.ts'

export type DeliverableEvent = Pick<OutboxEventRow, 'id' | 'type' | 'created_at' | 'data'>

/** The body of every delivery of an event, identical byte for byte in each attempt. */
export function envelopeOf({ id, type, created_at, data }: DeliverableEvent): string {
  const created = Math.floor(Date.parse(created_at) / 1000)
  // The data is stored as JSON. It is inserted unchanged, because parsing and serialising it could change it.
  return `{"id":${JSON.stringify(id)},"type":${JSON.stringify(type)},"created":${created},"data":${data}}`
}

/**
 * Names and values of the headers of one attempt. Each attempt is signed with its own timestamp, because many receivers
 * reject signatures that are older than some minutes.
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
