import { z } from 'zod'
import { mayUse } from '../../shared/permissions.ts'
import { EventEnvelope } from '../../shared/wire/events.ts'
import { type Delivery, SHORTENED, SUBSCRIPTIONS, type Webhook } from '../../shared/wire/webhooks.ts'
import type { OutboxEventRow, WebhookDeliveryRow } from '../platform/db/tables.ts'
import type { Caller } from '../platform/http/caller.ts'
import type { EndpointWithHeld } from './store.ts'

const StoredEvents = z.array(z.enum(SUBSCRIPTIONS))

/**
 * Converts an endpoint to its API form. This form contains neither secrets nor encrypted secrets. Callers that may only
 * read see no path and no query of the URL, because these may contain a token.
 */
export const toWebhook = (
  { row, held }: EndpointWithHeld,
  now: string,
  { rights }: Pick<Caller, 'rights'>,
): Webhook => ({
  id: row.id,
  url: mayUse(rights, 'integrations', 'admin') ? row.url : originOf(row.url) + SHORTENED,
  description: row.description,
  events: StoredEvents.parse(JSON.parse(row.events)),
  enabled: row.enabled === 1,
  disabledReason: row.disabled_reason,
  failureCount: row.failure_count,
  previousSecretUntil:
    row.previous_secret_until !== null && now < row.previous_secret_until ? row.previous_secret_until : null,
  lastDeliveryAt: row.last_delivery_at,
  lastStatus: row.last_status,
  heldDeliveries: held,
  heldDropped: row.held_dropped,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
})

export const toDelivery = (row: WebhookDeliveryRow): Delivery => ({
  id: row.id,
  webhookId: row.endpoint_id,
  eventId: row.event_id,
  eventType: row.event_type,
  state: row.state,
  attempts: row.attempts,
  nextAttemptAt: row.state === 'pending' ? row.due_at : null,
  deliveredAt: row.delivered_at,
  lastStatus: row.last_status,
  lastError: row.last_error,
  lastDurationMs: row.last_duration_ms,
  resendOf: row.resend_of,
  isTest: row.is_test === 1,
  createdAt: row.created_at,
})

/** Returns the envelope that receivers get. */
export const toEnvelope = ({ id, type, created_at, data }: OutboxEventRow): z.infer<typeof EventEnvelope> =>
  EventEnvelope.parse({ id, type, created: Math.floor(Date.parse(created_at) / 1000), data: JSON.parse(data) })

/** Returns the URL without its path and query, because these may contain a secret. */
export const originOf = (url: string): string => new URL(url).origin
