import { z } from 'zod'
import { SUBSCRIBABLE_EVENTS } from '../event-catalog.ts'
import { objectId, oneOf, optional, requestBody } from './common.ts'
import { EventEnvelope } from './events.ts'

export const EVENT_FEED_PATH = '/api/admin/webhooks/recent-events'
export const TRIGGER_PATH = '/api/admin/webhooks/trigger'

/** The start of the feed: a time, or the position after an event. A position contains the event's time and id. */
const Cursor = z
  .string({ error: 'since must be a time or a cursor' })
  .regex(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z(\/evt_[0-9a-z_]{1,64})?$/, {
    error: 'since must be a time such as 2026-01-01T00:00:00.000Z, or the `next` of an earlier response',
  })
  .refine((cursor) => !Number.isNaN(Date.parse(cursor.slice(0, 24))), { error: 'since must be a valid time' })

export const EventFeedQuery = z.object({
  since: Cursor.optional().meta({ description: 'Only events after this; by default the latest ones' }),
})

/** One page, oldest first. */
export const EventFeedResponse = z
  .object({
    success: z.literal(true),
    events: z.array(EventEnvelope),
    next: z
      .string()
      .nullable()
      .meta({ description: 'The `since` for the events that follow; null if there are none yet' }),
  })
  .meta({ id: 'EventFeedResponse' })

/**
 * A frame of the stream. `cursor` is the position from which a client can resume. After a client resumes, it may
 * receive an event a second time.
 */
export const EventFeedFrame = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('ready'), data: z.object({ cursor: z.string() }) }),
    z.object({ type: z.literal('event'), data: z.object({ cursor: z.string(), event: EventEnvelope }) }),
  ])
  .meta({ id: 'EventFeedFrame' })
export type EventFeedFrame = z.infer<typeof EventFeedFrame>

/** The request to send a sample event. `data` overrides members of the sample. */
export const TriggerRequest = requestBody('TriggerRequest', {
  type: oneOf('type', SUBSCRIBABLE_EVENTS),
  data: optional(z.looseObject({}, { error: 'data must be an object' })),
  endpoint_id: optional(objectId('endpoint_id')),
})

export const TriggerResponse = z
  .object({
    success: z.literal(true),
    event: EventEnvelope,
    delivery_id: z.string().nullable().meta({ description: 'The delivery to `endpoint_id`; null without an endpoint' }),
  })
  .meta({ id: 'TriggerResponse' })
