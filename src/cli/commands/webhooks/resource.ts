import type { Delivery, Webhook } from '../../../shared/wire/webhooks.ts'
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

const IN_LISTS = [
  { path: 'url', flexible: true },
  { path: 'events' },
  { path: 'enabled' },
  { path: 'failureCount', title: 'FAILURES' },
  { path: 'lastStatus', title: 'LAST STATUS' },
  { path: 'lastDeliveryAt', title: 'LAST DELIVERY' },
  { path: 'id' },
]

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
      { path: 'description' },
      { path: 'disabledReason', title: 'DISABLED BY' },
      { path: 'heldDeliveries', title: 'HELD' },
      { path: 'heldDropped', title: 'DROPPED' },
      { path: 'previousSecretUntil', title: 'OLD SECRET UNTIL' },
      { path: 'createdAt', title: 'CREATED' },
      { path: 'updatedAt', title: 'UPDATED' },
    ],
  },
}

const IN_LOG = [
  { path: 'createdAt', title: 'CREATED' },
  { path: 'eventType', title: 'EVENT' },
  { path: 'state' },
  { path: 'attempts' },
  { path: 'lastStatus', title: 'STATUS' },
  { path: 'lastError', title: 'ERROR', flexible: true },
  { path: 'id' },
]

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
      { path: 'lastDurationMs', title: 'MS' },
      { path: 'nextAttemptAt', title: 'NEXT ATTEMPT' },
      { path: 'deliveredAt', title: 'DELIVERED' },
      { path: 'webhookId', title: 'WEBHOOK' },
      { path: 'eventId', title: 'EVENT ID' },
      { path: 'resendOf', title: 'RESEND OF' },
      { path: 'isTest', title: 'TEST' },
      { path: 'lastResponse', title: 'ANSWER' },
      { path: 'event.data', title: 'DATA' },
    ],
    idPath: 'id',
  },
}
