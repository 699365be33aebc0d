import type { Delivery, Webhook } from '../../../shared/wire/webhooks.ts'
import { columns, flexible } from '../../output/formats.ts'
import type { Described } from '../../resources/resolve.ts'

const MEMBERS: Record<keyof Webhook, true> = {
  id: true,
  url: true,
  description: true,
  events: true,
  enabled: true,
  disabledReason: true,
  failureCount: true,
  previousSecretUntil: true,
  lastDeliveryAt: true,
  lastStatus: true,
  heldDeliveries: true,
  heldDropped: true,
  createdAt: true,
  updatedAt: true,
}

const IN_LISTS = columns(
  { URL: flexible('url'), EVENTS: 'events', ENABLED: 'enabled', FAILURES: 'failureCount', 'LAST STATUS': 'lastStatus' },
  { 'LAST DELIVERY': 'lastDeliveryAt', ID: 'id' },
)

const shared = {
  idPath: 'id',
  members: Object.keys(MEMBERS),
  none: 'No webhooks yet. Create one:  aigw webhooks create --url URL',
}

/** Several endpoints may have the same address. */
export const WEBHOOKS: Described<Webhook> = {
  noun: 'webhook',
  command: 'webhooks',
  path: '/api/admin/webhooks',
  itemsKey: 'webhooks',
  itemKey: 'webhook',
  isCalled: (webhook, address) => webhook.url === address,
  sharesNames: true,
  isWhole: true,
  argument: 'id, or a unique address',
  listView: { ...shared, columns: IN_LISTS },
  view: {
    ...shared,
    columns: [
      ...IN_LISTS,
      ...columns(
        { DESCRIPTION: 'description', 'DISABLED BY': 'disabledReason', HELD: 'heldDeliveries', DROPPED: 'heldDropped' },
        { 'OLD SECRET UNTIL': 'previousSecretUntil', CREATED: 'createdAt', UPDATED: 'updatedAt' },
      ),
    ],
  },
}

const IN_LOG = columns(
  { CREATED: 'createdAt', EVENT: 'eventType', STATE: 'state', ATTEMPTS: 'attempts', STATUS: 'lastStatus' },
  { ERROR: flexible('lastError'), ID: 'id' },
)

export const DELIVERIES: Described<Delivery> = {
  noun: 'delivery',
  command: 'webhooks deliveries',
  path: '/api/admin/deliveries',
  itemsKey: 'deliveries',
  itemKey: 'delivery',
  isCalled: () => false,
  argument: 'its id, which is the X-Service-Delivery of its requests',
  listView: {
    columns: IN_LOG,
    idPath: 'id',
    none: 'No deliveries.',
  },
  view: {
    columns: [
      ...IN_LOG,
      ...columns(
        { MS: 'lastDurationMs', 'NEXT ATTEMPT': 'nextAttemptAt', DELIVERED: 'deliveredAt', WEBHOOK: 'webhookId' },
        { 'EVENT ID': 'eventId', 'RESEND OF': 'resendOf', TEST: 'isTest', ANSWER: 'lastResponse', DATA: 'event.data' },
      ),
    ],
    idPath: 'id',
  },
}
