import type { Delivery, Webhook } from '../../../shared/wire/webhooks.ts'

export const WEBHOOK_ARGUMENT = 'id, or address if only one has it'

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

export const WEBHOOK_LIST_VIEW = { ...shared, columns: IN_LISTS }
/** One endpoint, with all that is known of it. */
export const WEBHOOK_VIEW = {
  ...shared,
  columns: [
    ...IN_LISTS,
    { path: 'description' },
    { path: 'disabledReason', title: 'DISABLED BY' },
    { path: 'heldDeliveries', title: 'HELD' },
    { path: 'heldDropped', title: 'GIVEN UP' },
    { path: 'previousSecretUntil', title: 'EARLIER SECRET UNTIL' },
    { path: 'createdAt', title: 'CREATED' },
    { path: 'updatedAt', title: 'UPDATED' },
  ],
}

const DELIVERY_MEMBERS: Record<keyof Delivery, true> = {
  id: true,
  webhookId: true,
  eventId: true,
  eventType: true,
  state: true,
  attempts: true,
  nextAttemptAt: true,
  deliveredAt: true,
  lastStatus: true,
  lastError: true,
  lastDurationMs: true,
  resendOf: true,
  isTest: true,
  createdAt: true,
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

export const DELIVERY_LIST_VIEW = {
  columns: IN_LOG,
  idPath: 'id',
  members: Object.keys(DELIVERY_MEMBERS),
  none: 'Nothing was sent.',
}

/** One delivery, with what was sent and what came back. */
export const DELIVERY_VIEW = {
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
  members: [...Object.keys(DELIVERY_MEMBERS), 'lastResponse', 'event'],
}
