import { describe, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../src/daemon/models/config.ts'
import { POLICY_CACHE_MS } from '../../../../src/daemon/safety/room.ts'
import { CHAT_PATH } from '../../../../src/shared/wire/chat.ts'
import { KeySettings } from '../../../../src/shared/wire/keys.ts'
import { COUNT_TOKENS_PATH, MESSAGES_PATH } from '../../../../src/shared/wire/messages.ts'
import { OPENAI_CHAT_PATH, OPENAI_EMBEDDINGS_PATH, OPENAI_MODELS_PATH } from '../../../../src/shared/wire/openai.ts'
import { addKey } from '../../../accounts.ts'
import { describeEachEngine, postgresEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway, startGateway } from '../../../harness.ts'
import { addTestTenant, type TestTenant } from '../../../tenant-admin.ts'

const BASE = '/api/external/smltp-policies'

const inRegion = (name: string, region: string): ProviderConfig => ({
  name,
  kind: 'openai',
  baseUrl: `http://${name}.example/v1`,
  apiKey: undefined,
  headers: {},
  models: undefined,
  region,
})

const SURFACES: [path: string, body: Record<string, unknown>][] = [
  [CHAT_PATH, { prompt: 'hi', index: 'Zero-Knowledge' }],
  [OPENAI_CHAT_PATH, { messages: [{ role: 'user', content: 'hi' }] }],
  [MESSAGES_PATH, { messages: [{ role: 'user', content: 'hi' }], max_tokens: 10 }],
  [OPENAI_EMBEDDINGS_PATH, { input: 'hi' }],
  [COUNT_TOKENS_PATH, { messages: [{ role: 'user', content: 'hi' }] }],
]

describeEachEngine('a policy', (engine) => {
  const shared = sharedGateway({ engine, providers: [inRegion('europe', 'eu-west-1'), inRegion('america', 'us')] })

  /** A tenant with this policy as `Ours`, and chats by one of its keys. */
  async function tenantWith(policy: object, { isActive = true, settings = {} as Partial<KeySettings> } = {}) {
    const tenant = await addTestTenant(shared.current)
    const made = await tenant.call('POST', BASE, { name: 'Ours', description: '', policy, setAsActive: isActive })
    expect(made.status, made.text).toBe(201)
    const { secret: key } = await addKey(tenant.db, tenant.admin, { settings })
    const post = (path: string, body: object) => shared.current.call('POST', path, body, { key })
    const chat = (body: object) => shared.current.chat({ prompt: 'hi', ...body }, { key })
    return { tenant, key, post, chat, hash: made.body.policy.policyHash }
  }

  const incidentsOf = ({ id, db }: TestTenant) =>
    db.selectFrom('incidents').selectAll().where('tenant_id', '=', id).orderBy('id').execute()

  describe('in enforce mode', () => {
    test.each(SURFACES)('rejects forbidden requests on %s, before any model is called', async (path, body) => {
      const { tenant, post } = await tenantWith({ deniedModels: ['test/any'] })
      const asked = shared.current.upstream.requests.length
      const answer = await post(path, { ...body, model: 'test/any' })
      const message =
        'The policy "ours" does not allow the model "test/any": the deniedModels of the policy include it.'
      expect([answer.status, answer.text]).toEqual([403, expect.stringContaining(JSON.stringify(message))])
      expect(shared.current.upstream.requests).toHaveLength(asked)
      const incidents = await incidentsOf(tenant)
      expect(incidents).toMatchObject([
        {
          request_id: answer.headers['x-request-id'],
          endpoint: path,
          model: 'test/any',
          kind: 'policy',
          rule_id: 'deniedModels',
          action: 'block',
          enforced: 1,
          policy: 'ours',
        },
      ])
    })

    test('responds in the flat shape, with the trace id of the incident', async () => {
      const { tenant, chat } = await tenantWith({ allowedModels: ['local/*'] })
      const { status, headers, body } = await chat({})
      const [incident] = await incidentsOf(tenant)
      expect({ status, body }).toEqual({
        status: 403,
        body: {
          success: false,
          error: 'Access denied',
          message:
            'The policy "ours" does not allow the model "test/any": the allowedModels of the policy are local/*.',
          request_id: headers['x-request-id'],
          bundle_id: headers['x-smltp-bundle-id'],
          trace_id: incident?.trace_id,
        },
      })
      expect(incident?.trace_id).toMatch(/^trx-[0-9a-f-]{36}$/)
    })

    test('checks the whole chain: a forbidden fallback is rejected like a forbidden first model', async () => {
      const { tenant, chat } = await tenantWith({ deniedModels: ['test/b', 'test/c'] })
      const asked = shared.current.upstream.requests.length
      const answer = await chat({ models: ['test/a', 'test/b', 'test/c'] })
      expect([answer.status, answer.body]).toMatchObject([403, { message: expect.stringContaining('"test/b"') }])
      expect(shared.current.upstream.requests).toHaveLength(asked)
      expect((await incidentsOf(tenant)).map(({ model }) => model)).toEqual(['test/b', 'test/c'])
      expect((await chat({ models: ['test/a', 'test/d'] })).status).toBe(200)
    })

    test('also checks the models that follow from the defaults of the key', async () => {
      const settings = KeySettings.parse({ failoverDefaults: { models: ['test/a', 'test/b'] } })
      const { chat } = await tenantWith({ deniedModels: ['test/b'] }, { settings })
      expect((await chat({ model: 'test/a' })).status).toBe(403)
    })

    test('limits requests to its regions', async () => {
      const { chat } = await tenantWith({ residency: { allowedRegions: ['eu'] } })
      const refusals = [
        ['america/m', /its region is "us", and the residency\.allowedRegions of the policy are eu/],
        ['test/any', /its region is unknown/],
      ] as const
      for (const [model, words] of refusals) {
        const answer = await chat({ model })
        expect([answer.status, answer.body]).toMatchObject([403, { message: expect.stringMatching(words) }])
      }
      // It is allowed, and only its location is rejected later.
      expect((await chat({ model: 'europe/m' })).status).toBe(502)
      expect((await chat({ model: 'local/extract' })).status).toBe(200)
    })

    test('blocks requests to hosts', async () => {
      const { chat } = await tenantWith({
        egress: { denyHosts: ['*.example'], allowHosts: ['127.0.0.1', '*.example'] },
      })
      expect((await chat({ model: 'europe/m' })).status).toBe(403)
      expect((await chat({ model: 'test/any' })).status).toBe(200)
    })
  })

  test('in monitor mode accepts everything, and records violations', async () => {
    const { tenant, chat } = await tenantWith({ mode: 'monitor', deniedModels: ['test/*'] })
    const answer = await chat({})
    expect([answer.status, answer.body.metadata]).toMatchObject([200, { smltp_policy_used: 'ours' }])
    expect(await incidentsOf(tenant)).toMatchObject([{ model: 'test/any', enforced: 0, action: 'block' }])
  })

  describe('for requests that name no model', () => {
    const offered = async (policy: object, settings: Partial<KeySettings> = {}) => {
      const { key } = await tenantWith(policy, { settings })
      const lists = [
        (await shared.current.call('GET', '/api/external/models', undefined, { key })).body.models,
        (await shared.current.call('GET', OPENAI_MODELS_PATH, undefined, { key })).body.data,
      ]
      const [ids, openAiIds] = lists.map((list: { id: string }[]) => list.map(({ id }) => id))
      // This list contains only what can be requested, and never a pattern.
      expect(openAiIds).toEqual(ids?.filter((id) => !id.endsWith('/*')))
      return ids
    }

    test.each<[policy: object, allowedModels: string[], offered: string[]]>([
      [{}, [], ['local/extract', 'europe/*', 'america/*', 'test/*']],
      [{ deniedModels: ['europe/*', 'local/extract'] }, [], ['america/*', 'test/*']],
      [{ residency: { allowedRegions: ['eu'] } }, [], ['local/extract', 'europe/*']],
      [{ allowedModels: ['test/a', 'europe/*'] }, [], ['europe/*', 'test/a']],
      [{ allowedModels: ['test/a', 'test/b'] }, ['test/*'], ['test/a', 'test/b']],
      [{ allowedModels: ['test/*'] }, ['test/a', 'europe/b'], ['test/a']],
      [{ allowedModels: ['test/a'] }, ['test/b'], []],
      [{ mode: 'monitor', allowedModels: ['test/a'] }, ['test/b'], ['test/b']],
    ])('%j offers a key that may use %j the models %j', async (policy, allowedModels, models) => {
      expect(await offered(policy, { allowedModels })).toEqual(models)
    })
  })

  test('that a request obeys leaves no incident', async () => {
    const { tenant, chat } = await tenantWith({ allowedModels: ['test/*'], allowedProviders: ['test'] })
    expect((await chat({})).status).toBe(200)
    expect(await incidentsOf(tenant)).toEqual([])
  })

  describe('is resolved', () => {
    test('to the active one of the tenant, which metadata reports with its hash', async () => {
      const { chat, hash } = await tenantWith({ retentionDays: 7 })
      expect((await chat({})).body.metadata).toMatchObject({
        smltp_policy_used: 'ours',
        smltp_policy_source: 'tenant_active',
        smltp_policy_hash: hash,
      })
    })

    test('to the requested one, by name or id and in any case, if the key may use it', async () => {
      const settings = { allowedSMLTPPolicies: ['ours'] }
      const { chat } = await tenantWith({}, { isActive: false, settings })
      for (const smltp_policy of ['ours', 'OURS', ' Ours ']) {
        const { status, body } = await chat({ smltp_policy })
        expect([status, body.metadata]).toMatchObject([
          200,
          { smltp_policy_used: 'ours', smltp_policy_source: 'request' },
        ])
      }
    })

    test('never to one that the key may not use, even if it is active', async () => {
      const { chat } = await tenantWith({})
      const answer = await chat({ smltp_policy: 'ours' })
      expect([answer.status, answer.body]).toMatchObject([403, { error: 'Access denied' }])
    })

    test('to the default of the key', async () => {
      const settings = { allowedSMLTPPolicies: ['ours'], defaultSMLTPPolicy: 'ours' }
      const { chat } = await tenantWith({}, { isActive: false, settings })
      expect((await chat({})).body.metadata).toMatchObject({
        smltp_policy_used: 'ours',
        smltp_policy_source: 'key_default',
      })
    })

    test('never to a policy of another tenant', async () => {
      await tenantWith({}, { isActive: false })
      const tenant = await addTestTenant(shared.current)
      const { secret: key } = await addKey(tenant.db, tenant.admin, { settings: { allowedSMLTPPolicies: [] } })
      const answer = await shared.current.chat({ prompt: 'hi', smltp_policy: 'ours' }, { key })
      expect([answer.status, answer.body]).toMatchObject([400, { error: 'Invalid smltp_policy' }])
    })
  })

  test('applies from the next request on when it is changed, activated or deactivated', async () => {
    const { tenant, chat } = await tenantWith({ deniedModels: ['test/any'] })
    expect((await chat({})).status).toBe(403)
    await tenant.call('PUT', `${BASE}/ours`, { policy: { deniedModels: ['test/other'] } })
    expect((await chat({})).status).toBe(200)
    await tenant.call('PUT', `${BASE}/ours`, { policy: { allowedModels: ['local/*'] } })
    expect((await chat({})).status).toBe(403)
    await tenant.call('POST', `${BASE}/public/activate`)
    expect((await chat({})).body.metadata.smltp_policy_used).toBe('public')
    await tenant.call('POST', `${BASE}/ours/activate`)
    expect((await chat({})).status).toBe(403)
  })
})

test('a change on one daemon applies on the others within the cache time', async () => {
  const clock = createFakeClock()
  const one = await startGateway({ engine: postgresEngine, clock })
  const two = await startGateway({ engine: postgresEngine, clock, beside: one })
  const tenant = await addTestTenant(one)
  const { secret: key } = await addKey(tenant.db, tenant.admin)
  const chat = () => two.chat({ prompt: 'hi' }, { key })
  expect((await chat()).status).toBe(200)
  const policy = { deniedModels: ['test/any'] }
  await tenant.call('POST', BASE, { name: 'Ours', description: '', policy, setAsActive: true })
  clock.advance(POLICY_CACHE_MS)
  expect((await chat()).status).toBe(403)
})
