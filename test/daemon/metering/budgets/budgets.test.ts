import { describe, expect, test } from 'vitest'
import { insertRows } from '../../../../src/daemon/platform/db/insert-rows.ts'
import type { Tables } from '../../../../src/daemon/platform/db/tables.ts'
import { newId } from '../../../../src/shared/ids.ts'
import { BUDGETS_PER_TENANT } from '../../../../src/shared/spec-limits.ts'
import { addKey, addUser } from '../../../accounts.ts'
import { describeEachEngine, postgresEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, type GatewayOptions, startGateway } from '../../../harness.ts'

const NOW = Date.parse('2026-11-20T12:00:00.000Z')
const BUDGETS = '/api/admin/budgets'
/** The upstream's counts: 11 tokens in and 5 out, at 1 and 2 millionths of a dollar. */
const ANSWER_DOLLARS = 0.000021
const inDollars = { usage_by_model: 1, dollar_limit_nanos: null }

const IN_DOLLARS = { settings: { billingMode: 'usage-by-model' as const } }

async function start(options: GatewayOptions = {}) {
  const gateway = await startGateway({ clock: createFakeClock(NOW), points: { Essential: 0 }, ...options })
  const { db } = gateway.app
  const { id: tenantId } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
  const account = async (user: Partial<Tables['users']> = {}) => {
    const row = await addUser(db, { tenant_id: tenantId, ...inDollars, ...user })
    return { userId: row.id, key: (await addKey(db, row, IN_DOLLARS)).secret }
  }
  const create = async (scope: string, subject: string, dollarLimit: number) => {
    const { status, text, body } = await gateway.call('POST', BUDGETS, { scope, subject, dollarLimit })
    expect(status, text).toBe(201)
    return body.budget as { id: string; currentSpend: number }
  }
  return { gateway, db, tenantId, account, create }
}

const ask = (gateway: Gateway, key: string, tag?: string) =>
  gateway.chat({ prompt: 'hi', max_tokens: 5 }, { key, ...(tag && { headers: { 'x-aigw-tag': tag } }) })

describeEachEngine('a budget', (engine) => {
  test('of a tag limits the requests with this tag, of all accounts', async () => {
    const { gateway, account, create } = await start({ engine })
    const [ada, bob] = [await account(), await account()]
    const { id } = await create('tag', 'team-a', 0.0005)
    let answered = 0
    for (let at = 0; at < 60; at++) {
      const { status } = await ask(gateway, at % 2 ? ada.key : bob.key, 'team-a')
      if (status !== 200) break
      answered += 1
    }
    expect(answered).toBeGreaterThan(1)
    const refused = await ask(gateway, ada.key, 'team-a')
    expect([refused.status, refused.body]).toEqual([
      429,
      {
        success: false,
        error: 'Usage by Model budget exceeded',
        message: expect.stringMatching(/^The tag "team-a" may spend \$0\.000500 a month; /),
        request_id: expect.any(String),
        bundle_id: expect.any(String),
        reset_time: '2026-12-01T00:00:00.000Z',
      },
    ])
    expect((await ask(gateway, ada.key, 'team-b')).status).toBe(200)
    expect((await ask(gateway, ada.key)).status).toBe(200)
    const { body } = await gateway.call('GET', `${BUDGETS}/${id}`)
    expect(body.budget).toMatchObject({ scope: 'tag', subject: 'team-a', subjectName: 'team-a', dollarLimit: 0.0005 })
    expect(body.budget.currentSpend).toBeCloseTo(answered * ANSWER_DOLLARS, 12)

    await gateway.call('PUT', `${BUDGETS}/${id}`, { ...body.budget, dollarLimit: 1 })
    expect((await ask(gateway, ada.key, 'team-a')).status).toBe(200)
  })

  test('of a group limits the requests that are billed to its members', async () => {
    const { gateway, account, create } = await start({ engine })
    const [ada, bob] = [await account(), await account()]
    const group = await gateway.call('POST', '/api/external/groups', {
      ...{ name: 'support', description: 'Tier 1', users: [ada.userId] },
    })
    const { id } = await create('group', group.body.group.id, 0)
    const refused = await ask(gateway, ada.key)
    expect([refused.status, refused.text]).toEqual([
      429,
      expect.stringContaining("This account's group may spend $0.00"),
    ])
    expect((await ask(gateway, bob.key)).status).toBe(200)
    expect((await gateway.call('DELETE', `/api/external/groups/${group.body.group.id}`)).status).toBe(200)
    expect((await ask(gateway, ada.key)).status).toBe(200)
    expect((await gateway.call('GET', `${BUDGETS}/${id}`)).status).toBe(404)
  })

  test('of a tenant limits all its requests, and only the operator may change it', async () => {
    const { gateway, tenantId, account, create } = await start({ engine })
    const admin = await account({ role: 'admin' })
    const { id } = await create('tenant', tenantId, 0)
    expect((await ask(gateway, admin.key)).status).toBe(429)
    const asAdmin = { key: admin.key }
    for (const [method, path, body] of [
      ['PUT', `${BUDGETS}/${id}`, { dollarLimit: 9 }],
      ['DELETE', `${BUDGETS}/${id}`, undefined],
      ['POST', BUDGETS, { scope: 'tenant', subject: tenantId, dollarLimit: 9 }],
    ] as const) {
      const { status, body: answer } = await gateway.call(method, path, body, asAdmin)
      expect([method, status, answer.error.code]).toEqual([method, 403, 'INSUFFICIENT_PERMISSIONS'])
    }
    const { body } = await gateway.call('GET', BUDGETS, undefined, asAdmin)
    expect(body.budgets).toMatchObject([{ id, scope: 'tenant', subject: tenantId }])
    expect((await gateway.call('DELETE', `${BUDGETS}/${id}`)).status).toBe(200)
    expect((await ask(gateway, admin.key)).status).toBe(200)
  })

  test('of a tenant can be set by the operator after the tenant created all budgets it may have', async () => {
    const { gateway, db, tenantId, create } = await start({ engine })
    const at = new Date(NOW).toISOString()
    const row = { tenant_id: tenantId, scope: 'tag' as const, limit_nanos: 1, created_at: at, updated_at: at }
    const rows = Array.from({ length: BUDGETS_PER_TENANT }, (_, number) => ({
      ...row,
      id: newId(),
      subject: `t${number}`,
    }))
    await insertRows(db, 'budgets', rows)
    const further = await gateway.call('POST', BUDGETS, { scope: 'tag', subject: 'one-more', dollarLimit: 1 })
    expect([further.status, further.body.error.message]).toEqual([
      400,
      expect.stringContaining('1000 budgets of groups'),
    ])
    await create('tenant', tenantId, 5)
  })

  test('is applied by the dry run of a request too', async () => {
    const { gateway, db, account, create } = await start({ engine })
    const ada = await account()
    await create('tag', 'team-a', 0)
    const check = async (body: object, headers?: Record<string, string>) => {
      const asked = { prompt: 'hi', index: 'Zero-Knowledge', model: 'test/any', ...body }
      const options = { key: ada.key, ...(headers && { headers }) }
      const { text, body: answer } = await gateway.call('POST', '/api/external/policy-check', asked, options)
      expect(answer.success, text).toBe(true)
      return answer.checks
    }
    expect((await check({}, { 'x-aigw-tag': 'team-a' })).quota).toMatchObject({ passed: false, status: 429 })
    expect((await check({}, { 'x-aigw-tag': 'team-b' })).quota).toMatchObject({ passed: true })
    expect((await check({}, { 'x-aigw-tag': 'a b' })).input).toMatchObject({ passed: false, status: 400 })
    expect(await db.selectFrom('outbox_events').selectAll().where('type', '=', 'budget:threshold').execute()).toEqual(
      [],
    )
  })

  test('begins with the dollars that the reports show for this month, and is unique', async () => {
    const { gateway, db, tenantId, create } = await start({ engine })
    const amounts = { requests: 1, input_tokens: 1, output_tokens: 1, points: 0, nanos: 5, billed_nanos: 7_000_000 }
    const row = { tenant_id: tenantId, user_id: 'u', api_key_id: 'k', model: 'p/m', tag: 'team-a', ...amounts }
    await db
      .insertInto('usage_days')
      .values([
        { ...row, day: '2026-11-01' },
        { ...row, day: '2026-11-20' },
        { ...row, day: '2026-10-31' },
        { ...row, day: '2026-11-01', tag: '' },
      ])
      .execute()
    expect((await create('tag', 'team-a', 1)).currentSpend).toBe(0.014)
    const again = await gateway.call('POST', BUDGETS, { scope: 'tag', subject: 'team-a', dollarLimit: 2 })
    expect([again.status, again.body.error.code]).toEqual([409, 'BUDGET_EXISTS'])
    for (const [scope, subject] of [
      ['tag', 'a b'],
      ['group', 'a'.repeat(24)],
      ['group', 'support'],
      ['tenant', 'a'.repeat(24)],
    ]) {
      const { status, body } = await gateway.call('POST', BUDGETS, { scope, subject, dollarLimit: 2 })
      expect([scope, subject, status, body.error.code]).toEqual([scope, subject, 400, 'VALIDATION_ERROR'])
    }
  })
})

describe('two daemons on PostgreSQL', () => {
  test('never exceed the budget of a tag together', async () => {
    const { gateway, account, create, db } = await start({ engine: postgresEngine })
    const other = await startGateway({ beside: gateway, clock: createFakeClock(NOW), points: { Essential: 0 } })
    const { key } = await account()
    const { id } = await create('tag', 'team-a', 0.0005)
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, at) => ask(at % 2 ? gateway : other, key, 'team-a')),
    )
    const answered = answers.filter(({ status }) => status === 200).length
    expect(answered).toBeGreaterThan(0)
    expect(answered).toBeLessThan(60)
    const counter = await db
      .selectFrom('spend_counters')
      .select('nanos')
      .where('holder_id', '=', id)
      .executeTakeFirstOrThrow()
    expect(counter.nanos).toBe(answered * 21_000)
    expect(counter.nanos).toBeLessThanOrEqual(500_000)
    await other.close()
  })
})
