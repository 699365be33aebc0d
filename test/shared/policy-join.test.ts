import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { violationsBy, violationsOf } from '../../src/daemon/safety/policies/restrictions.ts'
import { DLP_DETECTOR_NAMES } from '../../src/shared/dlp-detectors.ts'
import { PII_ENTITIES } from '../../src/shared/pii-entities.ts'
import { joinPolicies, NOTHING } from '../../src/shared/policy-join.ts'
import { CACHE_MODES } from '../../src/shared/wire/cache.ts'
import { SHIELD_SENSITIVITIES } from '../../src/shared/wire/keys.ts'
import {
  CANARY_ACTIONS,
  POLICY_ACTIONS,
  POLICY_ATTACHMENTS,
  POLICY_DIRECTIONS,
  POLICY_MODES,
  PolicyDocument,
  type PolicyDocumentInput,
  PROMPT_LEAK_ACTIONS,
  URL_ACTIONS,
  URL_LINKS,
} from '../../src/shared/wire/policies.ts'

const PROVIDERS = ['a', 'b', 'c']
const MODELS = ['a/x', 'a/y', 'b/x', 'c/z']
const REGIONS = ['eu', 'eu-west-1', 'eu-west-2', 'us', 'us-east']
const HOSTS = ['a.org', 'x.a.org', 'y.x.a.org', 'b.org']

const some = (values: readonly string[]) => fc.subarray([...values])
const rule = <T extends string>(names: readonly T[]) => ({
  enabled: fc.boolean(),
  action: fc.constantFrom(...POLICY_ACTIONS),
  direction: fc.constantFrom(...POLICY_DIRECTIONS),
  selection: fc.oneof(fc.constantFrom('default', 'all'), fc.subarray(names.slice(0, 12), { minLength: 1 })),
})
const { selection: entities, ...pii } = rule(PII_ENTITIES.map(({ name }) => name))
const { selection: rules, ...dlp } = rule(DLP_DETECTOR_NAMES)
const allowed = fc.record({ allowed: fc.boolean() })

const documents: fc.Arbitrary<PolicyDocument> = fc
  .record({
    mode: fc.constantFrom(...POLICY_MODES),
    baseline: fc.boolean(),
    allowedModels: some([...MODELS, 'a/*', 'b/*']),
    deniedModels: some([...MODELS, 'a/*', 'b/*']),
    allowedProviders: some(PROVIDERS),
    residency: fc.record({ allowedRegions: some(REGIONS), onUnknown: fc.constantFrom('allow', 'deny') }),
    egress: fc.record({
      allowHosts: some([...HOSTS, '*.a.org', '*.x.a.org']),
      denyHosts: some([...HOSTS, '*.a.org', '*.x.a.org']),
    }),
    pii: fc.record({ ...pii, entities, blockThreshold: fc.option(fc.integer({ min: 1, max: 9 })) }),
    dlp: fc.record({ ...dlp, rules }),
    promptShield: fc.record({
      required: fc.boolean(),
      minSensitivity: fc.constantFrom(...SHIELD_SENSITIVITIES),
      policyId: fc.constantFrom(null, 'one', 'two', 'three'),
    }),
    canary: fc.record({ enabled: fc.boolean(), action: fc.constantFrom(...CANARY_ACTIONS) }),
    promptLeak: fc.record({ action: fc.constantFrom(...PROMPT_LEAK_ACTIONS) }),
    urls: fc.record({
      unknownHosts: fc.constantFrom(...URL_ACTIONS),
      links: fc.constantFrom(...URL_LINKS),
      allowHosts: some([...HOSTS, '*.a.org', '*.x.a.org']),
    }),
    serverTools: allowed,
    addresses: allowed,
    unreadFiles: allowed,
    attachments: fc.constantFrom(...POLICY_ATTACHMENTS),
    cache: fc.record({ mode: fc.constantFrom(...CACHE_MODES) }),
    receipts: fc.record({ required: fc.boolean() }),
    privacyHeaders: fc.record({ noTraining: fc.boolean() }),
    retentionDays: fc.option(fc.integer({ min: 1, max: 99 })),
    encryptBundle: fc.boolean(),
  })
  .map((document) => PolicyDocument.parse(document))

const destinations = fc.record({
  modelId: fc.constantFrom(...MODELS, 'd/x'),
  location: fc.oneof(
    fc.constant('here' as const),
    fc.record({
      host: fc.constantFrom(...HOSTS, 'c.org'),
      region: fc.option(fc.constantFrom(...REGIONS), { nil: undefined }),
    }),
  ),
})

describe('the join of two policies', () => {
  test('is commutative, associative and idempotent', () => {
    fc.assert(
      fc.property(documents, documents, documents, (one, other, third) => {
        expect(joinPolicies(one, other)).toEqual(joinPolicies(other, one))
        expect(joinPolicies(joinPolicies(one, other), third)).toEqual(joinPolicies(one, joinPolicies(other, third)))
        expect(joinPolicies(one, one)).toEqual(one)
      }),
      { numRuns: 500 },
    )
  })

  test('rejects every model, and every use of a request, that one of them rejects', () => {
    const uses = fc.record({
      serverTools: some(['web_search']),
      addresses: fc.boolean(),
      inferenceGeo: fc.option(fc.constantFrom(...REGIONS), { nil: undefined }),
      unreadFiles: some(['pdf']),
      attachments: some(['image']),
    })
    fc.assert(
      fc.property(documents, documents, destinations, uses, (one, other, destination, used) => {
        const isRejectedBy = (document: PolicyDocument) => violationsOf(document, [destination]).length > 0
        const forbidsUse = (document: PolicyDocument) => violationsBy(used, document, [destination]).length > 0
        const joined = joinPolicies(one, other)
        expect(isRejectedBy(joined)).toBe(isRejectedBy(one) || isRejectedBy(other))
        expect(forbidsUse(joined)).toBe(forbidsUse(one) || forbidsUse(other))
      }),
      { numRuns: 1_000 },
    )
  })

  test('has the stricter value in each field', () => {
    const parse = (input: PolicyDocumentInput) => PolicyDocument.parse(input)
    const joined = (one: PolicyDocumentInput, other: PolicyDocumentInput) => joinPolicies(parse(one), parse(other))
    const guard = { enabled: true, action: 'mask', direction: 'input' } as const
    const cases: [PolicyDocumentInput, PolicyDocumentInput, PolicyDocumentInput][] = [
      [{ mode: 'monitor' }, { mode: 'enforce' }, { mode: 'enforce' }],
      [{ baseline: true }, {}, { baseline: true }],
      [{ allowedModels: ['a/*', 'b/x'] }, { allowedModels: ['a/x', 'c/z'] }, { allowedModels: ['a/x'] }],
      [{ deniedModels: ['a/x'] }, { deniedModels: ['b/x'] }, { deniedModels: ['a/x', 'b/x'] }],
      [{ allowedProviders: ['a', 'b'] }, { allowedProviders: ['b', 'c'] }, { allowedProviders: ['b'] }],
      [
        { residency: { allowedRegions: ['eu', 'us'], onUnknown: 'allow' } },
        { residency: { allowedRegions: ['eu-west-1'], onUnknown: 'allow' } },
        { residency: { allowedRegions: ['eu-west-1'], onUnknown: 'allow' } },
      ],
      // A policy without regions says nothing about unknown regions.
      [
        { residency: { allowedRegions: ['eu'], onUnknown: 'allow' } },
        {},
        { residency: { allowedRegions: ['eu'], onUnknown: 'allow' } },
      ],
      [
        { egress: { allowHosts: ['*.a.org'], denyHosts: ['b.org'] } },
        { egress: { allowHosts: ['x.a.org'], denyHosts: ['c.org'] } },
        { egress: { allowHosts: ['x.a.org'], denyHosts: ['b.org', 'c.org'] } },
      ],
      [
        { pii: { ...guard, entities: ['PERSON'], blockThreshold: 5 } },
        { pii: { ...guard, entities: ['EMAIL'], action: 'block', direction: 'output', blockThreshold: 3 } },
        { pii: { ...guard, entities: ['EMAIL', 'PERSON'], action: 'block', direction: 'both', blockThreshold: 3 } },
      ],
      // A guard that is off says nothing about its entities and its action.
      [{ pii: { enabled: false, entities: 'all', action: 'block' } }, { pii: guard }, { pii: guard }],
      [
        { dlp: { ...guard, rules: 'default' } },
        { dlp: { ...guard, rules: ['source-code'] } },
        { dlp: { ...guard, rules: ['document-markings', 'secrets', 'source-code'] } },
      ],
      [
        { promptShield: { required: true, minSensitivity: 'balanced', policyId: 'two' } },
        { promptShield: { minSensitivity: 'strict', policyId: 'one' } },
        { promptShield: { required: true, minSensitivity: 'balanced', policyId: 'one + two' } },
      ],
      [
        { canary: { enabled: true, action: 'log' } },
        { canary: { enabled: true, action: 'redact' } },
        { canary: { enabled: true, action: 'redact' } },
      ],
      [{ serverTools: { allowed: true } }, {}, {}],
      [{ addresses: { allowed: false } }, {}, { addresses: { allowed: false } }],
      [{ unreadFiles: { allowed: false } }, {}, { unreadFiles: { allowed: false } }],
      [{ promptLeak: { action: 'redact' } }, { promptLeak: { action: 'block' } }, { promptLeak: { action: 'block' } }],
      [
        { urls: { unknownHosts: 'log', links: 'all', allowHosts: ['*.a.org'] } },
        { urls: { unknownHosts: 'neutralise', allowHosts: ['x.a.org', 'b.org'] } },
        { urls: { unknownHosts: 'neutralise', links: 'all', allowHosts: ['x.a.org'] } },
      ],
      [
        { urls: { unknownHosts: 'block', allowHosts: ['a.org'] } },
        { urls: { unknownHosts: 'allow', allowHosts: ['b.org'] } },
        { urls: { unknownHosts: 'block', allowHosts: ['a.org'] } },
      ],
      [{ attachments: 'text-only' }, {}, { attachments: 'text-only' }],
      [{ attachments: 'text-only' }, { attachments: 'block' }, { attachments: 'block' }],
      [{ cache: { mode: 'on' } }, {}, { cache: { mode: 'allowed' } }],
      [{ cache: { mode: 'off' } }, {}, { cache: { mode: 'off' } }],
      [{ receipts: { required: true } }, {}, { receipts: { required: true } }],
      [{ privacyHeaders: { noTraining: true } }, {}, { privacyHeaders: { noTraining: true } }],
      [{ retentionDays: 30 }, {}, { retentionDays: 30 }],
      [{ retentionDays: 30 }, { retentionDays: 7 }, { retentionDays: 7 }],
      [{ encryptBundle: true }, {}, { encryptBundle: true }],
    ]
    for (const [one, other, stricter] of cases) expect(joined(one, other)).toEqual(parse(stricter))
  })

  test('allows nothing if two lists have no common entry, because an empty list allows everything', () => {
    const lists = (entry: number): PolicyDocument =>
      PolicyDocument.parse({
        allowedModels: [['a/x'], ['b/x']][entry],
        allowedProviders: [['a'], ['b']][entry],
        residency: { allowedRegions: [['eu'], ['us']][entry] },
        egress: { allowHosts: [['a.org'], ['b.org']][entry] },
      })
    const { allowedModels, allowedProviders, residency, egress } = joinPolicies(lists(0), lists(1))
    for (const list of [allowedModels, allowedProviders, residency.allowedRegions, egress.allowHosts]) {
      expect(list).toEqual([NOTHING])
    }
  })
})
