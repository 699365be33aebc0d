import { describe, expect, test } from 'vitest'
import { insertRows } from '../../../../src/daemon/platform/db/insert-rows.ts'
import type { OutboxEventRow } from '../../../../src/daemon/platform/db/tables.ts'
import {
  attackBlocked,
  attackDetected,
  budgetThreshold,
  canaryLeaked,
  dlpIncident,
  evidenceDegraded,
  indexFailed,
  keyExpiring,
  limitReached,
  modelFailover,
  piiIncident,
  providerDown,
  providerRecovered,
  rejectedRequests,
  webhookTest,
} from '../../../../src/daemon/records/events/events.ts'
import { SUBSCRIBABLE_EVENTS, TEST_EVENT } from '../../../../src/shared/event-catalog.ts'
import { EVENT_SAMPLES as SAMPLES } from '../../../../src/shared/event-samples.ts'
import { EVENT_DATA } from '../../../../src/shared/wire/events.ts'
import { sqliteEngine } from '../../../engines.ts'

const CREATED = '2026-03-01T12:00:00.000Z'
const AT = { tenantId: 't1', createdAt: CREATED }
const WINDOW = { counter: 'minute', windowStart: CREATED }
const STEP = { requestId: 'req-1', step: 1 }

/** Each event, built from its sample. */
const made = (at: typeof AT): OutboxEventRow[] => [
  attackBlocked(at, SAMPLES['promptshield:attack:blocked'], 'incident-1'),
  attackDetected(at, SAMPLES['promptshield:attack:detected'], 'incident-1'),
  canaryLeaked(at, SAMPLES['promptshield:canary:leaked']),
  dlpIncident(at, SAMPLES['dlp:incident']),
  piiIncident(at, SAMPLES['pii:incident']),
  limitReached({ ...at, ...WINDOW }, SAMPLES['api:limit_reached']),
  modelFailover({ ...at, ...STEP }, SAMPLES['api:model_failover']),
  rejectedRequests(at, SAMPLES['security:rejected_requests']),
  keyExpiring(at, SAMPLES['key:expiring']),
  budgetThreshold(at, SAMPLES['budget:threshold']),
  providerDown(at, SAMPLES['provider:down']),
  providerRecovered(at, SAMPLES['provider:recovered']),
  indexFailed(at, SAMPLES['index:failed']),
  evidenceDegraded(at, SAMPLES['evidence:degraded']),
]

describe('events', () => {
  test('every event of the catalog, and the test event, has a constructor and a payload schema', () => {
    expect(made(AT).map(({ type }) => type)).toEqual(SUBSCRIBABLE_EVENTS)
    expect(Object.keys(EVENT_DATA)).toEqual([...SUBSCRIBABLE_EVENTS, TEST_EVENT])
  })

  test.each(made(AT).map((event) => [event.type, event] as const))('%s matches its schema', (type, event) => {
    expect(event).toMatchObject({
      id: expect.stringMatching(/^evt_[0-9a-f]{24}$/),
      tenant_id: 't1',
      created_at: CREATED,
    })
    const data = JSON.parse(event.data)
    expect(EVENT_DATA[type as keyof typeof EVENT_DATA].strict().parse(data)).toEqual(data)
  })

  test('the same occurrence always has the same id, and another id for another tenant', () => {
    const ids = (tenantId: string) => made({ ...AT, tenantId }).map(({ id }) => id)
    expect(ids('t1')).toEqual(ids('t1'))
    expect(new Set([...ids('t1'), ...ids('t2')]).size).toBe(2 * SUBSCRIBABLE_EVENTS.length)
  })

  test('the same scan that detects and then blocks is two events', () => {
    const data = SAMPLES['promptshield:attack:blocked']
    expect(attackBlocked(AT, data, 'incident-1').id).not.toBe(attackDetected(AT, data, 'incident-1').id)
  })

  test('webhook:test is marked in its id, new each time, and sent to no other endpoint', () => {
    const now = Date.parse(CREATED)
    const [one, other] = [webhookTest({ tenantId: 't1', now }, 'e1'), webhookTest({ tenantId: 't1', now }, 'e1')]
    expect(one).toMatchObject({ id: expect.stringMatching(/^evt_test_/), type: TEST_EVENT, fanned_out_at: CREATED })
    expect(EVENT_DATA[TEST_EVENT].parse(JSON.parse(one.data))).toMatchObject({ endpointId: 'e1' })
    expect(one.id).not.toBe(other.id)
  })

  test('all of them can be stored', async () => {
    const { db, close } = await sqliteEngine.open()
    try {
      expect(await insertRows(db, 'outbox_events', made(AT))).toBe(SUBSCRIBABLE_EVENTS.length)
    } finally {
      await close()
    }
  })
})
