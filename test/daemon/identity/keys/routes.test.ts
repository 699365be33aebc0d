import { hash } from 'node:crypto'
import { expect, test } from 'vitest'
import { newId } from '../../../../src/shared/ids.ts'
import { ApiKey } from '../../../../src/shared/wire/keys.ts'
import { addKey, addTenant, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { type CallOptions, sharedGateway } from '../../../harness.ts'
import { recordedChanges } from '../../../recorded-changes.ts'

const KEYS = '/api/admin/api-keys'
const WHOAMI = '/api/external/whoami'

describeEachEngine('API keys', (engine) => {
  const gateway = sharedGateway({ engine })
  const db = () => gateway.current.app.db

  /** A separate tenant with an administrator, so that tests do not see each other's keys. */
  async function administration() {
    const tenant = await addTenant(db())
    const admin = await addUser(db(), { tenant_id: tenant.id, role: 'admin', name: 'Ada' })
    const { secret, row } = await addKey(db(), admin, { name: 'first' })
    const call = (method: string, path: string, body?: unknown, options?: CallOptions) =>
      gateway.current.call(method, KEYS + path, body, { key: secret, ...options })
    return { tenant, admin, secret, adminKey: row, call }
  }
  const whoami = async (key: string) => (await gateway.current.call('GET', WHOAMI, undefined, { key })).status

  const everything = {
    adminAccess: false,
    indexAccess: 'write',
    billingMode: 'usage-by-model',
    usageByModel: { enabled: true, dollarLimit: 12.5 },
    dailyLimit: 7,
    monthlyLimit: null,
    rateLimit: { requestsPerMinute: 1000, requestsPerHour: 10_000 },
    limits: {
      messages: 50,
      contentBytes: 100_000,
      bodyBytes: 200_000,
      jsonDepth: 20,
      tools: 10,
      maxTokens: 2_000,
      defaultMaxTokens: 500,
    },
    allowedModels: ['openai/gpt-4o', 'local/*'],
    allowedIndexes: ['handbook'],
    allowedSMLTPPolicies: ['public', 'hipaa'],
    defaultSMLTPPolicy: 'hipaa',
    allowedIPs: ['127.0.0.0/8', '2001:db8::/32', '192.0.2.1'],
    enablePromptShield: true,
    promptShieldSensitivity: 'strict',
    promptShieldPolicyId: 'strict',
    allowedPromptShieldPolicies: ['strict', 'balanced'],
    allowPromptShieldOptOut: true,
    failoverDefaults: {
      models: ['openai/gpt-4o', 'local/extract'],
      timeout_ms: 5000,
      first_token_timeout_ms: 700,
      on: ['timeout', 'rate_limit'],
    },
    cacheAnswers: true,
  }
  const defaults = {
    adminAccess: true,
    indexAccess: 'read',
    billingMode: 'user-completions',
    usageByModel: { enabled: false, dollarLimit: null },
    dailyLimit: 100,
    monthlyLimit: 10_000,
    rateLimit: { requestsPerMinute: 60, requestsPerHour: 1000 },
    limits: {
      messages: null,
      contentBytes: null,
      bodyBytes: null,
      jsonDepth: null,
      tools: null,
      maxTokens: null,
      defaultMaxTokens: null,
    },
    allowedModels: [],
    allowedIndexes: [],
    allowedSMLTPPolicies: ['public', 'internal'],
    defaultSMLTPPolicy: null,
    allowedIPs: [],
    enablePromptShield: false,
    promptShieldSensitivity: 'balanced',
    promptShieldPolicyId: null,
    allowedPromptShieldPolicies: [],
    allowPromptShieldOptOut: false,
    failoverDefaults: null,
    cacheAnswers: false,
  }

  test('a key with only a name has the documented defaults and belongs to its creator', async () => {
    const { admin, call } = await administration()
    const { status, headers, body } = await call('POST', '', { name: '  deploys  ' })
    expect(status).toBe(201)
    expect(headers['cache-control']).toBe('no-store')
    expect(body).toEqual({
      success: true,
      message: 'API key created',
      secret: expect.stringMatching(/^sk-[0-9a-f]{64}$/),
      apiKey: {
        id: expect.stringMatching(/^[0-9a-f]{24}$/),
        name: 'deploys',
        userId: admin.id,
        user: { id: admin.id, name: 'Ada', email: admin.email },
        status: 'active',
        isOperator: false,
        ...defaults,
        createdAt: expect.any(String),
        updatedAt: expect.any(String),
        expiresAt: null,
        revokedAt: null,
        lastUsedAt: null,
      },
    })
    expect(await whoami(body.secret)).toBe(200)
  })

  test('whoami shows the limits and the expiry of the key', async () => {
    const { call } = await administration()
    const limits = { dailyLimit: 7, monthlyLimit: null, rateLimit: { requestsPerMinute: 90, requestsPerHour: 100 } }
    const restrictions = { allowedModels: ['openai/*'], allowedIndexes: ['handbook'] }
    const { body } = await call('POST', '', {
      ...{ name: 'narrow', expiresAt: '2099-01-31T10:00:00Z' },
      ...limits,
      ...restrictions,
    })
    const me = await gateway.current.call('GET', WHOAMI, undefined, { key: body.secret })
    expect(me.body.api_key).toMatchObject({ expiresAt: '2099-01-31T10:00:00.000Z', ...limits, ...restrictions })
  })

  test('create, show and list return every field as it was sent', async () => {
    const { tenant, call } = await administration()
    const owner = await addUser(db(), { tenant_id: tenant.id })
    const { body } = await call('POST', '', {
      name: 'narrow',
      userId: owner.id.toUpperCase(),
      expiresAt: '2099-01-31T12:00:00+02:00',
      ...everything,
    })
    expect(body.apiKey).toMatchObject({ userId: owner.id, expiresAt: '2099-01-31T10:00:00.000Z', ...everything })
    expect((await call('GET', `/${body.apiKey.id}`)).body).toEqual({ success: true, apiKey: body.apiKey })
    expect((await call('GET', `?userId=${owner.id}`)).body.apiKeys).toEqual([body.apiKey])
    expect(ApiKey.parse(body.apiKey)).toEqual(body.apiKey)
  })

  test('null means "not set" by default: the default of a new key, no change of an existing one', async () => {
    const { call } = await administration()
    const withoutMeaning = Object.keys(everything).filter((field) => defaults[field as keyof typeof defaults] !== null)
    const nulls = Object.fromEntries(
      withoutMeaning.filter((field) => !['dailyLimit', 'monthlyLimit'].includes(field)).map((field) => [field, null]),
    )
    const made = await call('POST', '', { name: 'nulls', ...nulls })
    expect([made.status, made.body.apiKey]).toEqual([201, expect.objectContaining(defaults)])
    const set = (await call('PUT', `/${made.body.apiKey.id}`, everything)).body.apiKey
    const usageByModel = { enabled: null }
    for (const body of [nulls, { usageByModel }, { name: null }]) {
      const { status, body: after } = await call('PUT', `/${set.id}`, body)
      expect([status, after.apiKey]).toEqual([200, { ...set, updatedAt: expect.any(String) }])
    }
  })

  test('a body that is not an object is rejected as such, and null is shown as null', async () => {
    const { call } = await administration()
    for (const body of ['[]', '5', 'null']) {
      const { status, body: refused } = await call('POST', '', body)
      expect([status, refused.error.message]).toEqual([400, 'the body must be a JSON object.'])
    }
    const { body: refused } = await call('POST', '', { name: null })
    expect(refused.error.details).toEqual({ field: 'name', value: null })
  })

  test('allowed indexes are stored in their canonical spelling', async () => {
    const { call } = await administration()
    const allowedIndexes = [' My Handbook', 'handbook', 'Zero-Knowledge']
    const { body } = await call('POST', '', { name: 'narrow', allowedIndexes })
    expect(body.apiKey.allowedIndexes).toEqual(['my-handbook', 'handbook', 'Zero-Knowledge'])
    expect((await call('POST', '', { name: 'narrow', allowedIndexes: ['!?'] })).status).toBe(400)
  })

  test('an update changes only its fields, and null resets optional ones', async () => {
    const { call } = await administration()
    const created = (await call('POST', '', { name: 'k' })).body.apiKey
    const path = `/${created.id}`
    let expected = created
    // The lists are set before the default policy, which they must contain.
    for (const [field, value] of Object.entries(everything)) {
      const { status, body } = await call('PUT', path, { [field]: value })
      expected = { ...expected, [field]: value, updatedAt: expect.any(String) }
      expect([status, body.message, body.apiKey]).toEqual([200, 'API key updated', expected])
    }
    for (const field of ['dailyLimit', 'defaultSMLTPPolicy', 'promptShieldPolicyId', 'failoverDefaults']) {
      expect((await call('PUT', path, { [field]: null })).body.apiKey[field]).toBe(null)
    }
    const renamed = await call('PUT', path, { name: 'new name', expiresAt: '2099-01-01T00:00:00Z' })
    expect(renamed.body.apiKey).toMatchObject({ name: 'new name', expiresAt: '2099-01-01T00:00:00.000Z' })
    expect((await call('PUT', path, { expiresAt: null })).body.apiKey.expiresAt).toBe(null)
    expect((await call('GET', '?search=NEW+NAME')).body.apiKeys).toHaveLength(1)
    expect((await call('PUT', path, {})).status).toBe(200)
  })

  test('an expired key can be shown, edited and sent back; a new expiry must be in the future', async () => {
    const { call } = await administration()
    const { id } = (await call('POST', '', { name: 'k', expiresAt: '2099-01-01T00:00:00Z' })).body.apiKey
    const past = '2020-01-01T00:00:00.000Z'
    await gateway.current.app.db.updateTable('api_keys').set({ expires_at: past }).where('id', '=', id).execute()
    const shown = (await call('GET', `/${id}`)).body.apiKey
    const { status, body } = await call('PUT', `/${id}`, { ...shown, name: 'edited' })
    expect([status, body.apiKey?.name, body.apiKey?.expiresAt]).toEqual([200, 'edited', past])
    expect((await call('PUT', `/${id}`, { expiresAt: '2020-01-01T00:00:01Z' })).status).toBe(400)
  })

  test('rateLimit and usageByModel are merged member by member', async () => {
    const { call } = await administration()
    const { id } = (await call('POST', '', { name: 'k', rateLimit: { requestsPerHour: 500 } })).body.apiKey
    const limits = async (body: object) => {
      const { rateLimit, usageByModel } = (await call('PUT', `/${id}`, body)).body.apiKey
      return [rateLimit.requestsPerMinute, rateLimit.requestsPerHour, usageByModel.enabled, usageByModel.dollarLimit]
    }
    expect(await limits({ rateLimit: { requestsPerMinute: 5 } })).toEqual([5, 500, false, null])
    expect(await limits({ rateLimit: { requestsPerHour: null } })).toEqual([5, null, false, null])
    expect(await limits({ usageByModel: { dollarLimit: 3 } })).toEqual([5, null, false, 3])
    expect(await limits({ usageByModel: { enabled: true } })).toEqual([5, null, true, 3])
  })

  test('limits are merged member by member, and null removes one', async () => {
    const { call } = await administration()
    const { id } = (await call('POST', '', { name: 'k', limits: { maxTokens: 500 } })).body.apiKey
    const limits = async (body: object) => {
      const { maxTokens, tools } = (await call('PUT', `/${id}`, { limits: body })).body.apiKey.limits
      return [maxTokens, tools]
    }
    expect(await limits({ tools: 3 })).toEqual([500, 3])
    expect(await limits({ maxTokens: null })).toEqual([null, 3])
    const { body: log } = await call('GET', `/${id}`)
    expect(log.apiKey.limits.tools).toBe(3)
  })

  test('timeouts of failoverDefaults are clamped and models deduplicated', async () => {
    const { call } = await administration()
    const failoverDefaults = { models: ['a/b', 'a/b', 'c/d', 'e/f'], timeout_ms: 1, first_token_timeout_ms: 1e9 }
    const { body } = await call('POST', '', { name: 'k', failoverDefaults })
    expect(body.apiKey.failoverDefaults).toEqual({
      models: ['a/b', 'c/d', 'e/f'],
      timeout_ms: 1000,
      first_token_timeout_ms: 60_000,
    })
  })

  const tooMany = Array.from({ length: 101 }, (_, at) => `p/m${at}`)
  test.each([
    ['name', { name: undefined }],
    ['name', { name: '  ' }],
    ['name', { name: 'x'.repeat(101) }],
    ['name', { name: 'nul\0' }],
    ['userId', { userId: 'nobody' }],
    ['userId', { userId: 'a'.repeat(24) }],
    ['adminAccess', { adminAccess: 'yes' }],
    ['billingMode', { billingMode: 'free' }],
    ['usageByModel.dollarLimit', { usageByModel: { enabled: true, dollarLimit: -1 } }],
    ['dailyLimit', { dailyLimit: -1 }],
    ['dailyLimit', { dailyLimit: 1.5 }],
    ['monthlyLimit', { monthlyLimit: '10' }],
    ['rateLimit.requestsPerMinute', { rateLimit: { requestsPerMinute: 1001 } }],
    ['limits.maxTokens', { limits: { maxTokens: 0 } }],
    ['limits.jsonDepth', { limits: { jsonDepth: 1001 } }],
    ['limits', { limits: { tokens: 5 } }],
    ['rateLimit.requestsPerHour', { rateLimit: { requestsPerHour: 10_001 } }],
    ['expiresAt', { expiresAt: '2020-01-01T00:00:00Z' }],
    ['expiresAt', { expiresAt: 'tomorrow' }],
    ['expiresAt', { expiresAt: '2026-02-30T00:00:00Z' }],
    ['expiresAt', { expiresAt: '9999-12-31T23:59:59-01:00' }],
    ['allowedModels', { allowedModels: tooMany }],
    ['allowedModels.0', { allowedModels: ['/no-provider'] }],
    ['allowedIndexes.0', { allowedIndexes: [''] }],
    ['allowedSMLTPPolicies', { allowedSMLTPPolicies: ['public', 'unheard-of'] }],
    ['defaultSMLTPPolicy', { defaultSMLTPPolicy: 'unheard-of' }],
    ['defaultSMLTPPolicy', { defaultSMLTPPolicy: 'hipaa' }],
    ['allowedIPs.0', { allowedIPs: ['10.0.0.0/33'] }],
    ['promptShieldSensitivity', { promptShieldSensitivity: 'high' }],
    ['failoverDefaults.models', { failoverDefaults: { models: [] } }],
    ['failoverDefaults.models', { failoverDefaults: { models: ['a/b', 'c/d', 'e/f', 'g/h'] } }],
    ['failoverDefaults.on.0', { failoverDefaults: { models: ['a/b'], on: ['boredom'] } }],
  ])('400 VALIDATION_ERROR names %s for %j', async (field, fields) => {
    const { call, adminKey } = await administration()
    const { status, body } = await call('POST', '', { name: 'k', ...fields })
    expect([status, body.error?.code, body.error?.details?.field]).toEqual([400, 'VALIDATION_ERROR', field])
    expect((await call('GET', '')).body.apiKeys.map((key: ApiKey) => key.id)).toEqual([adminKey.id])
    if (field === 'name' || field === 'userId') return
    const updated = await call('PUT', `/${adminKey.id}`, fields)
    expect([updated.status, updated.body.error.details.field]).toEqual([400, field])
  })

  test('the default policy cannot be removed from the allowed ones', async () => {
    const { call } = await administration()
    const { id } = (await call('POST', '', { name: 'k', defaultSMLTPPolicy: 'internal' })).body.apiKey
    const { status, body } = await call('PUT', `/${id}`, { allowedSMLTPPolicies: ['public'] })
    expect([status, body.error.details.field]).toEqual([400, 'defaultSMLTPPolicy'])
    expect((await call('PUT', `/${id}`, { allowedSMLTPPolicies: [] })).status).toBe(200)
  })

  test('an inactive user or one of another tenant gets no key', async () => {
    const { tenant, call } = await administration()
    const stranger = (await administration()).admin
    const idle = await addUser(db(), { tenant_id: tenant.id, status: 0 })
    for (const { id } of [stranger, idle]) {
      const { status, body } = await call('POST', '', { name: 'k', userId: id })
      expect([status, body.error.details]).toEqual([400, { field: 'userId', value: id }])
    }
  })

  test('a user who is deleted concurrently gets no key, and requests do not fail', async () => {
    const { tenant, secret, call } = await administration()
    for (let round = 0; round < 10; round++) {
      const { id } = await addUser(db(), { tenant_id: tenant.id })
      const [gone, made] = await Promise.all([
        gateway.current.call('DELETE', `/api/external/users/${id}`, undefined, { key: secret }),
        call('POST', '', { name: 'k', userId: id }),
      ])
      expect(gone.status).toBe(200)
      expect([201, 400]).toContain(made.status)
      expect((await call('GET', `?userId=${id}`)).body.apiKeys).toEqual([])
    }
  })

  test('rotating replaces only the secret of a key; the old one is rejected at once', async () => {
    const { call } = await administration()
    const { apiKey, secret } = (await call('POST', '', { name: 'k', adminAccess: false, dailyLimit: 9 })).body
    expect(await whoami(secret)).toBe(200)
    const { status, headers, body } = await call('POST', `/${apiKey.id}/rotate`)
    expect([status, headers['cache-control']]).toEqual([200, 'no-store'])
    expect(body.secret).toMatch(/^sk-[0-9a-f]{64}$/)
    expect(body.secret).not.toBe(secret)
    expect(body.apiKey).toEqual({ ...apiKey, updatedAt: expect.any(String), lastUsedAt: expect.any(String) })
    expect([await whoami(secret), await whoami(body.secret)]).toEqual([401, 200])
  })

  test('of two concurrent rotations exactly one secret works, the stored one', async () => {
    const { call } = await administration()
    const { apiKey } = (await call('POST', '', { name: 'k' })).body
    const rotations = await Promise.all([1, 2, 3, 4].map(() => call('POST', `/${apiKey.id}/rotate`)))
    expect(rotations.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    const secrets = rotations.map(({ body }) => body.secret as string)
    const answers = await Promise.all(secrets.map(whoami))
    expect(answers.filter((status) => status === 200)).toHaveLength(1)
    const { secret_hash } = await db()
      .selectFrom('api_keys')
      .select('secret_hash')
      .where('id', '=', apiKey.id)
      .executeTakeFirstOrThrow()
    expect(hash('sha256', secrets[answers.indexOf(200)] as string, 'hex')).toBe(secret_hash)
  })

  test('concurrent updates lose no change', async () => {
    const { call } = await administration()
    const { id } = (await call('POST', '', { name: 'k' })).body.apiKey
    const changes = [
      { dailyLimit: 1 },
      { monthlyLimit: 2 },
      { allowedModels: ['a/b'] },
      { allowPromptShieldOptOut: true },
    ]
    await Promise.all(changes.map((body) => call('PUT', `/${id}`, body)))
    expect((await call('GET', `/${id}`)).body.apiKey).toMatchObject(Object.assign({}, ...changes))
  })

  test('a revoked key is rejected at once, stays in the list, and can neither be changed nor rotated', async () => {
    const { call } = await administration()
    const { apiKey, secret } = (await call('POST', '', { name: 'k' })).body
    expect(await whoami(secret)).toBe(200)
    const revoked = await call('DELETE', `/${apiKey.id}`)
    expect([revoked.status, revoked.body.success, revoked.body.message]).toEqual([200, true, 'API key revoked'])
    expect(revoked.body.apiKey).toMatchObject({ status: 'revoked', revokedAt: expect.any(String) })
    expect(await whoami(secret)).toBe(401)
    expect((await call('DELETE', `/${apiKey.id}`)).body.apiKey).toEqual(revoked.body.apiKey)
    for (const again of [
      await call('PUT', `/${apiKey.id}`, { name: 'x' }),
      await call('POST', `/${apiKey.id}/rotate`),
    ]) {
      expect([again.status, again.body.error.code]).toEqual([409, 'API_KEY_REVOKED'])
    }
    expect((await call('GET', '?status=revoked')).body.apiKeys).toEqual([revoked.body.apiKey])
  })

  test.each(['nonsense', 'a'.repeat(24), '%27%20or%201=1--'])('404 API_KEY_NOT_FOUND for the id %s', async (id) => {
    const { call } = await administration()
    const answers = [
      await call('GET', `/${id}`),
      await call('PUT', `/${id}`, { name: 'x' }),
      await call('DELETE', `/${id}`),
      await call('POST', `/${id}/rotate`),
    ]
    for (const { status, body } of answers) expect([status, body.error.code]).toEqual([404, 'API_KEY_NOT_FOUND'])
  })

  test('the list is paged, sorted, filtered and searched, with ties sorted by id', async () => {
    const { tenant, admin, adminKey, call } = await administration()
    const other = await addUser(db(), { tenant_id: tenant.id })
    const at = (day: number) => `2026-02-0${day}T00:00:00.000Z`
    const key = async (name: string, day: number, more: object = {}) =>
      (await addKey(db(), admin, { name, created_at: at(day), updated_at: at(9 - day), ...more })).row.id
    const a = await key('Alpha 100%', 1)
    const b = await key('beta_x', 2, { expires_at: '2026-02-03T00:00:00.000Z' })
    const c = await key('Émile', 2, { expires_at: '2099-01-01T00:00:00.000Z' })
    const d = (await addKey(db(), other, { name: 'other', created_at: at(3), revoked_at: at(4) })).row.id
    const ids = async (query: string) => {
      const { status, body } = await call('GET', query)
      expect(status).toBe(200)
      return body.apiKeys.map((key: ApiKey) => key.id)
    }
    const first = adminKey.id
    expect(await ids('')).toEqual([d, c, b, a, first])
    expect(await ids('?sortOrder=asc')).toEqual([first, a, b, c, d])
    expect(await ids('?sortBy=updatedAt')).toEqual([a, c, b, ...[d, first].sort().reverse()])
    expect(await ids('?sortBy=name&sortOrder=asc&limit=2')).toHaveLength(2)
    expect(await ids('?limit=2&page=2')).toEqual([b, a])
    expect(await ids('?page=99')).toEqual([])
    expect((await call('GET', '?limit=2')).body.pagination).toEqual({ page: 1, limit: 2, total: 5, pages: 3 })
    expect(await ids(`?userId=${other.id}`)).toEqual([d])
    expect(await ids('?status=active')).toEqual([c, a, first])
    expect(await ids('?status=expired')).toEqual([b])
    expect(await ids('?status=revoked')).toEqual([d])
    expect(await ids('?search=ALPHA')).toEqual([a])
    expect(await ids('?search=%25')).toEqual([a])
    expect(await ids('?search=a_x')).toEqual([b])
    expect(await ids(`?search=${encodeURIComponent('éMILE')}`)).toEqual([c])
    expect(await ids(`?search=${encodeURIComponent("' or 1=1 --")}`)).toEqual([])
  })

  test.each([
    'sortBy=secret_hash',
    'sortBy=name;drop',
    'sortOrder=up',
    'status=dead',
    'userId=x',
    'page=one',
    'search=%00',
  ])('400 for the parameter %s', async (query) => {
    const { call } = await administration()
    const { status, body } = await call('GET', `?${query}`)
    expect([status, body.error.code, body.error.details.field]).toEqual([400, 'VALIDATION_ERROR', query.split('=')[0]])
  })

  test('a prompt shield policy of another tenant is as unknown as one that does not exist', async () => {
    const { call } = await administration()
    const other = await administration()
    const made = await gateway.current.call(
      'POST',
      '/api/admin/prompt-shield-policies',
      { name: 'Theirs', policy: { mode: 'monitor' } },
      { key: other.secret },
    )
    expect(made.status).toBe(201)
    const { apiKey } = (await call('POST', '', { name: 'k' })).body
    for (const name of ['Theirs', 'theirs', 'gone']) {
      for (const [field, value] of [
        ['promptShieldPolicyId', name],
        ['allowedPromptShieldPolicies', ['strict', name]],
      ] as const) {
        for (const answer of [
          await call('POST', '', { name: 'k', [field]: value }),
          await call('PUT', `/${apiKey.id}`, { [field]: value }),
        ]) {
          expect([answer.status, answer.body.error.details.field, answer.body.error.message]).toEqual([
            400,
            field,
            `There is no prompt shield policy "${name}". GET /api/admin/prompt-shield-policies lists all of them.`,
          ])
        }
      }
    }
    expect((await other.call('POST', '', { name: 'k', promptShieldPolicyId: 'Theirs' })).status).toBe(201)
  })

  test('a key whose prompt shield policy was deleted can still be changed', async () => {
    const { call, secret } = await administration()
    const shields = (method: string, path: string, body?: unknown) =>
      gateway.current.call(method, `/api/admin/prompt-shield-policies${path}`, body, { key: secret })
    await shields('POST', '', { name: 'ours', policy: {} })
    const given = { promptShieldPolicyId: 'ours', allowedPromptShieldPolicies: ['ours'] }
    const { apiKey } = (await call('POST', '', { name: 'k', ...given })).body
    expect((await shields('DELETE', '/ours')).status).toBe(200)
    const changed = await call('PUT', `/${apiKey.id}`, { ...given, dailyLimit: 3 })
    expect([changed.status, changed.body.apiKey]).toEqual([200, expect.objectContaining({ ...given, dailyLimit: 3 })])
  })

  test('a key shows when it was last used', async () => {
    const { adminKey, call } = await administration()
    const last = async () => (await call('GET', `/${adminKey.id}`)).body.apiKey.lastUsedAt
    await last()
    expect(Date.parse(await last())).toBeGreaterThan(Date.now() - 120_000)
  })

  test('every change leaves one audit entry, and a rejected change leaves none', async () => {
    const { tenant, admin, adminKey, call } = await administration()
    const { apiKey } = (await call('POST', '', { name: 'k', userId: admin.id })).body
    await call('PUT', `/${apiKey.id}`, { dailyLimit: 3 })
    await call('PUT', `/${apiKey.id}`, { defaultSMLTPPolicy: 'hipaa' })
    await call('POST', `/${apiKey.id}/rotate`)
    await call('DELETE', `/${apiKey.id}`)
    await call('POST', `/${apiKey.id}/rotate`)
    await call('POST', '', { name: 'k', userId: newId() })
    const entries = await recordedChanges(db(), tenant.id)
    expect(entries.map(({ operation, endpoint }) => `${operation} ${endpoint}`)).toEqual([
      'create POST /api/admin/api-keys',
      'update PUT /api/admin/api-keys/{keyId}',
      'rotate POST /api/admin/api-keys/{keyId}/rotate',
      'revoke DELETE /api/admin/api-keys/{keyId}',
    ])
    for (const entry of entries) {
      expect(entry).toMatchObject({ type: 'key_management', resource_type: 'api_key', resource_id: apiKey.id })
      expect(entry).toMatchObject({ user_id: admin.id, key_id: adminKey.id })
    }
    expect(entries[1]?.metadata).toEqual({ dailyLimit: 3 })
  })
})
