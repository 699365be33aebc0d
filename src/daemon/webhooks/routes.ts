import type { z } from 'zod'
import { isoTime } from '../../shared/time.ts'
import { DoneResponse, StructuredError } from '../../shared/wire/common.ts'
import {
  CATALOG,
  CreateWebhookRequest,
  DeliveryAcceptedResponse,
  ListDeliveriesQuery,
  ListDeliveriesResponse,
  ListWebhooksResponse,
  RecoverRequest,
  RecoverResponse,
  RotateSecretRequest,
  ShowDeliveryResponse,
  UpdateWebhookRequest,
  WebhookResponse,
  WebhookSecretResponse,
} from '../../shared/wire/webhooks.ts'
import { toPagination } from '../platform/db/list-page.ts'
import type { Caller } from '../platform/http/caller.ts'
import { type Route, reply, route } from '../platform/http/route.ts'
import { getDelivery, recover, resend, sendTest } from './deliveries.ts'
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  type NewSecret,
  rotateWebhookSecret,
  updateWebhook,
  type WebhookDeps,
} from './endpoints.ts'
import { type EndpointWithHeld, listDeliveries, listEndpoints } from './store.ts'
import { toDelivery, toEnvelope, toWebhook } from './view.ts'

const NOT_FOUND = { description: 'No webhook of this tenant has this id', schema: StructuredError }
const NO_DELIVERY = { description: 'No delivery of this tenant has this id', schema: StructuredError }
const DISABLED = { description: 'The webhook is disabled', schema: StructuredError }

/** Responses that contain a secret must not be cached. */
const SECRET_HEADERS = { 'cache-control': 'no-store' }

/** Returns the routes that manage webhooks and their deliveries. */
export function webhookRoutes(deps: WebhookDeps): Route[] {
  const { db, clock } = deps
  const common: Pick<Route, 'access' | 'errors' | 'tags'> = {
    access: 'integrations',
    errors: 'structured',
    tags: ['Webhooks'],
  }
  const shown = (endpoint: EndpointWithHeld, caller: Caller) => toWebhook(endpoint, isoTime(clock.now()), caller)
  const withSecret = (message: string, { endpoint, secret }: NewSecret, caller: Caller) =>
    ({ success: true, message, webhook: shown(endpoint, caller), secret }) satisfies z.input<
      typeof WebhookSecretResponse
    >

  return [
    route({
      ...common,
      method: 'GET',
      path: '/api/admin/webhooks',
      summary: 'List webhooks and the event types',
      responses: { 200: { description: 'All webhooks, newest first', schema: ListWebhooksResponse } },
      async handle({ caller }) {
        const webhooks = (await listEndpoints(db, caller.tenantId)).map((endpoint) => shown(endpoint, caller))
        return reply(200, { success: true, webhooks, events: CATALOG } satisfies z.input<typeof ListWebhooksResponse>)
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/api/admin/webhooks',
      summary: 'Create a webhook; its signing secret is returned only once',
      body: CreateWebhookRequest,
      responses: { 201: { description: 'The webhook and its secret', schema: WebhookSecretResponse } },
      async handle(context) {
        const created = await createWebhook(deps, context, context.body)
        return reply(201, withSecret('Webhook created', created, context.caller), SECRET_HEADERS)
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: '/api/admin/webhooks/{webhookId}',
      summary: 'Show a webhook',
      responses: { 200: { description: 'The webhook', schema: WebhookResponse }, 404: NOT_FOUND },
      async handle({ caller, params }) {
        const webhook = shown(await getWebhook(db, caller.tenantId, params.webhookId), caller)
        return reply(200, { success: true, webhook } satisfies z.input<typeof WebhookResponse>)
      },
    }),
    route({
      ...common,
      method: 'PUT',
      path: '/api/admin/webhooks/{webhookId}',
      summary:
        'Update a webhook; enabling it resets its failures to 0, and heldDeliveries counts what recover can send',
      body: UpdateWebhookRequest,
      responses: { 200: { description: 'The updated webhook', schema: WebhookResponse }, 404: NOT_FOUND },
      async handle(context) {
        const webhook = shown(
          await updateWebhook(deps, context, context.params.webhookId, context.body),
          context.caller,
        )
        return reply(200, { success: true, webhook } satisfies z.input<typeof WebhookResponse>)
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: '/api/admin/webhooks/{webhookId}',
      summary: 'Delete a webhook and cancel its pending deliveries',
      responses: { 200: { description: 'The webhook was deleted', schema: DoneResponse }, 404: NOT_FOUND },
      async handle(context) {
        await deleteWebhook(deps, context, context.params.webhookId)
        return reply(200, { success: true, message: 'Webhook deleted' } satisfies z.input<typeof DoneResponse>)
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/api/admin/webhooks/{webhookId}/rotate-secret',
      summary: 'Give a webhook a new signing secret, which is returned only once',
      body: RotateSecretRequest,
      responses: {
        200: { description: 'The webhook and its new secret', schema: WebhookSecretResponse },
        404: NOT_FOUND,
      },
      async handle(context) {
        const { params, body } = context
        const rotated = await rotateWebhookSecret(deps, context, params.webhookId, body.overlap_seconds)
        return reply(200, withSecret('Signing secret rotated', rotated, context.caller), SECRET_HEADERS)
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/api/admin/webhooks/{webhookId}/test',
      summary: 'Send a webhook:test event to a webhook',
      responses: {
        202: { description: 'The delivery is being sent', schema: DeliveryAcceptedResponse },
        404: NOT_FOUND,
        409: DISABLED,
      },
      async handle(context) {
        const delivery_id = await sendTest(deps, context, context.params.webhookId)
        return reply(202, { success: true, delivery_id } satisfies z.input<typeof DeliveryAcceptedResponse>)
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/api/admin/webhooks/{webhookId}/recover',
      summary: 'Resend deliveries that failed, were held or were skipped since a given time',
      body: RecoverRequest,
      responses: {
        200: { description: 'The number of deliveries that are sent again', schema: RecoverResponse },
        404: NOT_FOUND,
        409: DISABLED,
      },
      async handle(context) {
        const { recovered, more } = await recover(deps, context, context.params.webhookId, context.body.since)
        const message = `${recovered} ${recovered === 1 ? 'delivery is' : 'deliveries are'} on the way`
        return reply(200, { success: true, message, recovered, more } satisfies z.input<typeof RecoverResponse>)
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: '/api/admin/deliveries',
      summary: 'List deliveries',
      query: ListDeliveriesQuery,
      responses: { 200: { description: 'One page, newest first', schema: ListDeliveriesResponse } },
      async handle({ caller, query }) {
        const { rows, total } = await listDeliveries(db, caller.tenantId, query)
        return reply(200, {
          success: true,
          deliveries: rows.map(toDelivery),
          pagination: toPagination(query, total),
        } satisfies z.input<typeof ListDeliveriesResponse>)
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: '/api/admin/deliveries/{deliveryId}',
      summary: 'Show a delivery with its event and the last response',
      responses: { 200: { description: 'The delivery', schema: ShowDeliveryResponse }, 404: NO_DELIVERY },
      async handle({ caller, params }) {
        const { delivery, event } = await getDelivery(db, caller.tenantId, params.deliveryId)
        return reply(200, {
          success: true,
          delivery: {
            ...toDelivery(delivery),
            lastResponse: delivery.last_response,
            event: event ? toEnvelope(event) : null,
          },
        } satisfies z.input<typeof ShowDeliveryResponse>)
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/api/admin/deliveries/{deliveryId}/resend',
      summary: 'Send the event of a delivery again',
      responses: {
        202: { description: 'The new delivery is being sent', schema: DeliveryAcceptedResponse },
        404: NO_DELIVERY,
        409: DISABLED,
      },
      async handle(context) {
        const delivery_id = await resend(deps, context, context.params.deliveryId)
        return reply(202, { success: true, delivery_id } satisfies z.input<typeof DeliveryAcceptedResponse>)
      },
    }),
  ]
}
