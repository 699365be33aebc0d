import { ALL_EVENTS } from '../../shared/event-catalog.ts'
import type { WebhookEndpointRow } from '../platform/db/tables.ts'

/** Tells for each event type whether the endpoint subscribes to it. */
export function subscriptionsOf({ events }: Pick<WebhookEndpointRow, 'events'>): (type: string) => boolean {
  const types = new Set<string>(JSON.parse(events) as string[])
  return types.has(ALL_EVENTS) ? () => true : (type) => types.has(type)
}
