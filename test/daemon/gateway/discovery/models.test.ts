import { beforeAll, expect, test } from 'vitest'
import { ListModelsResponse } from '../../../../src/shared/wire/discovery.ts'
import type { KeySettings } from '../../../../src/shared/wire/keys.ts'
import type { License } from '../../../../src/shared/wire/users.ts'
import { addKey, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway, upstreamProvider } from '../../../harness.ts'

describeEachEngine('GET /models', (engine) => {
  const gateway = sharedGateway({
    engine,
    providers: [
      {
        ...upstreamProvider('fixed', 'http://127.0.0.1:9/v1', ['small', 'vendor/large']),
        facts: { small: { contextTokens: 4_096, input: ['text'], output: ['text'] } },
      },
    ],
    models: [{ name: 'smart', targets: [{ modelId: 'fixed/small', weight: 1, priority: 1 }] }],
    requestLimits: { outputTokens: { 'fixed/small': 1_024 } },
  })
  const prices = { input: 1, output: 2, cache_read: 1, cache_write: 1, cache_write_1h: 1, points: 1 }
  const details = {
    context_length: 4_096,
    max_output_tokens: 1_024,
    modalities: { input: ['text'], output: ['text'] },
    prices,
  }
  const free = { input: 0, output: 0, cache_read: 0, cache_write: 0, cache_write_1h: 0, points: 0 }
  let tenantId = ''
  beforeAll(async () => {
    const { app } = gateway.current
    tenantId = (await app.db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()).id
  })
  async function models(settings: Partial<KeySettings>, query = '', license: License = 'Essential') {
    const { db } = gateway.current.app
    const { secret: key } = await addKey(db, await addUser(db, { tenant_id: tenantId, license }), { settings })
    const { status, body } = await gateway.current.call('GET', `/api/external/models${query}`, undefined, { key })
    expect(status, JSON.stringify(body)).toBe(200)
    return ListModelsResponse.parse(body)
  }
  const ids = ({ models }: { models: { id: string }[] }) => models.map(({ id }) => id)

  test('lists the configured models, with the licence that applied', async () => {
    expect(await models({}, '', 'Growth')).toEqual({
      success: true,
      models: [
        { id: 'smart', name: 'smart', provider: 'gateway', ...details },
        { id: 'local/extract', name: 'local/extract', provider: 'local', prices: free },
        { id: 'fixed/small', name: 'fixed/small', provider: 'fixed', ...details },
        { id: 'fixed/vendor/large', name: 'fixed/vendor/large', provider: 'fixed', prices },
        { id: 'test/*', name: 'test/*', provider: 'test' },
      ],
      user_license: 'Growth',
      restrictions: { allowed_models: 'all' },
      filters: { provider: null },
    })
  })

  test('lists for a restricted key only its models', async () => {
    const allowedModels = ['fixed/*', 'test/one', 'test/two', 'gone/x', 'fixed/nothing']
    const answer = await models({ allowedModels })
    expect(ids(answer)).toEqual(['smart', 'fixed/small', 'fixed/vendor/large', 'test/one', 'test/two'])
    expect(ids(await models({ allowedModels: ['smart'] }))).toEqual(['smart'])
    expect(ids(await models({ allowedModels: ['test/one'] }))).toEqual(['test/one'])
    expect(answer.restrictions.allowed_models).toEqual(allowedModels)
  })

  test('lists the models of one requested provider', async () => {
    const answer = await models({}, '?provider=fixed')
    expect([ids(answer), answer.filters.provider]).toEqual([['fixed/small', 'fixed/vendor/large'], 'fixed'])
    expect(ids(await models({}, '?provider=gateway'))).toEqual(['smart'])
    const none = await models({}, "?provider=fix'%20or%201=1--")
    expect([ids(none), none.filters.provider]).toEqual([[], "fix' or 1=1--"])
  })

  test('rejects an invalid filter', async () => {
    const long = await gateway.current.call('GET', `/api/external/models?provider=${'x'.repeat(101)}`)
    expect([long.status, long.body.error]).toEqual([400, 'Invalid provider'])
    const nul = await gateway.current.call('GET', '/api/external/models?provider=a%00')
    expect([nul.status, nul.body.error]).toEqual([400, 'Invalid provider'])
  })
})
