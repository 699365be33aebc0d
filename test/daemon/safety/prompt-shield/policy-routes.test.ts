import { expect, test } from 'vitest'
import { SHIELD_POLICIES } from '../../../../src/shared/spec-limits.ts'
import {
  ListShieldPoliciesResponse,
  ShieldPolicyResponse,
  ShowShieldPolicyResponse,
} from '../../../../src/shared/wire/shield.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { addTestTenant, type TestTenant } from '../../../tenant-admin.ts'

const BASE = '/api/admin/prompt-shield-policies'

describeEachEngine('prompt shield policies', (engine) => {
  const shared = sharedGateway({ engine })
  const newTenant = () => addTestTenant(shared.current)
  async function create(tenant: TestTenant, body: object) {
    const answer = await tenant.call('POST', BASE, body)
    expect(answer.status, answer.text).toBe(201)
    return ShieldPolicyResponse.strict().parse(answer.body).policy
  }

  test('start with one for each sensitivity, which cannot be changed', async () => {
    const tenant = await newTenant()
    const { policies } = ListShieldPoliciesResponse.strict().parse((await tenant.call('GET', BASE)).body)
    expect(policies.map(({ id, type, policy }) => [id, type, policy.sensitivity])).toEqual([
      ['strict', 'built-in', 'strict'],
      ['balanced', 'built-in', 'balanced'],
      ['permissive', 'built-in', 'permissive'],
    ])
    for (const [method, body] of [
      ['PUT', { policy: { mode: 'monitor' } }],
      ['DELETE', undefined],
    ] as const) {
      const answer = await tenant.call(method, `${BASE}/Strict`, body)
      expect([answer.status, answer.body.error.code]).toEqual([403, 'INSUFFICIENT_PERMISSIONS'])
    }
  })

  test('are created with defaults for omitted fields, found by name and by id, changed and deleted', async () => {
    const tenant = await newTenant()
    const made = await create(tenant, { name: 'Help Desk', policy: { mode: 'monitor' } })
    expect(made).toMatchObject({
      id: 'help-desk',
      name: 'Help Desk',
      type: 'custom',
      policy: { mode: 'monitor', sensitivity: 'balanced', layers: ['regex', 'heuristic', 'ml'], thresholds: null },
    })
    const show = async () =>
      ShowShieldPolicyResponse.strict().parse((await tenant.call('GET', `${BASE}/Help%20Desk`)).body).policy
    expect(await show()).toEqual(made)
    const changed = await tenant.call('PUT', `${BASE}/help-desk`, { policy: { sensitivity: 'strict' } })
    expect(changed.body.policy.policy).toMatchObject({ sensitivity: 'strict', mode: 'blocking' })
    expect((await tenant.call('DELETE', `${BASE}/help-desk`)).status).toBe(200)
    const gone = await tenant.call('GET', `${BASE}/help-desk`)
    expect([gone.status, gone.body.error.code]).toEqual([404, 'POLICY_NOT_FOUND'])
  })

  test('have names that are unique, regardless of case', async () => {
    const tenant = await newTenant()
    await create(tenant, { name: 'Mine', policy: {} })
    for (const name of ['mine', 'Balanced']) {
      const answer = await tenant.call('POST', BASE, { name, policy: {} })
      expect([answer.status, answer.body.error.code]).toEqual([409, 'POLICY_NAME_EXISTS'])
    }
  })

  test.each([
    ['an unknown field', { shape: 'round' }],
    ['a sensitivity there is not', { sensitivity: 'high' }],
    ['no layer', { layers: [] }],
    ['thresholds that fall', { thresholds: { log: 50, flag: 20, block: 90 } }],
    ['a score above 100', { thresholds: { log: 1, flag: 2, block: 101 } }],
    ['a category there is not', { categories: { virus: 'BLOCK' } }],
    ['a judge that is missing', { layers: ['llm'] }],
  ])('are rejected with %s', async (_, policy) => {
    const tenant = await newTenant()
    const answer = await tenant.call('POST', BASE, { name: 'mine', policy })
    expect([answer.status, answer.body.error.code], answer.text).toEqual([400, 'VALIDATION_ERROR'])
  })

  test(`are limited to ${SHIELD_POLICIES}`, async () => {
    const tenant = await newTenant()
    const times = { created_at: '2026-01-01T00:00:00.000Z', updated_at: '2026-01-01T00:00:00.000Z' }
    for (let at = 0; at < SHIELD_POLICIES; at++) {
      const row = { tenant_id: tenant.id, id: `p${at}`, name: `p${at}`, description: '', document: '{}', ...times }
      await tenant.db.insertInto('shield_policies').values(row).execute()
    }
    const answer = await tenant.call('POST', BASE, { name: 'one more', policy: {} })
    expect([answer.status, answer.body.error.code]).toEqual([400, 'VALIDATION_ERROR'])
  })
})
