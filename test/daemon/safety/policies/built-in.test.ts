import { expect, test } from 'vitest'
import { armSources } from '../../../../src/daemon/safety/guards/rules-in-force.ts'
import { BUILT_IN_POLICIES, findBuiltIn, SYSTEM_DEFAULT } from '../../../../src/daemon/safety/policies/built-in.ts'
import { policyHash } from '../../../../src/daemon/safety/policies/policies.ts'
import { POLICY_NAME, toPolicyId } from '../../../../src/shared/policy-id.ts'
import {
  POLICY_ACTIONS,
  PolicyDocument,
  type PolicyDocumentInput,
  PROMPT_LEAK_ACTIONS,
  URL_ACTIONS,
} from '../../../../src/shared/wire/policies.ts'

test('the catalogue has seven, with ids derived from their names', () => {
  expect(BUILT_IN_POLICIES.map(({ id }) => id)).toEqual([
    ...['public', 'internal', 'internal-strict', 'confidential', 'hipaa', 'gdpr', 'pci-dss'],
  ])
  for (const { id, name } of BUILT_IN_POLICIES) {
    expect(name).toMatch(POLICY_NAME)
    expect(toPolicyId(name)).toBe(id)
  }
})

test('their documents are complete and differ, so each has a unique hash', () => {
  for (const { document, hash } of BUILT_IN_POLICIES) {
    expect(PolicyDocument.parse(document)).toEqual(document)
    expect(hash).toBe(policyHash(document))
    expect(hash).toMatch(/^[0-9a-f]{64}$/)
  }
  expect(new Set(BUILT_IN_POLICIES.map(({ hash }) => hash)).size).toBe(BUILT_IN_POLICIES.length)
})

test('the default allows every model and changes no text', () => {
  const { document } = findBuiltIn(SYSTEM_DEFAULT) ?? { document: undefined }
  expect(document).toEqual(
    PolicyDocument.parse({
      pii: { enabled: true, action: 'log' },
      dlp: { enabled: true, action: 'log' },
      urls: { unknownHosts: 'log' },
      serverTools: { allowed: true },
    }),
  )
})

test('each stricter policy protects at least as much as the previous one', () => {
  const ladder = ['public', 'internal', 'internal-strict', 'confidential'].map((id) => findBuiltIn(id)?.document)
  const strength = (guard: { enabled: boolean; action: (typeof POLICY_ACTIONS)[number] }) =>
    guard.enabled ? POLICY_ACTIONS.indexOf(guard.action) : -1
  for (const [at, document] of ladder.entries()) {
    const before = ladder[at - 1]
    if (!document) throw new Error('a step of the ladder is missing')
    if (!before) continue
    expect(strength(document.pii)).toBeGreaterThan(strength(before.pii))
    expect(strength(document.dlp)).toBeGreaterThan(strength(before.dlp))
    expect(Number(document.promptShield.required)).toBeGreaterThanOrEqual(Number(before.promptShield.required))
    expect(Number(document.canary.enabled)).toBeGreaterThanOrEqual(Number(before.canary.enabled))
    expect(URL_ACTIONS.indexOf(document.urls.unknownHosts)).toBeGreaterThanOrEqual(
      URL_ACTIONS.indexOf(before.urls.unknownHosts),
    )
    expect(PROMPT_LEAK_ACTIONS.indexOf(document.promptLeak.action)).toBeGreaterThanOrEqual(
      PROMPT_LEAK_ACTIONS.indexOf(before.promptLeak.action),
    )
  }
})

test('source code is detected only if a policy enables it', () => {
  const program = 'const a = open();\n'.repeat(8)
  const findsCode = (document: PolicyDocument) => {
    const { acting, watching } = armSources({ policy: { canonical: 'p', name: 'P', document }, own: [] }, 'output')
    return [...acting, ...watching].some(({ detector }) =>
      detector.find(program).some(({ type }) => type === 'source-code'),
    )
  }
  const withRules = (dlp: PolicyDocumentInput['dlp']) => findsCode(PolicyDocument.parse({ dlp }))
  for (const { id, document } of BUILT_IN_POLICIES) expect(findsCode(document), id).toBe(false)
  expect(withRules({ enabled: true, action: 'mask' })).toBe(false)
  expect(withRules({ enabled: true, action: 'mask', rules: 'default' })).toBe(false)
  expect(withRules({ enabled: true, action: 'mask', rules: 'all' })).toBe(true)
  expect(withRules({ enabled: true, action: 'mask', rules: ['source-code'] })).toBe(true)
})
