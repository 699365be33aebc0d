import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Entitlement } from '../../../../src/daemon/records/evidence/entitlement.ts'
import { payloadOf } from '../../../../src/daemon/records/evidence/entry-payload.ts'
import { toSummary } from '../../../../src/daemon/records/evidence/log-blocks.ts'
import {
  type RequestEnd,
  type RequestFacts,
  toRequestEntry,
} from '../../../../src/daemon/records/evidence/request-entry.ts'
import { withCanonicalPayload } from '../../../../src/daemon/records/evidence/stored-payload.ts'
import type { EntryDraft } from '../../../../src/daemon/records/ledger/records.ts'
import { usageOf } from '../../../../src/daemon/records/usage/usage-days.ts'
import type { GuardIncident } from '../../../../src/daemon/safety/incidents/incident.ts'
import { BUILT_IN_POLICIES } from '../../../../src/daemon/safety/policies/built-in.ts'
import type { AppliedPolicy } from '../../../../src/daemon/safety/policies/policies.ts'
import { toCanonicalJson } from '../../../../src/shared/canonical-json.ts'
import { isoTime } from '../../../../src/shared/time.ts'
import { ATTEMPT_REASONS } from '../../../../src/shared/wire/chat.ts'
import { requestEnd, requestFacts } from '../../../request-facts.ts'

const { id, ...named } = BUILT_IN_POLICIES[0] as (typeof BUILT_IN_POLICIES)[0]
const policy: AppliedPolicy = { ...named, canonical: id, source: 'request' }

/** Any text that a caller may send, including lone surrogates and control characters. */
const character = fc.constantFrom('a', 'é', '"', '\\', '\u{0}', '\n', '\u{2028}', '\u{d83d}', '\u{dc4d}')
const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 20 }), fc.string({ unit: character, maxLength: 400 }))
const hash = fc.constant('a'.repeat(64))
const count = fc.nat()
const entitlement: fc.Arbitrary<Entitlement> = fc.record({
  ...{ jti: fc.constant('jti-1/0'), sub: fc.constant('k'), iat: count, exp: count, model: text, policyHash: hash },
  bodySha256: hash,
  verdict: fc.constantFrom('unused', 'allowed', 'expired', 'revoked'),
})
const incident: fc.Arbitrary<GuardIncident> = fc.oneof(
  fc.record({
    kind: fc.constantFrom('dlp', 'pii', 'policy'),
    ...{ ruleId: fc.string(), ruleName: text, types: fc.dictionary(text, count), category: text },
    ...{ direction: fc.constant('input'), severity: fc.constant('high'), enforced: fc.boolean() },
    action: fc.constantFrom('log', 'flag', 'mask', 'block'),
  }) as fc.Arbitrary<GuardIncident>,
  fc.record({
    ...{ kind: fc.constant('canary'), canaryId: fc.string(), category: text, action: fc.constant('block') },
    ...{ direction: fc.constant('output'), severity: fc.constant('high'), enforced: fc.boolean() },
  }) as fc.Arbitrary<GuardIncident>,
)
const facts: fc.Arbitrary<RequestFacts> = fc.record({
  ...{ bundleId: fc.constant('jti-1'), requestId: fc.constant('req-1'), endpoint: fc.constant('POST /chat') },
  operation: fc.constantFrom('chat.completion', 'embedding', 'token.count'),
  ...{ tenantId: fc.constant('t'), keyId: fc.constant('k'), userId: fc.constant('u') },
  payerId: fc.constantFrom('u', 'v'),
  ...{
    startedAtMs: fc.nat(),
    requestSha256: hash,
    requestedModel: fc.option(text),
    index: fc.option(text),
    streamed: fc.boolean(),
  },
  policy: fc.constantFrom(policy, { ...policy, baseline: { id: 'gdpr', shields: [] } }, undefined),
  inspectors: fc.record({
    ...{ canary: fc.boolean(), dlp: fc.boolean(), pii: fc.boolean(), policy: fc.boolean() },
    prompt_shield: fc.boolean(),
  }),
  incidents: fc.array(incident, { maxLength: 3 }),
  documentsRetrieved: count,
  unreadFiles: fc.option(fc.constantFrom({ pdf: 2 }, { audio: 1, stored: 3 }), { nil: undefined }),
  attempts: fc.array(
    fc.record(
      {
        model: text,
        status: fc.constantFrom('served', 'failed'),
        reason: fc.constantFrom(...ATTEMPT_REASONS),
        latency_ms: count,
      },
      { requiredKeys: ['model', 'status', 'latency_ms'] },
    ),
    { maxLength: 3 },
  ),
  entitlements: fc.array(fc.option(entitlement, { nil: undefined }), { maxLength: 3 }),
  heads: fc.array(
    fc.option(
      fc.record({
        status: count,
        requestId: fc.constantFrom('req-1', undefined),
        message: fc.constant('message of the provider'),
      }),
      { nil: undefined },
    ),
    { maxLength: 3 },
  ),
  cacheHit: fc.option(
    fc.record({ status: fc.constantFrom('hit', 'coalesced'), original: fc.constant('jti-0'), ageSeconds: count }),
    { nil: undefined },
  ),
})
const end: fc.Arbitrary<RequestEnd> = fc.record({
  ...{ atMs: fc.nat(), latencyMs: count, result: fc.constantFrom('success', 'denied', 'failure') },
  ...{
    status: count,
    error: fc.constantFrom('CONTENT_BLOCKED', 'CLIENT_LEFT', undefined),
    responseSha256: fc.option(hash),
  },
  answered: fc.option(
    fc.record({
      ...{ outcome: fc.constantFrom('complete', 'truncated', 'aborted'), model: text, firstTokenMs: count },
      usage: fc.record({
        ...{ inputTokens: count, outputTokens: count, cacheReadTokens: count, cacheWriteTokens: count },
        cacheWriteHourTokens: count,
        ...{ reasoningTokens: count, estimated: fc.boolean() },
      }),
      cost: fc.record({
        ...{ mode: fc.constantFrom('user-completions', 'usage-by-model'), nanos: count, points: count },
        ...{ period: fc.constantFrom('1970-01', '2026-01'), isPriceKnown: fc.boolean() },
      }),
    }),
    { nil: undefined },
  ),
})

test('the payload of a request is written as canonical JSON, whatever its content', () => {
  fc.assert(
    fc.property(facts, end, (known, ended) => {
      const { payload } = toRequestEntry(known, ended)
      expect(payload).toBe(toCanonicalJson(JSON.parse(payload)))
      expect(payload).not.toContain('message of the provider')
      // Texts that some stores do not accept as JSON.
      expect(payload).not.toContain('\\u0000')
    }),
  )
})

test('the summarised facts of a request equal those of its payload, whatever its content', () => {
  fc.assert(
    fc.property(facts, end, (known, ended) => {
      const { id, tenantId, payload, facts: summarised } = toRequestEntry(known, ended)
      const row = { seq: 0, id, created_at: '' }
      expect(toSummary(row, summarised)).toEqual(toSummary(row, JSON.parse(payload)))
      expect(usageOf(tenantId, summarised)).toEqual(usageOf(tenantId, JSON.parse(payload)))
    }),
  )
})

/** Writes a request's payload in its stored form, and reads it back. */
const restored = ({ stored, payload, id, createdAtMs }: EntryDraft) => {
  const row = { id, created_at: isoTime(createdAtMs), payload: stored ?? payload }
  expect(withCanonicalPayload(row).payload).toBe(payload)
  expect(payloadOf(row)).toEqual(JSON.parse(payload))
  return row.payload
}

test('the stored form of a payload is restored exactly, whatever its content', () => {
  fc.assert(fc.property(facts, end, (known, ended) => void restored(toRequestEntry(known, ended))))
})

test('the stored form of a usual payload has less than 40 % of its length', () => {
  const atMs = Date.UTC(2026, 0, 1)
  const draft = toRequestEntry(requestFacts(atMs), requestEnd(atMs))
  expect(restored(draft).length).toBeLessThan(0.4 * draft.payload.length)
})

test('a payload that cannot be restored is not changed, so that its hash is wrong', () => {
  const row = { id: 'jti-1', created_at: '2026-01-01T00:00:00.000Z', payload: '{"z":1,"endpoint":"POST /chat"}' }
  expect(withCanonicalPayload(row)).toBe(row)
  expect(payloadOf(row)).toBeUndefined()
})

test('findings of guards are counted per rule, with the strongest action', () => {
  const found = (action: string, enforced: boolean, types: object, ruleId = 'r') =>
    ({ kind: 'dlp', ruleId, ruleName: 'n', types, category: 'c', action, enforced }) as GuardIncident
  const inspectionOf = (incidents: GuardIncident[]) => {
    const [known, ended] = fc.sample(fc.tuple(facts, end), 1)[0] as [RequestFacts, RequestEnd]
    const inspectors = { canary: false, dlp: true, pii: true, policy: true, prompt_shield: false }
    return JSON.parse(toRequestEntry({ ...known, incidents, inspectors }, ended).payload).inspection
  }
  const untouched = { verdict: 'not_run' }
  expect(inspectionOf([found('mask', true, { A: 2, B: 1 }), found('log', true, { A: 4 }, 's')])).toEqual({
    canary: untouched,
    dlp: { hits: 7, rules: { r: 3, s: 4 }, verdict: 'changed' },
    pii: { verdict: 'clean' },
    policy: { verdict: 'clean' },
    prompt_shield: untouched,
  })
  expect(inspectionOf([found('block', true, { A: 1 }), found('mask', true, { A: 1 })]).dlp.verdict).toBe('blocked')
  expect(inspectionOf([found('block', false, { A: 1 })]).dlp.verdict).toBe('logged')
})
