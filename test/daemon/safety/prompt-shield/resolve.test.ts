import { describe, expect, test } from 'vitest'
import { resolveShield, type ShieldContext } from '../../../../src/daemon/safety/prompt-shield/resolve.ts'
import { DEFAULT_KEY_SETTINGS } from '../../../../src/shared/wire/keys.ts'
import { PolicyDocument } from '../../../../src/shared/wire/policies.ts'
import { type ShieldPolicy, ShieldPolicyDocument } from '../../../../src/shared/wire/shield.ts'

const shieldPolicy = (id: string, fields: Partial<ShieldPolicyDocument> = {}): ShieldPolicy => ({
  id,
  name: id,
  description: '',
  type: 'custom',
  policy: ShieldPolicyDocument.parse(fields),
})

const smltp = (
  promptShield: Partial<PolicyDocument['promptShield']> = {},
  mode: PolicyDocument['mode'] = 'enforce',
) => ({
  canonical: 'internal',
  document: PolicyDocument.parse({ mode, promptShield }),
})

type Wish = Partial<Omit<ShieldContext, 'settings' | 'request'>> & {
  settings?: Partial<ShieldContext['settings']>
  request?: { enabled?: boolean; policy?: string }
}

const resolve = ({ settings, request, ...wish }: Wish = {}) =>
  resolveShield({
    request: request && { enabled: request.enabled, policy: request.policy },
    policy: smltp(),
    custom: [shieldPolicy('help-desk', { mode: 'monitor' }), shieldPolicy('no-way-out', { allowOptOut: false })],
    ...wish,
    settings: { ...DEFAULT_KEY_SETTINGS, ...settings },
  })

const ON = { enablePromptShield: true }
const refusal = (message: string, code: string) =>
  expect.objectContaining({ code, message: expect.stringContaining(message) })

describe('the shield of a call', () => {
  test('is absent for a key without it, and then a call cannot request one', () => {
    expect(resolve()).toBeUndefined()
    expect(resolve({ request: { enabled: false } })).toBeUndefined()
    for (const request of [{ enabled: true }, { policy: 'strict' }]) {
      expect(() => resolve({ request })).toThrow(refusal('not enabled', 'INSUFFICIENT_PERMISSIONS'))
    }
  })

  test('is that of the key: its policy, or otherwise its sensitivity', () => {
    expect(resolve({ settings: ON })).toMatchObject({ id: 'balanced', document: { mode: 'blocking' } })
    expect(resolve({ settings: { ...ON, promptShieldSensitivity: 'strict' } })?.id).toBe('strict')
    expect(resolve({ settings: { ...ON, promptShieldPolicyId: 'Help Desk' } })).toMatchObject({
      id: 'help-desk',
      document: { mode: 'monitor' },
    })
  })

  test('is the one that the call names, if the key may select it', () => {
    const settings = { ...ON, allowedPromptShieldPolicies: ['help-desk', 'gone'] }
    expect(resolve({ settings, request: { policy: 'HELP-desk' } })?.id).toBe('help-desk')
    expect(resolve({ settings: ON, request: { policy: 'balanced' } })?.id).toBe('balanced')
    expect(() => resolve({ settings, request: { policy: 'permissive' } })).toThrow(
      refusal('may not select', 'INSUFFICIENT_PERMISSIONS'),
    )
    expect(() => resolve({ settings, request: { policy: 'gone' } })).toThrow(refusal('no prompt', 'VALIDATION_ERROR'))
    expect(() => resolve({ settings, request: { policy: 'help-desk', enabled: false } })).toThrow(
      refusal('not both', 'VALIDATION_ERROR'),
    )
  })

  test('can be disabled only if key, shield policy and SMLTP policy all permit it', () => {
    const request = { enabled: false }
    const optOut = { ...ON, allowPromptShieldOptOut: true }
    expect(resolve({ settings: optOut, request })).toBeUndefined()
    const denied = refusal('', 'INSUFFICIENT_PERMISSIONS')
    expect(() => resolve({ settings: ON, request })).toThrow(denied)
    expect(() => resolve({ settings: { ...optOut, promptShieldPolicyId: 'no-way-out' }, request })).toThrow(denied)
    expect(() => resolve({ settings: optOut, request, policy: smltp({ required: true }) })).toThrow(denied)
  })

  test('is enabled when the SMLTP policy requires it, at the required strictness', () => {
    const policy = smltp({ required: true, minSensitivity: 'strict', policyId: 'help-desk' })
    expect(resolve({ policy })).toMatchObject({
      id: 'help-desk',
      document: { sensitivity: 'strict', mode: 'blocking' },
    })
    expect(resolve({ policy: smltp({ required: true, minSensitivity: 'permissive' }) })?.document.sensitivity).toBe(
      'balanced',
    )
  })

  test('scans everything and blocks when the SMLTP policy requires it, whatever the shield policy of the key', () => {
    const weak = shieldPolicy('weak', {
      mode: 'monitor',
      scanInput: false,
      scanRetrieved: false,
      scanOutput: false,
      layers: ['regex'],
      thresholds: { log: 1, flag: 100, block: 100 },
      categories: { prompt_injection: 'ALLOW', jailbreak: 'ALLOW' },
    })
    const bound = { custom: [weak], settings: { ...ON, promptShieldPolicyId: 'weak' } }
    const selected = {
      custom: [weak],
      settings: { ...ON, allowedPromptShieldPolicies: ['weak'] },
      request: { policy: 'weak' },
    }
    for (const wish of [bound, selected]) {
      expect(resolve(wish)?.document).toEqual(weak.policy)
      const required = resolve({ ...wish, policy: smltp({ required: true, minSensitivity: 'balanced' }) })
      expect(required?.document).toMatchObject({
        mode: 'blocking',
        scanInput: true,
        scanRetrieved: true,
        scanOutput: true,
        layers: ['regex', 'heuristic', 'ml'],
        thresholds: { log: 1, flag: 50, block: 80 },
        categories: {},
      })
      expect(resolve({ ...wish, policy: smltp({ required: true }, 'monitor') })?.document.mode).toBe('monitor')
    }
    // The shield policy that the SMLTP policy names keeps its scans and limits. It blocks, at least as strictly as the
    // SMLTP policy requires.
    const own = resolve({
      custom: [weak],
      policy: smltp({ required: true, policyId: 'weak', minSensitivity: 'strict' }),
    })
    expect(own?.document).toMatchObject({ mode: 'blocking', scanInput: false, thresholds: { flag: 30, block: 60 } })
  })

  test('only monitors when a policy in monitor mode requires it', () => {
    const policy = smltp({ required: true }, 'monitor')
    expect(resolve({ policy })?.document.mode).toBe('monitor')
    expect(resolve({ policy, settings: ON })?.document.mode).toBe('blocking')
  })

  test('must exist: a call bound to a deleted policy is rejected', () => {
    expect(() => resolve({ settings: { ...ON, promptShieldPolicyId: 'gone' } })).toThrow(
      refusal('"gone"', 'SHIELD_UNAVAILABLE'),
    )
  })
})
