import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Entitlement } from '../../../../src/daemon/records/evidence/entitlement.ts'
import {
  type RequestEnd,
  type RequestFacts,
  toRequestEntry,
} from '../../../../src/daemon/records/evidence/request-entry.ts'
import type { GuardIncident } from '../../../../src/daemon/safety/incidents/incident.ts'
import { BUILT_IN_POLICIES } from '../../../../src/daemon/safety/policies/built-in.ts'
import type { AppliedPolicy } from '../../../../src/daemon/safety/policies/policies.ts'
import { toCanonicalJson } from '../../../../src/shared/canonical-json.ts'
import { ATTEMPT_REASONS } from '../../../../src/shared/wire/chat.ts'

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
  policy: fc.constantFrom(policy, undefined),
  inspectors: fc.record({
    ...{ canary: fc.boolean(), dlp: fc.boolean(), pii: fc.boolean(), policy: fc.boolean() },
    prompt_shield: fc.boolean(),
  }),
  incidents: fc.array(incident, { maxLength: 3 }),
  documentsRetrieved: count,
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
