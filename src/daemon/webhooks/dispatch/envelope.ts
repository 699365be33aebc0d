import { sign } from '../../../shared/webhook-signature.ts'
import type { OutboxEventRow } from '../../platform/db/tables.ts'

export type DeliverableEvent = Pick<OutboxEventRow, 'id' | 'type' | 'created_at' | 'data'>

/** The body of every delivery of an event, byte for byte the same each time (spec: Envelope). */
export function envelopeOf({ id, type, created_at, data }: DeliverableEvent): string {
  const created = Math.floor(Date.parse(created_at) / 1000)
  // The data was written by us as JSON; parsing it to write it again could only change it.
  return `{"id":${JSON.stringify(id)},"type":${JSON.stringify(type)},"created":${created},"data":${data}}`
}

/**
 * Names and values of one attempt (spec: Delivery headers). The signature is of this moment: a retry a minute later would
 * lie outside many a receiver's window.
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
