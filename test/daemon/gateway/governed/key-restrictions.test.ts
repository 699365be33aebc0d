import { beforeAll, expect, test } from 'vitest'
import type { FailoverTrigger } from '../../../../src/shared/wire/chat.ts'
import type { KeySettings } from '../../../../src/shared/wire/keys.ts'
import { addKey, addRole, addTenant, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { type Gateway, sharedGateway } from '../../../harness.ts'
import { replyJson } from '../../../upstream.ts'

const failing = replyJson({ error: { message: 'down' } }, { status: 500 })

const failover = (models: string[], on?: FailoverTrigger[]): KeySettings['failoverDefaults'] => ({
  models,
  on,
  timeout_ms: undefined,
  first_token_timeout_ms: undefined,
})

/** The tenant of the first start. */
async function tenantOf({ app }: Gateway): Promise<string> {
  return (await app.db.selectFrom('tenants').select('id').orderBy('created_at').executeTakeFirstOrThrow()).id
}

/** The resources that `restrictedGateway` creates for its tests. */
type World = { tenantId: string; chat: (settings: Partial<KeySettings>, body?: object) => ReturnType<Gateway['chat']> }

/**
 * A gateway with two indexes and a policy that blocks every request; chats use a user's key with the settings of the
 * test.
 */
function restrictedGateway(...args: Parameters<typeof sharedGateway>) {
  const gateway = sharedGateway(...args)
  const world: World = {
    tenantId: '',
    async chat(settings, body = {}) {
      const { db } = gateway.current.app
      const { secret: key } = await addKey(db, await addUser(db, { tenant_id: world.tenantId }), { settings })
      return gateway.current.chat({ prompt: 'hi', ...body }, { key })
    },
  }
  beforeAll(async () => {
    for (const name of ['handbook', 'secret']) await gateway.current.call('POST', '/api/external/indexes', { name })
    world.tenantId = await tenantOf(gateway.current)
  })
  return { gateway, world }
}

/** The key's settings, the request, and the expected status, `error` and message. */
const REFUSALS: [
  rule: string,
  settings: Partial<KeySettings>,
  body: object,
  status: number,
  error: string,
  message: RegExp,
][] = [
  ['a model outside the list', { allowedModels: ['test/a'] }, { model: 'test/b' }, 403, 'Access denied', /"test\/b"/],
  [
    'a model outside the list, which the answer shows',
    { allowedModels: ['test/a', 'local/*'] },
    { model: 'test/b' },
    403,
    'Access denied',
    /Allowed models: local\/extract, test\/a\.$/,
  ],
  ['a model of a provider outside the list', { allowedModels: ['local/*'] }, {}, 403, 'Access denied', /"test\/any"/],
  ['a list with a similar prefix', { allowedModels: ['tes/*', 'test/an'] }, {}, 403, 'Access denied', /"test\/any"/],
  [
    'a chain with a forbidden last model',
    { allowedModels: ['test/a', 'test/b'] },
    { models: ['test/a', 'test/b', 'test/c'] },
    403,
    'Access denied',
    /"test\/c"/,
  ],
  [
    'a forbidden fallback',
    { allowedModels: ['test/any'] },
    { fallback_models: ['test/b'] },
    403,
    'Access denied',
    /"test\/b"/,
  ],
  [
    'forbidden failover defaults',
    { allowedModels: ['test/any'], failoverDefaults: failover(['test/any', 'test/b']) },
    {},
    403,
    'Access denied',
    /"test\/b"/,
  ],
  [
    'an unknown model, and lists only the models of the key',
    { allowedModels: ['test/a'] },
    { model: 'nobody/x' },
    400,
    'Invalid model',
    /Configured models: test\/a\./,
  ],
  [
    'an unknown model that is in the list',
    { allowedModels: ['nobody/x'] },
    { model: 'nobody/x' },
    400,
    'Invalid model',
    /Configured models: none\./,
  ],
  ['an index outside the list', { allowedIndexes: ['handbook'] }, { index: 'secret' }, 403, 'Access denied', /index/],
  ['a missing index', { allowedIndexes: ['handbook'] }, { index: 'nowhere' }, 403, 'Access denied', /index/],
  [
    'any index, for an empty list',
    { allowedIndexes: ['Zero-Knowledge'] },
    { index: 'secret' },
    403,
    'Access denied',
    /./,
  ],
  ['a policy outside the list', {}, { smltp_policy: 'hipaa' }, 403, 'Access denied', /"hipaa".*: public, internal\.$/],
  [
    'a policy outside a narrow list',
    { allowedSMLTPPolicies: ['public'] },
    { smltp_policy: 'internal' },
    403,
    'Access denied',
    /"internal".*: public\.$/,
  ],
  [
    'a request without a policy, if the system default is outside the list',
    { allowedSMLTPPolicies: ['public'] },
    {},
    403,
    'Access denied',
    /names no policy.*"internal".*: public\.$/,
  ],
  [
    'a default policy of the key outside its list',
    { allowedSMLTPPolicies: ['public'], defaultSMLTPPolicy: 'internal' },
    {},
    403,
    'Access denied',
    /"internal"/,
  ],
  [
    'an unknown policy',
    { allowedSMLTPPolicies: [] },
    { smltp_policy: 'lenient' },
    400,
    'Invalid smltp_policy',
    /lenient/,
  ],
  ['a shield that is not enabled', {}, { prompt_shield: { enabled: true } }, 403, 'Access denied', /not enabled/],
  ['a shield policy without a shield', {}, { prompt_shield: { policy: 'p' } }, 403, 'Access denied', /not enabled/],
  [
    'disabling the shield without permission',
    { enablePromptShield: true },
    { prompt_shield: { enabled: false } },
    403,
    'Access denied',
    /may not disable the prompt shield/,
  ],
  [
    'a forbidden shield policy',
    { enablePromptShield: true, allowedPromptShieldPolicies: ['p'] },
    { prompt_shield: { policy: 'q' } },
    403,
    'Access denied',
    /"q"/,
  ],
  [
    'an allowed but missing shield policy',
    { enablePromptShield: true, allowedPromptShieldPolicies: ['p'] },
    { prompt_shield: { policy: 'p' } },
    400,
    'Invalid prompt_shield',
    /"p"/,
  ],
  [
    'a request whose bound shield policy was deleted',
    { enablePromptShield: true, promptShieldPolicyId: 'bound' },
    {},
    503,
    'Scanning service temporarily unavailable',
    /"bound"/,
  ],
  [
    'the same, also when opting out would be permitted',
    { enablePromptShield: true, promptShieldPolicyId: 'bound', allowPromptShieldOptOut: true },
    { prompt_shield: {} },
    503,
    'Scanning service temporarily unavailable',
    /"bound"/,
  ],
  [
    'a key with billing by model',
    { billingMode: 'usage-by-model', usageByModel: { enabled: true, dollarLimit: 10 } },
    {},
    403,
    'Usage by Model required',
    /billingMode/,
  ],
]

describeEachEngine('a restricted key: chat refuses before any model is asked', (engine) => {
  const { gateway, world } = restrictedGateway({ engine })

  test.each(REFUSALS)('%s', async (_rule, settings, body, status, error, message) => {
    for (const stream of [false, true]) {
      const answer = await world.chat(settings, { ...body, stream })
      expect({ status: answer.status, body: answer.body }).toEqual({
        status,
        body: {
          success: false,
          error,
          message: expect.stringMatching(message),
          request_id: answer.headers['x-request-id'],
          bundle_id: answer.headers['x-smltp-bundle-id'],
        },
      })
    }
    expect(gateway.current.upstream.requests).toHaveLength(0)
    expect(await gateway.current.usage()).toEqual([])
  })

  test.each([{ can_use_chat: 0 }, { can_interact_with_ai: 0 }, { can_use_chat: 0, can_interact_with_ai: 0 }])(
    'a user whose custom role has %o, whatever else it grants',
    async (closed) => {
      const { db } = gateway.current.app
      const role = await addRole(db, {
        tenant_id: world.tenantId,
        permissions: [{ section: 'user-management', level: 'admin' }],
        ...closed,
      })
      const user = await addUser(db, { tenant_id: world.tenantId, role: 'admin' })
      await db
        .insertInto('user_roles')
        .values({ tenant_id: user.tenant_id, user_id: user.id, role_id: role.id })
        .execute()
      const { secret: key } = await addKey(db, user)
      const { status, body } = await gateway.current.chat({ prompt: 'hi' }, { key })
      expect([status, body]).toEqual([403, expect.objectContaining({ error: 'Access denied' })])
      expect(gateway.current.upstream.requests).toHaveLength(0)
    },
  )

  test('another user as the payer, unless the key has user-management at level admin', async () => {
    const { db } = gateway.current.app
    const { tenantId } = world
    const payer = await addUser(db, { tenant_id: tenantId })
    const reader = await addUser(db, { tenant_id: tenantId, role: 'globalReader' })
    const admin = await addUser(db, { tenant_id: tenantId, role: 'admin' })
    const refusedKeys = [await addKey(db, reader), await addKey(db, admin, { settings: { adminAccess: false } })]
    for (const { secret: key } of refusedKeys) {
      const { status, body } = await gateway.current.chat({ prompt: 'hi', user_id: payer.id }, { key })
      expect([status, body]).toEqual([403, expect.objectContaining({ error: 'Access denied' })])
    }
    const { secret: adminKey } = await addKey(db, admin)
    const elsewhere = await addUser(db, { tenant_id: (await addTenant(db)).id })
    const inactive = await addUser(db, { tenant_id: tenantId, status: 0 })
    for (const { id } of [elsewhere, inactive]) {
      const { status, body } = await gateway.current.chat({ prompt: 'hi', user_id: id }, { key: adminKey })
      expect([status, body]).toEqual([400, expect.objectContaining({ error: 'Invalid user_id' })])
    }
    expect(gateway.current.upstream.requests).toHaveLength(0)
  })

  test('an index of another tenant, which counts as missing', async () => {
    const { db } = gateway.current.app
    const { secret: key } = await addKey(db, await addUser(db, { tenant_id: (await addTenant(db)).id }))
    const { status, body } = await gateway.current.chat({ prompt: 'hi', index: 'handbook' }, { key })
    expect([status, body]).toEqual([403, expect.objectContaining({ error: 'Access denied' })])
  })
})

describeEachEngine('a restricted key: chat answers what it may ask', (engine) => {
  const { gateway, world } = restrictedGateway({ engine })

  test.each<[string, Partial<KeySettings>, object, object]>([
    ['an allowed model', { allowedModels: ['local/extract', 'test/any'] }, {}, { served_model: 'test/any' }],
    [
      'any model of an allowed provider',
      { allowedModels: ['test/*'] },
      { model: 'test/x/y' },
      { served_model: 'test/x/y' },
    ],
    ['an allowed index', { allowedIndexes: ['handbook'] }, { index: 'handbook' }, { index_used: 'handbook' }],
    ['no index, whatever the list', { allowedIndexes: ['handbook'] }, {}, { index_used: 'Zero-Knowledge' }],
    [
      'with the shield of the key',
      { enablePromptShield: true },
      {},
      { prompt_shield_policy: { id: 'balanced', name: 'balanced', mode: 'blocking', sensitivity: 'balanced' } },
    ],
    [
      'under a strict policy with its own rules',
      { allowedSMLTPPolicies: ['hipaa'] },
      { smltp_policy: 'hipaa' },
      { smltp_policy_used: 'hipaa', smltp_policy_source: 'request' },
    ],
    ['by default', {}, {}, { smltp_policy_used: 'internal', smltp_policy_source: 'system_default' }],
    [
      'under the policy of the key by default',
      { defaultSMLTPPolicy: 'public' },
      {},
      { smltp_policy_used: 'public', smltp_policy_source: 'key_default' },
    ],
    [
      'under the requested policy instead of that of the key',
      { defaultSMLTPPolicy: 'public' },
      { smltp_policy: 'internal' },
      { smltp_policy_used: 'internal', smltp_policy_source: 'request' },
    ],
    [
      'without a shield on permitted request',
      { enablePromptShield: true, allowPromptShieldOptOut: true },
      { prompt_shield: { enabled: false } },
      { prompt_shield_policy: null },
    ],
    [
      'without a shield for a key without one',
      {},
      { prompt_shield: { enabled: false } },
      { prompt_shield_policy: null },
    ],
  ])('%s', async (_promise, settings, body, metadata) => {
    const answer = await world.chat(settings, body)
    expect([answer.status, answer.body.metadata]).toEqual([200, expect.objectContaining(metadata)])
  })

  test('a single model fails over along the defaults of the key, and the answering model is billed', async () => {
    gateway.current.upstream.script(failing)
    const failoverDefaults = failover(['test/a', 'test/b', 'test/c'])
    const { status, body } = await world.chat({ failoverDefaults }, { model: 'test/b' })
    expect(status).toBe(200)
    expect(body.metadata).toMatchObject({
      requested_model: 'test/b',
      served_model: 'test/c',
      failover: { occurred: true, attempts: [{ model: 'test/b', reason: 'server_error' }, { model: 'test/c' }] },
    })
    expect((await gateway.current.usage()).filter((row) => row.served_model === 'test/c')).toHaveLength(1)
  })

  test('a failure that is not among the triggers of the key ends the chain', async () => {
    gateway.current.upstream.script(failing)
    const failoverDefaults = failover(['test/a', 'test/b'], ['timeout'])
    const { status, body } = await world.chat({ failoverDefaults }, { model: 'test/a' })
    expect([status, body]).toEqual([502, expect.objectContaining({ error: 'All model attempts failed' })])
  })
})

describeEachEngine('a key whose restrictions change', (engine) => {
  const gateway = sharedGateway({ engine })

  test('its answer under an Idempotency-Key stays the first one', async () => {
    const { db } = gateway.current.app
    const { row, secret: key } = await addKey(db, await addUser(db, { tenant_id: await tenantOf(gateway.current) }))
    const options = { key, headers: { 'idempotency-key': 'once' } }
    const first = await gateway.current.chat({ prompt: 'hi' }, options)
    await db
      .updateTable('api_keys')
      .set({ settings: JSON.stringify({ allowedModels: ['local/extract'] }) })
      .where('id', '=', row.id)
      .execute()
    await gateway.current.restart()
    expect((await gateway.current.chat({ prompt: 'hi' }, options)).text).toBe(first.text)
    expect((await gateway.current.chat({ prompt: 'hi' }, { key })).status).toBe(403)
  })
})
