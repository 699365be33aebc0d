import { hash } from 'node:crypto'
import { type SubscribableEvent, TEST_EVENT } from '../../../shared/event-catalog.ts'
import { newId } from '../../../shared/ids.ts'
import { isoTime } from '../../../shared/time.ts'
import type { EventData, EventType } from '../../../shared/wire/events.ts'
import type { OutboxEventRow } from '../../platform/db/tables.ts'

// This file contains one constructor for each event type. The id of an event is derived from the occurrence that it
// reports. If the same occurrence is stored twice, the outbox still contains only one event.

/** The time and the tenant of an event. `createdAt` is ISO 8601. */
type Occurrence = { tenantId: string; createdAt: string }
/** An occurrence within one request. */
type InRequest = Occurrence & { requestId: string }

/** The limit that a key reached. */
export type LimitReached = EventData<'api:limit_reached'>
/** One failover from a failed model to the next model. */
export type ModelFailover = EventData<'api:model_failover'>
/** The findings of the prompt shield. */
export type ShieldFinding = EventData<'promptshield:attack:blocked'>
/** A canary token that appeared in an answer. */
export type CanaryLeaked = EventData<'promptshield:canary:leaked'>
/** A data-loss-prevention rule that matched. */
export type DlpIncident = EventData<'dlp:incident'>
/** Personal data that was detected or redacted. */
export type PiiIncident = EventData<'pii:incident'>
/** A key that expires soon. */
export type KeyExpiring = EventData<'key:expiring'>
/** A budget that has reached a threshold. */
export type BudgetThreshold = EventData<'budget:threshold'>
/** A model that is down. */
export type ProviderDown = EventData<'provider:down'>
/** A model that answers again. */
export type ProviderRecovered = EventData<'provider:recovered'>
/** Documents that could not be added to an index. */
export type IndexFailed = EventData<'index:failed'>
/** Lost or contradicted evidence. */
export type EvidenceDegraded = EventData<'evidence:degraded'>
/** A client address with many rejected requests. */
export type RejectedRequests = EventData<'security:rejected_requests'>

/**
 * `promptshield:attack:blocked`: one per incident. A request may have several incidents, for example one per tool
 * result.
 */
export const attackBlocked = (at: Occurrence, data: ShieldFinding, incidentId: string): OutboxEventRow =>
  inRequest('promptshield:attack:blocked', at, data, incidentId)

/** `promptshield:attack:detected`: one per incident. */
export const attackDetected = (at: Occurrence, data: ShieldFinding, incidentId: string): OutboxEventRow =>
  inRequest('promptshield:attack:detected', at, data, incidentId)

/** `promptshield:canary:leaked`: one per token that an answer leaks. */
export const canaryLeaked = (at: Occurrence, data: CanaryLeaked): OutboxEventRow =>
  inRequest('promptshield:canary:leaked', at, data, data.canaryId)

/** `dlp:incident`: one per incident. */
export const dlpIncident = (at: Occurrence, data: DlpIncident): OutboxEventRow =>
  inRequest('dlp:incident', at, data, data.incidentId)

/** `pii:incident`: one per incident. */
export const piiIncident = (at: Occurrence, data: PiiIncident): OutboxEventRow =>
  inRequest('pii:incident', at, data, data.incidentId)

/**
 * `api:limit_reached`: one per window of a counter, even if many requests or daemons reach the limit.
 */
export const limitReached = (
  at: Occurrence & { counter: string; windowStart: string },
  data: LimitReached,
): OutboxEventRow => toRow('api:limit_reached', at, data, [at.tenantId, data.apiKeyId, at.counter, at.windowStart])

/** `api:model_failover`: one per failover. */
export const modelFailover = (at: InRequest & { step: number }, data: ModelFailover): OutboxEventRow =>
  toRow('api:model_failover', at, data, [at.tenantId, at.requestId, 'api:model_failover', at.step])

/**
 * `security:rejected_requests`: one per address, family of routes and minute, even if many daemons count the requests.
 */
export const rejectedRequests = (at: Occurrence, data: RejectedRequests): OutboxEventRow =>
  toRow('security:rejected_requests', at, data, [
    at.tenantId,
    'security:rejected_requests',
    data.routes,
    data.address,
    data.windowStart,
  ])

/** `key:expiring`: one per key and time of expiry. */
export const keyExpiring = (at: Occurrence, data: KeyExpiring): OutboxEventRow =>
  toRow('key:expiring', at, data, [at.tenantId, 'key:expiring', data.apiKeyId, data.expiresAt])

/** `budget:threshold`: one per budget, month and threshold, even if the limit changes. */
export const budgetThreshold = (at: Occurrence, data: BudgetThreshold): OutboxEventRow =>
  toRow('budget:threshold', at, data, [
    at.tenantId,
    'budget:threshold',
    data.scope,
    data.budgetId ?? data.subject,
    data.period,
    data.threshold,
  ])

/** `provider:down`: one per outage. */
export const providerDown = (at: Occurrence, data: ProviderDown): OutboxEventRow =>
  toRow('provider:down', at, data, [at.tenantId, 'provider:down', data.model, data.since])

/** `provider:recovered`: one per outage. */
export const providerRecovered = (at: Occurrence, data: ProviderRecovered): OutboxEventRow =>
  toRow('provider:recovered', at, data, [at.tenantId, 'provider:recovered', data.model, data.since])

/** `index:failed`: one per training request with documents that could not be added. */
export const indexFailed = (at: Occurrence, data: IndexFailed): OutboxEventRow =>
  inRequest('index:failed', at, data, data.indexId)

/** `evidence:degraded`: one per loss. */
export const evidenceDegraded = (at: Occurrence, data: EvidenceDegraded): OutboxEventRow =>
  toRow('evidence:degraded', at, data, [at.tenantId, 'evidence:degraded', data.lossId, data.foundAt])

/**
 * `webhook:test`: one per call. The event is sent only to one endpoint, not to all subscribers.
 * @param now milliseconds since 1970
 */
export function webhookTest({ tenantId, now }: { tenantId: string; now: number }, endpointId: string): OutboxEventRow {
  return toTestRow(TEST_EVENT, { tenantId, now }, { message: 'This is a test delivery.', endpointId })
}

/** A sample event for testing a receiver. The event is not sent to subscribers. */
export const sampleEvent = <Type extends SubscribableEvent>(
  type: Type,
  at: { tenantId: string; now: number },
  data: EventData<Type>,
): OutboxEventRow => toTestRow(type, at, data)

const toTestRow = <Type extends EventType>(
  type: Type,
  { tenantId, now }: { tenantId: string; now: number },
  data: EventData<Type>,
): OutboxEventRow => ({
  id: `evt_test_${newId(now)}`,
  tenant_id: tenantId,
  type,
  created_at: isoTime(now),
  data: JSON.stringify(data),
  fanned_out_at: isoTime(now),
})

type RequestEvent = Extract<EventType, `promptshield:${string}` | 'dlp:incident' | 'pii:incident' | 'index:failed'>

const inRequest = <Type extends RequestEvent>(type: Type, at: Occurrence, data: EventData<Type>, which: string) =>
  toRow(type, at, data, [at.tenantId, data.requestId, type, which])

function toRow<Type extends EventType>(
  type: Type,
  { tenantId, createdAt }: Occurrence,
  data: EventData<Type>,
  source: readonly unknown[],
): OutboxEventRow {
  return {
    id: `evt_${hash('sha256', JSON.stringify(source), 'hex').slice(0, 24)}`,
    tenant_id: tenantId,
    type,
    created_at: createdAt,
    data: JSON.stringify(data),
  }
}
