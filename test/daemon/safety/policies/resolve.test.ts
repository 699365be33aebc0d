import { describe, expect, test } from 'vitest'
import { BUILT_IN_POLICIES, findBuiltIn } from '../../../../src/daemon/safety/policies/built-in.ts'
import type { PolicyList } from '../../../../src/daemon/safety/policies/policies.ts'
import { resolvePolicy } from '../../../../src/daemon/safety/policies/resolve.ts'
import { GatewayError } from '../../../../src/shared/errors.ts'
import { toPolicyId } from '../../../../src/shared/policy-id.ts'

const OWN = { ...BUILT_IN_POLICIES[0], id: 'our-own', name: 'Our Own', type: 'custom' } as (typeof BUILT_IN_POLICIES)[0]

const tenant = (activeId?: string): PolicyList => ({
  all: [...BUILT_IN_POLICIES, OWN],
  activeId,
  effective: ({ document, hash }) => ({ document, hash }),
  find: (nameOrId) => findBuiltIn(toPolicyId(nameOrId)) ?? (toPolicyId(nameOrId) === OWN.id ? OWN : undefined),
})

type Settings = { allowedSMLTPPolicies: string[]; defaultSMLTPPolicy: string | null }
const key = (given: Partial<Settings> = {}): Settings => ({
  allowedSMLTPPolicies: ['public', 'internal'],
  defaultSMLTPPolicy: null,
  ...given,
})

function resolved(requested: string | undefined, settings: Settings, policies: PolicyList): string {
  try {
    const { canonical, source } = resolvePolicy(requested, settings, policies)
    return `${canonical} by ${source}`
  } catch (error) {
    if (error instanceof GatewayError) return error.code
    throw error
  }
}

const ANY = key({ allowedSMLTPPolicies: [] })
const ONLY_PUBLIC = key({ allowedSMLTPPolicies: ['public'] })
const DEFAULT_PUBLIC = key({ defaultSMLTPPolicy: 'public' })

describe('which policy governs a request', () => {
  test.each<[string, string | undefined, Settings, PolicyList, string]>([
    ['nobody chose one', undefined, key(), tenant(), 'internal by system_default'],
    ['the tenant has an active one', undefined, key(), tenant('our-own'), 'our-own by tenant_active'],
    ['the active one is the default', undefined, key(), tenant('internal'), 'internal by tenant_active'],
    ['the key has a default', undefined, DEFAULT_PUBLIC, tenant('our-own'), 'public by key_default'],
    ['the request names one', 'internal', DEFAULT_PUBLIC, tenant('our-own'), 'internal by request'],
    ['it is written in capitals', 'PUBLIC', key(), tenant(), 'public by request'],
    ['it is written as a name', 'our OWN', ANY, tenant(), 'our-own by request'],
    ['it is not allowed', 'our-own', key(), tenant(), 'INSUFFICIENT_PERMISSIONS'],
    ['it is not allowed, though it is active', 'our-own', key(), tenant('our-own'), 'INSUFFICIENT_PERMISSIONS'],
    ['there is none of that name', 'lenient', ANY, tenant(), 'VALIDATION_ERROR'],
    ['the key is limited to another than the default', undefined, ONLY_PUBLIC, tenant(), 'INSUFFICIENT_PERMISSIONS'],
    ['… and to another than the active one', undefined, ONLY_PUBLIC, tenant('our-own'), 'INSUFFICIENT_PERMISSIONS'],
    ['… and to the active one', undefined, ONLY_PUBLIC, tenant('public'), 'public by tenant_active'],
    ['the active one is gone', undefined, key(), tenant('gone'), 'POLICY_UNAVAILABLE'],
    ['the default of the key is gone', undefined, key({ defaultSMLTPPolicy: 'gone' }), tenant(), 'POLICY_UNAVAILABLE'],
  ])('%s', (_case, requested, settings, policies, outcome) => {
    expect(resolved(requested, settings, policies)).toBe(outcome)
  })
})
