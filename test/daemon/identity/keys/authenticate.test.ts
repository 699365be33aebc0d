import { describe, expect, test } from 'vitest'
import { createAuthenticator, KEY_CACHE_MS } from '../../../../src/daemon/identity/keys/authenticate.ts'
import type { GatewayError } from '../../../../src/shared/errors.ts'
import { newApiKey } from '../../../../src/shared/ids.ts'
import { REJECTED_KEYS } from '../../../../src/shared/spec-limits.ts'
import { addKey, addTenant, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../harness.ts'

const WHOAMI = '/api/external/whoami'

async function userOf(gateway: Gateway) {
  const { id } = await addTenant(gateway.app.db)
  return addUser(gateway.app.db, { tenant_id: id, role: 'admin' })
}

describeEachEngine('a presented key', (engine) => {
  test('is rejected from the moment it expires, even while it is cached', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, clock })
    const expires_at = new Date(clock.now() + 1000).toISOString()
    const { secret: key } = await addKey(gateway.app.db, await userOf(gateway), { expires_at })
    const status = async () => (await gateway.call('GET', WHOAMI, undefined, { key })).status
    clock.advance(999)
    expect(await status()).toBe(200)
    clock.advance(1)
    expect(await status()).toBe(401)
    clock.advance(KEY_CACHE_MS)
    expect(await status()).toBe(401)
  })

  test('that another daemon revoked, or whose owner it demoted, is invalidated within KEY_CACHE_MS', async () => {
    const store = await engine.open()
    try {
      const clock = createFakeClock()
      const { id: tenant_id } = await addTenant(store.db)
      const user = await addUser(store.db, { tenant_id, role: 'admin' })
      const { row, secret } = await addKey(store.db, user)
      const { authenticate } = createAuthenticator({ db: store.db, clock })
      const request = { headers: { authorization: `Bearer ${secret}` }, socket: { remoteAddress: '127.0.0.1' } }
      expect((await authenticate(request)).isAdmin).toBe(true)

      await store.db.updateTable('users').set({ role: 'user' }).where('id', '=', user.id).execute()
      clock.advance(KEY_CACHE_MS)
      expect((await authenticate(request)).isAdmin).toBe(false)

      await store.db.updateTable('api_keys').set({ revoked_at: 'now' }).where('id', '=', row.id).execute()
      clock.advance(KEY_CACHE_MS)
      await expect(authenticate(request)).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    } finally {
      await store.close()
    }
  })
})

describeEachEngine('lookups of keys', (engine) => {
  /** An authenticator, and the number of its lookups. */
  async function open() {
    const store = await engine.open()
    const clock = createFakeClock()
    let lookups = 0
    const db = store.db.withPlugin({
      transformQuery: ({ node }) => {
        lookups += 1
        return node
      },
      transformResult: async ({ result }) => result,
    })
    const { authenticate, forgetKeys } = createAuthenticator({ db, clock })
    const status = async (key: string, remoteAddress = '127.0.0.1') => {
      try {
        await authenticate({ headers: { authorization: `Bearer ${key}` }, socket: { remoteAddress } })
        return 'accepted'
      } catch (error) {
        return (error as GatewayError).code
      }
    }
    return { store, clock, status, forgetKeys, lookups: () => lookups }
  }

  test('a change in one tenant leaves the cached keys of the others, and an unknown key is looked up once', async () => {
    const { store, clock, status, forgetKeys, lookups } = await open()
    const keys: string[] = []
    const tenants: string[] = []
    for (let tenant = 0; tenant < 2; tenant++) {
      const { id } = await addTenant(store.db)
      const user = await addUser(store.db, { tenant_id: id })
      tenants.push(id)
      keys.push((await addKey(store.db, user)).secret)
    }
    const [mine = '', other = ''] = keys
    const all = async () => [await status(mine), await status(other)]
    expect([await all(), lookups()]).toEqual([['accepted', 'accepted'], 2])
    forgetKeys(tenants[0] as string)
    expect([await all(), lookups()]).toEqual([['accepted', 'accepted'], 3])

    const unknown = newApiKey()
    for (let call = 0; call < 5; call++) expect([await status(unknown), lookups()]).toEqual(['UNAUTHORIZED', 4])
    clock.advance(KEY_CACHE_MS)
    expect([await status(unknown), lookups()]).toEqual(['UNAUTHORIZED', 5])
    await store.close()
  })

  test('an address that sends too many unknown keys gets 429, but its accepted keys still work', async () => {
    const { store, clock, status, forgetKeys, lookups } = await open()
    const { id } = await addTenant(store.db)
    const user = await addUser(store.db, { tenant_id: id })
    const [used, unused] = [(await addKey(store.db, user)).secret, (await addKey(store.db, user)).secret]
    expect(await status(used)).toBe('accepted')
    for (let call = 0; call < REJECTED_KEYS.perMinute; call++) expect(await status(newApiKey())).toBe('UNAUTHORIZED')
    const before = lookups()
    expect([await status(newApiKey()), await status(unused), lookups()]).toEqual([
      'RATE_LIMIT_EXCEEDED',
      'RATE_LIMIT_EXCEEDED',
      before,
    ])
    expect(await status(used)).toBe('accepted')
    forgetKeys(id)
    expect(await status(used)).toBe('accepted')
    expect(await status(newApiKey(), '127.0.0.2')).toBe('UNAUTHORIZED')
    clock.advance(60_000)
    expect([await status(unused), await status(newApiKey())]).toEqual(['accepted', 'UNAUTHORIZED'])
    await store.close()
  })

  test('many addresses with unknown keys cannot lock out a valid key of an address that has sent none', async () => {
    const { store, status } = await open()
    const { id } = await addTenant(store.db)
    const user = await addUser(store.db, { tenant_id: id })
    const secretOf = async () => (await addKey(store.db, user)).secret
    const { total, perMinute } = REJECTED_KEYS
    const addresses = Array.from({ length: Math.ceil(total / perMinute) }, (_, at) => `192.0.2.${at}`)
    // Malformed keys count like unknown ones, but need no lookup.
    for (const address of addresses) for (let call = 0; call < perMinute; call++) await status('a b', address)
    expect(await status(await secretOf(), '198.51.100.1')).toBe('accepted')
    // From now on the address has sent a rejected key, so the total applies to it.
    expect(await status(newApiKey(), '198.51.100.1')).toBe('UNAUTHORIZED')
    expect(await status(await secretOf(), '198.51.100.1')).toBe('RATE_LIMIT_EXCEEDED')
    await store.close()
  })
})

test('a key works at once after its creation, even if it was rejected just before', async () => {
  const gateway = await startGateway()
  const user = await userOf(gateway)
  const { secret, row } = await addKey(gateway.app.db, user, { revoked_at: '2026-01-01T00:00:00.000Z' })
  const status = async () => (await gateway.call('GET', WHOAMI, undefined, { key: secret })).status
  expect([await status(), await status()]).toEqual([401, 401])
  await gateway.app.db.updateTable('api_keys').set({ revoked_at: null }).where('id', '=', row.id).execute()
  const body = { name: 'another', expiresAt: null }
  expect((await gateway.call('POST', '/api/admin/api-keys', body)).status).toBe(201)
  expect(await status()).toBe(200)
})

describe('the Authorization header', () => {
  const gateway = sharedGateway()

  test.each([
    ['none', undefined],
    ['empty', ''],
    ['another scheme', 'Basic YWRtaW46YWRtaW4='],
    ['no key', 'Bearer'],
    ['spaces for a key', `Bearer${' '.repeat(8000)}`],
    ['two keys', `Bearer ${newApiKey()} ${newApiKey()}`],
    ['an unknown key', `Bearer ${newApiKey()}`],
    ['SQL', "Bearer '/**/or/**/1=1--"],
    ['SQL with spaces', "Bearer x' union select * from api_keys --"],
    ['10 KB', `Bearer ${'a'.repeat(10_240)}`],
    ['binary', `Bearer ${Buffer.from(Array.from({ length: 95 }, (_, at) => at + 161)).toString('latin1')}`],
    ['a wildcard', 'Bearer %'],
  ])('with %s gives 401 Invalid API key, in both shapes', async (_, authorization) => {
    const options = { key: null, ...(authorization !== undefined && { headers: { authorization } }) }
    const flat = await gateway.current.call('GET', WHOAMI, undefined, options)
    expect([flat.status, flat.body.error]).toEqual([401, 'Invalid API key'])
    expect(flat.headers['www-authenticate']).toBe('Bearer')
    const structured = await gateway.current.call('GET', '/api/admin/api-keys', undefined, options)
    expect([structured.status, structured.body.error.code]).toEqual([401, 'UNAUTHORIZED'])
    expect(gateway.current.log.filter(({ level }) => level === 'error')).toEqual([])
  })

  test('accepts its scheme in any case', async () => {
    for (const scheme of ['bearer', 'BEARER', 'Bearer  ']) {
      const headers = { authorization: `${scheme} ${gateway.current.adminKey}` }
      expect((await gateway.current.call('GET', WHOAMI, undefined, { key: null, headers })).status).toBe(200)
    }
  })
})

describe('whoami', () => {
  const gateway = sharedGateway()

  test('shows the rights of the key', async () => {
    const user = await userOf(gateway.current)
    const { secret, row } = await addKey(gateway.current.app.db, user, { settings: { adminAccess: false } })
    const { body } = await gateway.current.call('GET', WHOAMI, undefined, { key: secret })
    expect(body).toMatchObject({
      success: true,
      user: { id: user.id, role: 'admin' },
      api_key: { id: row.id, operator: false, adminAccess: false, indexAccess: 'read' },
      permissions: [],
      canInteractWithAI: true,
      canUseChat: true,
    })
    const operator = (await gateway.current.call('GET', WHOAMI)).body
    expect(operator.api_key).toMatchObject({ operator: true, adminAccess: true })
    expect(operator.permissions).toContainEqual({ section: 'integrations', level: 'admin' })
  })
})

describe('allowedIPs', () => {
  const direct = sharedGateway()
  const proxied = sharedGateway({ trustedProxies: ['127.0.0.0/8', 'fd00::/8'] })

  async function from(gateway: Gateway, allowedIPs: string[], forwarded?: string) {
    const { secret: key } = await addKey(gateway.app.db, await userOf(gateway), { settings: { allowedIPs } })
    const headers: Record<string, string> = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
    return gateway.call('GET', WHOAMI, undefined, { key, headers })
  }

  test.each([
    [['127.0.0.1'], 200],
    [['192.0.2.1', '127.0.0.0/8'], 200],
    [['::ffff:127.0.0.1'], 200],
    [[], 200],
    [['127.0.0.2'], 403],
    [['2001:db8::/32'], 403],
  ])('%j of a direct connection from 127.0.0.1: %s', async (allowedIPs, status) => {
    expect((await from(direct.current, allowedIPs)).status).toBe(status)
  })

  test('a rejection names the address, in both shapes', async () => {
    const flat = await from(direct.current, ['192.0.2.1'])
    expect(flat.body).toMatchObject({ error: 'Access denied', message: expect.stringContaining('127.0.0.1') })
    const { secret: key } = await addKey(direct.current.app.db, await userOf(direct.current), {
      settings: { allowedIPs: ['192.0.2.1'] },
    })
    const structured = await direct.current.call('GET', '/api/admin/api-keys', undefined, { key })
    expect([structured.status, structured.body.error.code]).toEqual([403, 'CLIENT_ADDRESS_REFUSED'])
  })

  test('X-Forwarded-For is ignored without a trusted proxy', async () => {
    expect((await from(direct.current, ['192.0.2.1'], '192.0.2.1')).status).toBe(403)
    expect((await from(direct.current, ['127.0.0.1'], '192.0.2.1')).status).toBe(200)
  })

  test.each([
    ['192.0.2.1', 200],
    ['198.51.100.7, 192.0.2.1', 200],
    ['192.0.2.1, 198.51.100.7', 403],
    ['192.0.2.1, 127.0.0.9', 200],
    ['2001:db8::7', 200],
    ['[2001:db8::7]:443', 200],
    ['2001:db9::7', 403],
    ['::ffff:192.0.2.1', 200],
    ['192.0.2.1, garbage', 403],
    ['"; drop table api_keys; --', 403],
    ['x'.repeat(10_000), 403],
    [`192.0.2.1${',192.0.2.1'.repeat(900)}`, 200],
  ])('behind a trusted proxy, from %s: %s', async (forwarded, status) => {
    expect((await from(proxied.current, ['192.0.2.0/24', '2001:db8::/32'], forwarded)).status).toBe(status)
  })

  test('an invalid X-Forwarded-For does not affect keys without address limits', async () => {
    expect((await from(proxied.current, [], 'garbage')).status).toBe(200)
  })

  test('apply from the next request on when they change', async () => {
    const gateway = direct.current
    const { secret: key, row } = await addKey(gateway.app.db, await userOf(gateway))
    const path = `/api/admin/api-keys/${row.id}`
    expect((await gateway.call('PUT', path, { allowedIPs: ['192.0.2.1'] }, { key })).status).toBe(200)
    const refused = await gateway.call('PUT', path, { allowedIPs: [] }, { key })
    expect((refused.body as { error: Partial<GatewayError> }).error.code).toBe('CLIENT_ADDRESS_REFUSED')
  })
})
