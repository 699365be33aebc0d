import { hash } from 'node:crypto'
import { type SubscribableEvent, TEST_EVENT } from '../../../shared/event-catalog.ts'
import { newId } from '../../../shared/ids.ts'
import { isoTime } from '../../../shared/time.ts'
import type { EventData, EventType } from '../../../shared/wire/events.ts'
import type { OutboxEventRow } from '../../platform/db/tables.ts'

// One constructor for each event (spec: Events; payloads: named-endpoints §22). An id follows from what happened, so that
// no occurrence is told of twice, however often it is written.

/** When and for whom something happened; `createdAt` is ISO 8601. */
type Occurrence = { tenantId: string; createdAt: string }
/** The same in one request. */
type InRequest = Occurrence & { requestId: string }

/** Which limit a key ran into. */
export type LimitReached = EventData<'api:limit_reached'>
/** One step of a chain from a model that failed to the next. */
export type ModelFailover = EventData<'api:model_failover'>
/** What the prompt shield found. */
export type ShieldFinding = EventData<'promptshield:attack:blocked'>
/** A canary token that a model gave away. */
export type CanaryLeaked = EventData<'promptshield:canary:leaked'>
/** A data-loss-prevention rule that matched. */
export type DlpIncident = EventData<'dlp:incident'>
/** Personal data that was detected or redacted. */
export type PiiIncident = EventData<'pii:incident'>

/** `promptshield:attack:blocked`: once for each incident. A request has several where it brings several tool results. */
export const attackBlocked = (at: Occurrence, data: ShieldFinding, incidentId: string): OutboxEventRow =>
  inRequest('promptshield:attack:blocked', at, data, incidentId)

/** `promptshield:attack:detected`: likewise. */
export const attackDetected = (at: Occurrence, data: ShieldFinding, incidentId: string): OutboxEventRow =>
  inRequest('promptshield:attack:detected', at, data, incidentId)

/** `promptshield:canary:leaked`: once for each token of an answer. */
export const canaryLeaked = (at: Occurrence, data: CanaryLeaked): OutboxEventRow =>
  inRequest('promptshield:canary:leaked', at, data, data.canaryId)

/** `dlp:incident`: once for each incident. */
export const dlpIncident = (at: Occurrence, data: DlpIncident): OutboxEventRow =>
  inRequest('dlp:incident', at, data, data.incidentId)

/** `pii:incident`: once for each incident. */
export const piiIncident = (at: Occurrence, data: PiiIncident): OutboxEventRow =>
  inRequest('pii:incident', at, data, data.incidentId)

/** `api:limit_reached`: one window of a counter is one event, however many requests and daemons run into its limit. */
export const limitReached = (
  at: Occurrence & { counter: string; windowStart: string },
  data: LimitReached,
): OutboxEventRow => toRow('api:limit_reached', at, data, [at.tenantId, data.apiKeyId, at.counter, at.windowStart])

/** `api:model_failover`: once for each step of a chain. */
export const modelFailover = (at: InRequest & { step: number }, data: ModelFailover): OutboxEventRow =>
  toRow('api:model_failover', at, data, [at.tenantId, at.requestId, 'api:model_failover', at.step])

/**
 * `webhook:test`: as often as somebody asks. It has its receiver already, so it is not passed on to those who subscribe.
 * @param now milliseconds since 1970
 */
export function webhookTest({ tenantId, now }: { tenantId: string; now: number }, endpointId: string): OutboxEventRow {
  return toTestRow(TEST_EVENT, { tenantId, now }, { message: 'This is a test delivery.', endpointId })
}

/** A sample of an event, for those who try out their receivers; passed on to nobody either. */
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

type RequestEvent = Exclude<EventType, 'api:limit_reached' | 'api:model_failover' | typeof TEST_EVENT>

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
