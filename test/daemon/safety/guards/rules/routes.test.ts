import { expect, test } from 'vitest'
import { createTenantRules, GUARD_RULE_CACHE_MS } from '../../../../../src/daemon/safety/guards/rules/tenant-rules.ts'
import { GUARD_RULES } from '../../../../../src/shared/spec-limits.ts'
import {
  GuardRuleResponse,
  ListGuardRulesResponse,
  ShowGuardRuleResponse,
  SimulateGuardRulesResponse,
} from '../../../../../src/shared/wire/guard-rules.ts'
import { describeEachEngine } from '../../../../engines.ts'
import { createFakeClock } from '../../../../fake-clock.ts'
import { sharedGateway } from '../../../../harness.ts'
import { addTestTenant, type TestTenant } from '../../../../tenant-admin.ts'

const BASE = '/api/admin/guard-rules'
const PROJECT = { name: 'Project numbers', kind: 'dlp', detector: 'regex', pattern: 'PRJ-\\d{4}', action: 'mask' }

describeEachEngine('guard rules', (engine) => {
  const shared = sharedGateway({ engine })
  const newTenant = () => addTestTenant(shared.current)

  async function create(tenant: TestTenant, body: object) {
    const answer = await tenant.call('POST', BASE, body)
    expect(answer.status, answer.text).toBe(201)
    return GuardRuleResponse.strict().parse(answer.body).rule
  }
  const list = async (tenant: TestTenant) =>
    ListGuardRulesResponse.strict().parse((await tenant.call('GET', BASE)).body).rules

  test('are created with defaults for omitted fields, found by name and by id, changed and deleted', async () => {
    const tenant = await newTenant()
    const made = await create(tenant, PROJECT)
    expect(made).toMatchObject({
      ...PROJECT,
      id: 'project-numbers',
      words: [],
      validator: null,
      severity: 'medium',
      direction: 'both',
      enabled: true,
      simulate: false,
    })
    const show = async (id: string) =>
      ShowGuardRuleResponse.strict().parse((await tenant.call('GET', `${BASE}/${id}`)).body).rule
    expect(await show('Project%20numbers')).toEqual(made)
    expect(await list(tenant)).toEqual([made])

    const changed = await tenant.call('PUT', `${BASE}/project-numbers`, { action: 'block', simulate: true })
    expect(changed.body.rule).toMatchObject({ ...PROJECT, action: 'block', simulate: true })
    expect((await tenant.call('DELETE', `${BASE}/project-numbers`)).status).toBe(200)
    const gone = await tenant.call('GET', `${BASE}/project-numbers`)
    expect([gone.status, gone.body.error.code]).toEqual([404, 'GUARD_RULE_NOT_FOUND'])
  })

  test('have names that are unique, regardless of case', async () => {
    const tenant = await newTenant()
    await create(tenant, PROJECT)
    const answer = await tenant.call('POST', BASE, { ...PROJECT, name: 'project NUMBERS' })
    expect([answer.status, answer.body.error.code]).toEqual([409, 'GUARD_RULE_NAME_EXISTS'])
  })

  test.each([
    ['pattern', { ...PROJECT, pattern: '(a' }],
    ['pattern', { ...PROJECT, pattern: 'x*' }],
    ['pattern', { ...PROJECT, pattern: '^secret' }],
    ['pattern', { ...PROJECT, pattern: undefined }],
    ['pattern', { ...PROJECT, detector: 'keywords', words: ['a'] }],
    ['words', { ...PROJECT, detector: 'keywords', pattern: undefined }],
    ['words', { ...PROJECT, words: ['a'] }],
    ['detector', { ...PROJECT, detector: 'builtin:magic' }],
    ['kind', { ...PROJECT, kind: 'dlp', detector: 'builtin:EMAIL', pattern: undefined }],
    ['maxChars', { ...PROJECT, maxChars: 5_000 }],
  ])('with an invalid %s are rejected and not stored', async (field, body) => {
    const tenant = await newTenant()
    const answer = await tenant.call('POST', BASE, body)
    expect([answer.status, answer.body.error?.code]).toEqual([400, 'VALIDATION_ERROR'])
    expect(answer.body.error.details.field).toBe(field)
    expect(await list(tenant)).toEqual([])
  })

  test('that a change would invalidate stay unchanged', async () => {
    const tenant = await newTenant()
    const made = await create(tenant, PROJECT)
    for (const body of [{ pattern: null }, { pattern: 'x*' }, { words: ['a'] }, { detector: 'keywords' }]) {
      const answer = await tenant.call('PUT', `${BASE}/${made.id}`, body)
      expect([answer.status, answer.body.error?.code]).toEqual([400, 'VALIDATION_ERROR'])
    }
    expect(await list(tenant)).toEqual([made])
  })

  test(`are limited to ${GUARD_RULES} per tenant`, async () => {
    const tenant = await newTenant()
    const rows = Array.from({ length: GUARD_RULES }, (_, at) => {
      const times = { created_at: '2026-01-01T00:00:00.000Z', updated_at: '2026-01-01T00:00:00.000Z' }
      const document = JSON.stringify({ kind: 'dlp', detector: 'builtin:secrets' })
      return { tenant_id: tenant.id, id: `r${at}`, name: `r${at}`, document, ...times }
    })
    await shared.current.app.db.insertInto('guard_rules').values(rows).execute()
    const answer = await tenant.call('POST', BASE, PROJECT)
    expect([answer.status, answer.body.error.code]).toEqual([400, 'VALIDATION_ERROR'])
  })

  test('are simulated on samples: findings with offsets, never the value, and nothing is stored', async () => {
    const tenant = await newTenant()
    const { name: _, ...rule } = PROJECT
    const answer = await tenant.call('POST', `${BASE}/simulate`, { rule, samples: ['see PRJ-1234', 'nothing'] })
    expect(SimulateGuardRulesResponse.strict().parse(answer.body).results).toEqual([
      { sample: 0, findings: [{ ruleId: null, type: 'rule', start: 4, end: 12, confidence: 1, action: 'mask' }] },
      { sample: 1, findings: [] },
    ])
    expect(answer.text).not.toContain('1234')
    expect(await list(tenant)).toEqual([])
  })

  test('are simulated together when no rule is sent, including disabled ones', async () => {
    const tenant = await newTenant()
    await create(tenant, { ...PROJECT, enabled: false })
    await create(tenant, { name: 'Names', kind: 'dlp', detector: 'keywords', words: ['Falcon'], action: 'block' })
    const answer = await tenant.call('POST', `${BASE}/simulate`, { samples: ['FALCON is PRJ-1234, falconry is not'] })
    const [result] = SimulateGuardRulesResponse.parse(answer.body).results
    expect(result?.findings.map(({ ruleId, start, end, action }) => [ruleId, start, end, action])).toEqual([
      ['names', 0, 6, 'block'],
      ['project-numbers', 10, 18, 'mask'],
    ])
  })

  test('of other tenants are neither visible nor used', async () => {
    const [one, other] = [await newTenant(), await newTenant()]
    const made = await create(one, PROJECT)
    expect(await list(other)).toEqual([])
    expect((await other.call('GET', `${BASE}/${made.id}`)).status).toBe(404)
    const answer = await other.call('POST', `${BASE}/simulate`, { samples: ['PRJ-1234'] })
    expect(answer.body.results[0].findings).toEqual([])
  })

  test('that are enabled are compiled once, and a change on another daemon applies within two seconds', async () => {
    const tenant = await newTenant()
    const clock = createFakeClock()
    const rules = createTenantRules({ db: shared.current.app.db, clock })
    await create(tenant, PROJECT)
    await create(tenant, { ...PROJECT, name: 'Off', enabled: false })
    const before = await rules.of(tenant.id)
    expect(before.planned.map(({ ruleId, kind, action, enforced }) => [ruleId, kind, action, enforced])).toEqual([
      ['project-numbers', 'dlp', 'mask', true],
    ])
    clock.advance(GUARD_RULE_CACHE_MS)
    expect(await rules.of(tenant.id)).toBe(before)

    await tenant.call('PUT', `${BASE}/project-numbers`, { simulate: true })
    expect(await rules.of(tenant.id)).toBe(before)
    clock.advance(GUARD_RULE_CACHE_MS)
    expect((await rules.of(tenant.id)).planned.map(({ enforced }) => enforced)).toEqual([false])
  })
})
