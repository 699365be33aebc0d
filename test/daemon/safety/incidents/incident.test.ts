import { describe, expect, test } from 'vitest'
import { type GuardIncident, incidentRecords } from '../../../../src/daemon/safety/incidents/incident.ts'

const ORIGIN = {
  caller: { tenantId: 't1', keyId: 'k1', userId: 'u1' },
  requestId: 'req-1',
  endpoint: '/v1/chat/completions',
  traceId: 'trx-1',
  policy: 'ours',
  model: null,
}
const what = { direction: 'input', severity: 'high', category: 'any' } as const
const rule = { ruleId: 'r1', ruleName: 'Rule', types: { EMAIL: 1 } }
const shield = { shieldPolicy: 'balanced', shieldMode: 'monitor', riskScore: 97, confidence: 0.9 } as const

const eventsOf = (incident: GuardIncident, origin: object = {}) =>
  incidentRecords([incident], { ...ORIGIN, ...origin }, 0).events.map(({ type, data }) => ({
    type,
    data: JSON.parse(data),
  }))

describe('the event of an incident', () => {
  test.each([true, false])('reports whether the prescribed action was taken: %s', (enforced) => {
    const common = { ...what, action: 'block', enforced } as const
    const told = [
      { ...common, ...rule, kind: 'pii' } as const,
      { ...common, ...rule, kind: 'dlp' } as const,
      { ...common, kind: 'canary', canaryId: 'c1' } as const,
      { ...common, ...shield, kind: 'prompt_shield' } as const,
    ].flatMap((incident) => eventsOf(incident))
    expect(told.map(({ type }) => type)).toEqual([
      'pii:incident',
      'dlp:incident',
      'promptshield:canary:leaked',
      `promptshield:attack:${enforced ? 'blocked' : 'detected'}`,
    ])
    expect(told.map(({ data }) => data.enforced)).toEqual(Array(4).fill(enforced))
  })

  test.each([
    ['conv-0123456789abcdef01234567', true],
    ['1f3a8f4e-6a0b-4c3e-9d52-0c4d9f1b2a37', true],
    ['ada@example.com', false],
    ['4111-1111-1111-1111', false],
    ['conv-ada.lovelace', false],
  ])('contains only conversation ids without personal data: %s', (conversationId, isNamed) => {
    const incident = { ...what, ...shield, kind: 'prompt_shield', action: 'block', enforced: true } as const
    const [event] = eventsOf(incident, { conversationId })
    expect(event?.data.conversationId).toBe(isNamed ? conversationId : undefined)
  })
})
