import { describe, expect, test } from 'vitest'
import { differencesOf } from '../../../../src/daemon/safety/policies/differences.ts'
import { policyHash } from '../../../../src/daemon/safety/policies/policies.ts'
import { CreatePolicyRequest, PolicyDocument, type PolicyDocumentInput } from '../../../../src/shared/wire/policies.ts'

const parse = (input: PolicyDocumentInput) => PolicyDocument.parse(input)

/** `path: message` of the first error. */
const faultOf = (document: unknown): string | undefined => {
  const [issue] = PolicyDocument.safeParse(document).error?.issues ?? []
  return issue && `${issue.path.join('.')}: ${issue.message}`
}

describe('a policy document', () => {
  test('without fields enables nothing', () => {
    expect(parse({})).toEqual({
      version: 1,
      mode: 'enforce',
      baseline: false,
      allowedModels: [],
      deniedModels: [],
      allowedProviders: [],
      residency: { allowedRegions: [], onUnknown: 'deny' },
      egress: { allowHosts: [], denyHosts: [] },
      pii: { enabled: false, entities: 'default', action: 'log', direction: 'both', blockThreshold: null },
      dlp: { enabled: false, rules: 'default', action: 'log', direction: 'both' },
      promptShield: { required: false, minSensitivity: 'permissive', policyId: null },
      canary: { enabled: false, action: 'block' },
      promptLeak: { action: 'flag' },
      urls: { unknownHosts: 'allow', links: 'data', allowHosts: [] },
      serverTools: { allowed: false },
      addresses: { allowed: true },
      unreadFiles: { allowed: true },
      attachments: 'allow',
      cache: { mode: 'allowed' },
      receipts: { required: false },
      privacyHeaders: { noTraining: false },
      retentionDays: null,
      encryptBundle: false,
    })
  })

  test.each([
    [{ pi: {} }, ': Unknown member "pi"; did you mean "pii"?'],
    [{ pii: { enable: true } }, 'pii: Unknown member "enable" in pii; did you mean "enabled"?'],
    [{ rules: [] }, /^: Unknown member "rules"; known members: version, mode, /],
    [{ version: 2 }, 'version: version must be 1'],
    [{ mode: 'off' }, 'mode: mode must be one of monitor, enforce'],
    [{ pii: { entities: ['EMIAL'] } }, 'pii.entities.0: unknown entity; did you mean "EMAIL"?'],
    [{ pii: { entities: [] } }, 'pii.entities: pii.entities must not be empty'],
    [{ pii: { entities: 'some' } }, 'pii.entities: pii.entities must be "default", "all" or a list'],
    [{ dlp: { rules: 'some' } }, 'dlp.rules: dlp.rules must be "default", "all" or a list'],
    [{ dlp: { rules: ['secretz'] } }, /^dlp\.rules: 0: each of dlp\.rules must be one of secrets, /],
    [{ pii: null }, 'pii: pii must be an object'],
    [{ allowedModels: ['gpt-4o'] }, 'allowedModels.0: a model must be written as "<provider>/<model>"'],
    [
      { residency: { allowedRegions: ['EU'] } },
      /^residency\.allowedRegions\.0: a region must be written in lower case/,
    ],
    [{ egress: { denyHosts: ['https://a.example'] } }, /^egress\.denyHosts\.0: a host must be written in lower case/],
    [{ retentionDays: 0 }, 'retentionDays: retentionDays must be at least 1'],
    [{ allowedModels: Array(201).fill('a/b') }, /may have at most 200 entries$/],
  ])('%j is rejected with the reason', (document, fault) => {
    if (typeof fault === 'string') expect(faultOf(document)).toBe(fault)
    else expect(faultOf(document)).toMatch(fault)
  })

  test('has one hash, for any order of its lists and with or without defaults', () => {
    const hashes = [
      { deniedModels: ['b/b', 'a/a', 'a/a'], pii: { enabled: true } },
      { pii: { action: 'log' as const, enabled: true }, deniedModels: ['a/a', 'b/b'], version: 1 as const },
    ].map((document) => policyHash(parse(document)))
    expect(hashes[0]).toBe(hashes[1])
    expect(hashes[0]).not.toBe(policyHash(parse({ deniedModels: ['a/a'], pii: { enabled: true } })))
  })
})

describe('the name of a policy', () => {
  const idOf = (name: string) => CreatePolicyRequest.safeParse({ name, description: '', policy: {} }).data?.name

  test.each(['Health  Data', 'R&D (EU)', "Bob's", 'Vertraulich-Ä', '2026'])('%s is valid', (name) => {
    expect(idOf(name)).toBe(name.replace('  ', ' '))
  })

  test.each(['', ' ', '-a', 'a/b', 'a?b', 'a\u200bb', 'a"b', 'a\nb', 'All', 'active', 'DIFF', 'x'.repeat(101)])(
    '%j is invalid',
    (name) => {
      expect(idOf(name)).toBeUndefined()
    },
  )
})

test('documents differ in the fields with other values, listed with both values', () => {
  const from = parse({ pii: { enabled: true, action: 'log' }, deniedModels: ['a/a'], retentionDays: 30 })
  const to = parse({ pii: { enabled: true, action: 'mask' }, deniedModels: ['a/a', 'b/b'] })
  expect(differencesOf(from, to)).toEqual([
    { path: 'deniedModels', from: ['a/a'], to: ['a/a', 'b/b'] },
    { path: 'pii.action', from: 'log', to: 'mask' },
    { path: 'retentionDays', from: 30, to: null },
  ])
  expect(differencesOf(from, from)).toEqual([])
})
