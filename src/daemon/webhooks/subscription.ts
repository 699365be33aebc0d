import { ALL_EVENTS } from '../../shared/event-catalog.ts'
import type { WebhookEndpointRow } from '../platform/db/tables.ts'

/** Returns whether the endpoint subscribes to an event type. */
export function subscriptionsOf({ events }: Pick<WebhookEndpointRow, 'events'>): (type: string) => boolean {
  const types = new Set<string>(JSON.parse(events) as string[])
  return types.has(ALL_EVENTS) ? () => true : (type) => types.has(type)
}
