/**
 * All events that an endpoint can subscribe to, each with its trigger. This file contains no schemas, so the CLI can
 * list the events without loading the schemas.
 */
export const EVENT_CATALOG = {
  'promptshield:attack:blocked': 'The prompt shield blocked an injection or jailbreak attempt',
  'promptshield:attack:detected': 'The prompt shield flagged a suspicious message without blocking it',
  'promptshield:canary:leaked': 'A canary token was found in model output',
  'dlp:incident': 'A data-loss-prevention rule matched',
  'pii:incident': 'Personal data was detected or redacted',
  'api:limit_reached': 'An API key reached a daily, monthly or rate limit',
  'api:model_failover': 'A redundancy chain failed over from one model to another',
  'security:rejected_requests': 'Many requests of one client address were rejected; only for the operator',
  'key:expiring': 'An API key expires within 7 days',
  'budget:threshold': 'A monthly budget in dollars has reached 50, 80 or 100 percent',
  'provider:down': 'A model failed repeatedly and is skipped until it answers again',
  'provider:recovered': 'A model that was down has answered again',
  'index:failed': 'A document could not be added to an index',
  'evidence:degraded': 'Evidence was lost or is contradicted; only for the operator',
} as const

export type SubscribableEvent = keyof typeof EVENT_CATALOG

/** The event types in the catalog's order. */
export const SUBSCRIBABLE_EVENTS = Object.keys(EVENT_CATALOG) as [SubscribableEvent, ...SubscribableEvent[]]

/** If an endpoint subscribes to this name, it receives every event of the catalog. */
export const ALL_EVENTS = '*'

/** Only the test route sends this event. Endpoints cannot subscribe to it. */
export const TEST_EVENT = 'webhook:test'
