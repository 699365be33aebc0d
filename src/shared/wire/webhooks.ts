import { z } from 'zod'
import { ALL_EVENTS, EVENT_CATALOG, SUBSCRIBABLE_EVENTS, TEST_EVENT } from '../event-catalog.ts'
import { findNearestName } from '../nearest-name.ts'
import {
  WEBHOOK_HELD,
  WEBHOOK_HELD_COUNTED,
  WEBHOOK_OVERLAP_SECONDS,
  WEBHOOK_SETTINGS_MS,
  WEBHOOK_URL_CHARS,
} from '../spec-limits.ts'
import {
  description,
  flag,
  listQuery,
  objectId,
  oneOf,
  optional,
  Pagination,
  readOnlyMembers,
  requestBody,
  storableText,
} from './common.ts'
import { EventEnvelope } from './events.ts'

/** Valid values in `events`. */
export const SUBSCRIPTIONS = [ALL_EVENTS, ...SUBSCRIBABLE_EVENTS] as const
export type Subscription = (typeof SUBSCRIPTIONS)[number]

/** Replaces the path and the query of an address that is not shown in full. */
export const SHORTENED = '/…'

/**
 * A webhook endpoint. It does not contain the signing secret. The secret is shown only in the response of create and in
 * the response of rotate.
 */
export const Webhook = z
  .object({
    id: z.string(),
    url: z.string().meta({
      description: `Callers with \`integrations\` at level \`reader\` see only its origin and "${SHORTENED}", because the rest may contain a token`,
    }),
    description: z.string(),
    events: z.array(z.enum(SUBSCRIPTIONS)),
    enabled: z.boolean(),
    disabledReason: z
      .enum(['failures', 'manual'])
      .nullable()
      .meta({ description: '`failures`: it was disabled automatically, after 20 consecutive failed deliveries' }),
    failureCount: z.int().meta({ description: 'Consecutive failed deliveries' }),
    previousSecretUntil: z
      .string()
      .nullable()
      .meta({ description: 'The time until which the previous secret also signs' }),
    lastDeliveryAt: z.string().nullable().meta({ description: 'The end of the last attempt' }),
    lastStatus: z
      .int()
      .nullable()
      .meta({ description: 'HTTP status of the last attempt; null if there was no response' }),
    heldDeliveries: z
      .int()
      .max(WEBHOOK_HELD_COUNTED)
      .meta({
        description: `Deliveries held while it was disabled; recover sends them once it is enabled. ${WEBHOOK_HELD_COUNTED} means at least as many`,
      }),
    heldDropped: z.int().meta({
      description: `Deliveries dropped since it was created, oldest first, because more than ${WEBHOOK_HELD} were held`,
    }),
    createdAt: z.string(),
    updatedAt: z.string(),
  })
  .meta({ id: 'Webhook' })
export type Webhook = z.infer<typeof Webhook>

const url = storableText('url')
  .trim()
  .min(1, { error: 'url is required' })
  .max(WEBHOOK_URL_CHARS, { error: `url may have at most ${WEBHOOK_URL_CHARS} characters` })
  // A client may send back what a reader saw.
  .refine((text) => !text.endsWith(SHORTENED), { error: 'url is shortened; send the whole address, or omit url' })
const events = z
  .array(z.enum(SUBSCRIPTIONS, { error: ({ input }) => unknownEvent(input) }), {
    error: 'events must be an array of event types; ["*"] means all',
  })
  .min(1, { error: 'events must name at least one event type; ["*"] means all' })
  .transform((types) => [...new Set(types)])

function unknownEvent(given: unknown): string {
  if (given === TEST_EVENT) return `"${TEST_EVENT}" is sent by the test route only and cannot be subscribed to`
  const nearest = typeof given === 'string' ? findNearestName(given, SUBSCRIBABLE_EVENTS) : undefined
  if (nearest !== undefined) return `unknown event type; did you mean "${nearest}"?`
  return `unknown event type; known types: ${SUBSCRIPTIONS.map((type) => `"${type}"`).join(', ')}`
}

/** The body of POST /api/admin/webhooks. By default, `description` is empty and `enabled` is true. */
export const CreateWebhookRequest = requestBody('CreateWebhookRequest', {
  url,
  description: optional(description),
  events,
  enabled: optional(flag('enabled')),
})

/** The members of a webhook that requests cannot change. */
export const WEBHOOK_READ_ONLY = [
  'id',
  'disabledReason',
  'failureCount',
  'previousSecretUntil',
  'lastDeliveryAt',
  'lastStatus',
  'heldDeliveries',
  'heldDropped',
  'createdAt',
  'updatedAt',
] as const satisfies (keyof Webhook)[]

/** The body of PUT /api/admin/webhooks/{webhookId}. Only the members in the body are changed. */
export const UpdateWebhookRequest = requestBody('UpdateWebhookRequest', {
  url: optional(url),
  description: optional(description),
  events: optional(events),
  enabled: optional(flag('enabled')),
  ...readOnlyMembers(WEBHOOK_READ_ONLY),
})

/** The body of …/rotate-secret. */
export const RotateSecretRequest = requestBody('RotateSecretRequest', {
  overlap_seconds: z
    .int({ error: 'overlap_seconds must be a whole number of seconds' })
    .min(0, { error: 'overlap_seconds must not be negative' })
    .max(WEBHOOK_OVERLAP_SECONDS, { error: `overlap_seconds may be at most ${WEBHOOK_OVERLAP_SECONDS}` })
    .nullish()
    .transform((seconds) => seconds ?? 0)
    .meta({
      description: `How long the previous secret also signs, in a second v1; by default it stops within ${WEBHOOK_SETTINGS_MS / 1000} s`,
    }),
})

/** The body of …/recover. */
export const RecoverRequest = requestBody('RecoverRequest', {
  since: z.iso
    .datetime({ offset: true, error: 'since must be a time such as 2026-01-31T12:00:00Z' })
    .refine((time) => !Number.isNaN(Date.parse(time)), { error: 'since must be a valid time' })
    .meta({ description: 'The start of the period whose failed, held and undelivered events are sent again' }),
})

const CatalogEntry = z
  .object({ type: z.enum(SUBSCRIPTIONS), description: z.string() })
  .meta({ id: 'WebhookCatalogEntry' })

/** The catalog of events. Only the response of the list contains this member. */
export const CATALOG: z.infer<typeof CatalogEntry>[] = SUBSCRIPTIONS.map((type) => ({
  type,
  description: type === ALL_EVENTS ? 'All events below' : EVENT_CATALOG[type],
}))

export const ListWebhooksResponse = z.object({
  success: z.literal(true),
  webhooks: z.array(Webhook),
  events: z.array(CatalogEntry),
})
/** The response of show and update. */
export const WebhookResponse = z.object({ success: z.literal(true), webhook: Webhook })
/** The response of create and rotate-secret. */
export const WebhookSecretResponse = z.object({
  success: z.literal(true),
  message: z.string(),
  webhook: Webhook,
  secret: z.string().meta({ description: 'The signing secret, shown this once' }),
})
/** The response of test and resend: the pending delivery. */
export const DeliveryAcceptedResponse = z.object({ success: z.literal(true), delivery_id: z.string() })
export const RecoverResponse = z.object({
  success: z.literal(true),
  message: z.string(),
  recovered: z.int().meta({ description: 'Deliveries that were queued again' }),
  more: z.boolean().meta({ description: 'True if more deliveries remain than one call queues; call again' }),
})

const DELIVERY_STATES = ['pending', 'delivered', 'failed', 'held', 'cancelled'] as const

/** One delivery of an event to one endpoint. */
export const Delivery = z
  .object({
    id: z.string().meta({ description: 'X-Service-Delivery, the same for all attempts' }),
    webhookId: z.string(),
    eventId: z.string(),
    eventType: z.string(),
    state: z.enum(DELIVERY_STATES).meta({
      description:
        '`held`: its endpoint is disabled; `failed`: its attempts are used up; `cancelled`: it was dropped, because its endpoint was deleted, too many were held, or its event was deleted',
    }),
    attempts: z.int(),
    nextAttemptAt: z.string().nullable().meta({ description: 'Null unless it is pending' }),
    deliveredAt: z.string().nullable(),
    lastStatus: z.int().nullable(),
    lastError: z.string().nullable(),
    lastDurationMs: z.int().nullable(),
    resendOf: z.string().nullable().meta({ description: 'The delivery that this one resends' }),
    isTest: z.boolean(),
    createdAt: z.string(),
  })
  .meta({ id: 'WebhookDelivery' })
export type Delivery = z.infer<typeof Delivery>

export const ListDeliveriesQuery = listQuery(['createdAt'])
  .omit({ search: true })
  .extend({
    webhookId: objectId('webhookId').optional(),
    state: oneOf('state', DELIVERY_STATES).optional(),
    event: oneOf('event', [...SUBSCRIBABLE_EVENTS, TEST_EVENT]).optional(),
  })

export const ListDeliveriesResponse = z.object({
  success: z.literal(true),
  deliveries: z.array(Delivery),
  pagination: Pagination,
})

export const ShowDeliveryResponse = z.object({
  success: z.literal(true),
  delivery: Delivery.extend({
    lastResponse: z.string().nullable().meta({
      description: 'The first 4 KiB of the last response; null for a receiver with a private address',
    }),
    event: EventEnvelope.nullable().meta({ description: 'The body that was sent; null if it is no longer stored' }),
  }).meta({ id: 'WebhookDeliveryDetails' }),
})
