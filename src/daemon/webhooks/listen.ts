import type { z } from 'zod'
import { GatewayError } from '../../shared/errors.ts'
import { StructuredError } from '../../shared/wire/common.ts'
import {
  EVENT_FEED_PATH,
  EventFeedFrame,
  EventFeedQuery,
  EventFeedResponse,
  TRIGGER_PATH,
  TriggerRequest,
  TriggerResponse,
} from '../../shared/wire/event-feed.ts'
import { requireAccess } from '../platform/http/access.ts'
import { type RequestContext, type Route, reply, route } from '../platform/http/route.ts'
import type { WebhookDeps } from './endpoints.ts'
import { eventPage, followEvents } from './event-feed.ts'
import { trigger } from './trigger.ts'
import { toEnvelope } from './view.ts'

/** Maximum number of concurrent listeners, per tenant and per daemon. */
export const LISTENERS = { perTenant: 10, perDaemon: 100 } as const

export type ListenDeps = WebhookDeps & { isDraining(): boolean }

/** Returns the routes for `aigw webhooks listen` and `aigw webhooks trigger`. */
export function listenRoutes(deps: ListenDeps): Route[] {
  const { db } = deps
  const listeners = createListeners()
  const common: Pick<Route, 'access' | 'errors' | 'tags'> = {
    access: 'integrations',
    errors: 'structured',
    tags: ['Webhooks'],
  }
  return [
    route({
      ...common,
      method: 'GET',
      path: EVENT_FEED_PATH,
      // Requests for streams do not count towards the key's daily limit, because a listener may reconnect often.
      // Requests for pages do.
      rateOf: (request) => (wantsStream(request) ? 'unmetered' : 'general'),
      summary: 'List the events of this tenant; with `Accept: text/event-stream`, stream new events',
      query: EventFeedQuery,
      responses: {
        200: { description: 'One page, or a stream of new events', schema: EventFeedResponse, stream: EventFeedFrame },
      },
      async handle(context) {
        const { caller, access, query, signal } = context
        const { tenantId } = caller
        if (!wantsStream(context.request)) {
          const page = await eventPage(db, tenantId, query.since)
          return reply(200, { success: true, ...page } satisfies z.input<typeof EventFeedResponse>)
        }
        return listeners.run(tenantId, async () => {
          await followEvents(context.openStream(), deps, {
            tenantId,
            since: query.since,
            signal,
            // If the key is revoked during the stream, the client must not receive further events.
            requirePermission: async () => requireAccess(await deps.lookUpAgain(db, caller), access, 'GET'),
          })
          return undefined
        })
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: TRIGGER_PATH,
      rate: 'write',
      summary: 'Send a sample event to all listening clients, and to one endpoint',
      body: TriggerRequest,
      responses: {
        202: { description: 'The event, which is being sent', schema: TriggerResponse },
        404: { description: 'No webhook of this tenant has this id', schema: StructuredError },
        409: { description: 'The webhook is disabled', schema: StructuredError },
      },
      async handle(context) {
        const { event, deliveryId } = await trigger(deps, context, context.body)
        return reply(202, { success: true, event: toEnvelope(event), delivery_id: deliveryId } satisfies z.input<
          typeof TriggerResponse
        >)
      },
    }),
  ]
}

const wantsStream = ({ method, headers }: RequestContext['request']): boolean =>
  method === 'GET' && /\btext\/event-stream\b/i.test(headers.accept ?? '')

/** Counts open listeners. */
function createListeners() {
  const byTenant = new Map<string, number>()
  let all = 0
  return {
    /** @throws RATE_LIMIT_EXCEEDED if too many listeners are open */
    async run<T>(tenantId: string, listen: () => Promise<T>): Promise<T> {
      const own = byTenant.get(tenantId) ?? 0
      if (own >= LISTENERS.perTenant || all >= LISTENERS.perDaemon) {
        throw new GatewayError(
          'RATE_LIMIT_EXCEEDED',
          'Too many clients listen to events already. Disconnect one of them first.',
        )
      }
      byTenant.set(tenantId, own + 1)
      all += 1
      try {
        return await listen()
      } finally {
        const left = (byTenant.get(tenantId) ?? 1) - 1
        if (left === 0) byTenant.delete(tenantId)
        else byTenant.set(tenantId, left)
        all -= 1
      }
    },
  }
}
