import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { endpointOf } from '../../../../src/daemon/platform/http/route.ts'
import type { KeySettings } from '../../../../src/shared/wire/keys.ts'
import { addKey, addTenant, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../harness.ts'
import { chatStream, replyRaw, replySteps } from '../../../upstream.ts'

const MODELS = '/api/external/models'
const GROUPS = '/api/external/groups'
const USAGE = '/api/external/usage'
const START = Date.parse('2026-05-31T23:59:30.000Z')

const perMinute = (requestsPerMinute: number) => ({ rateLimit: { requestsPerMinute, requestsPerHour: null } })

/** A new tenant's key with these settings, and a way to call with it. */
async function newKey(gateway: Gateway, settings: Partial<KeySettings>, role: 'admin' | 'user' = 'admin') {
  const { db } = gateway.app
  const { id: tenant_id } = await addTenant(db)
  const { row, secret: key } = await addKey(db, await addUser(db, { tenant_id, role }), { settings })
  const counts = async (): Promise<Record<string, number>> => {
    const rows = await gateway.app.db
      .selectFrom('rate_counters')
      .select(['counter', 'used'])
      .where('api_key_id', '=', row.id)
      .execute()
    return Object.fromEntries(rows.map(({ counter, used }) => [counter, used]))
  }
  return {
    id: row.id,
    key,
    counts,
    call: (method: string, path: string, body?: unknown) => gateway.call(method, path, body, { key }),
  }
}

const statuses = async (count: number, send: (at: number) => Promise<{ status: number }>) => {
  const found = (await Promise.all(Array.from({ length: count }, (_, at) => send(at)))).map(({ status }) => status)
  return Object.fromEntries(
    [...new Set(found)].sort().map((status) => [status, found.filter((s) => s === status).length]),
  )
}

describeEachEngine('the limits of a key', (engine) => {
  const shared = sharedGateway({ engine, clock: createFakeClock(START) })

  test.each([
    ['minute', perMinute(50)],
    ['day', { dailyLimit: 50 }],
    ['month', { monthlyLimit: 50 }],
  ] as const)('let exactly 50 of 200 concurrent requests pass a limit of 50 per %s', async (_, settings) => {
    const { call, counts } = await newKey(shared.current, settings)
    expect(await statuses(200, () => call('GET', MODELS))).toEqual({ 200: 50, 429: 150 })
    expect(await counts()).toEqual({ minute: 50, hour: 50, day: 50, month: 50 })
  })

  test('limit the operator key only to 50 POST /groups a minute, of 200 concurrent ones', async () => {
    const gateway = shared.current
    const create = (at: number) => gateway.call('POST', GROUPS, { name: `crowd-${at}`, description: 'x' })
    expect(await statuses(200, create)).toEqual({ 201: 50, 429: 150 })
    expect((await gateway.call('GET', GROUPS)).body.pagination.total).toBe(50)
    expect(await statuses(70, () => gateway.call('GET', MODELS))).toEqual({ 200: 70 })
  })

  test('are in the headers of every response to a known key', async () => {
    const gateway = shared.current
    const { call, key } = await newKey(gateway, perMinute(20))
    const reader = await newKey(gateway, perMinute(20), 'user')
    const chat = { prompt: 'hi', index: 'Zero-Knowledge', model: 'test/any' }
    const group = { name: 'ops', description: 'On call' }
    const remaining: (string | string[] | undefined)[] = []
    for (const [method, path, body, status] of [
      ['GET', MODELS, undefined, 200],
      ['POST', GROUPS, group, 201],
      ['POST', GROUPS, group, 409],
      ['POST', GROUPS, {}, 400],
      ['POST', GROUPS, '{', 400],
      ['GET', `${GROUPS}/0123456789abcdef01234567`, undefined, 404],
      ['GET', `${GROUPS}/no-id`, undefined, 404],
      ['GET', `${GROUPS}?page=x`, undefined, 400],
      ['POST', '/api/external/chat/completions', chat, 200],
    ] as const) {
      const answer = await call(method, path, body)
      expect([answer.status, answer.headers], `${method} ${path}`).toEqual([
        status,
        expect.objectContaining({ 'ratelimit-limit': '20', 'ratelimit-reset': '30' }),
      ])
      remaining.push(answer.headers['ratelimit-remaining'])
    }
    expect(remaining).toEqual(['19', '18', '17', '16', '15', '14', '13', '12', '11'])
    gateway.upstream.script(replyRaw(chatStream(['a', 'b'])))
    const stream = await gateway.stream({ prompt: 'hi' }, { key })
    expect([stream.status, stream.done, stream.headers['ratelimit-remaining']]).toEqual([200, true, '10'])
    const denied = await reader.call('POST', GROUPS, group)
    expect([denied.status, denied.headers['ratelimit-remaining']]).toEqual([403, '19'])
  })

  test('are sent with their policy: each limit and the seconds of its window, in May too', async () => {
    const limits = {
      dailyLimit: 100,
      monthlyLimit: 10_000,
      rateLimit: { requestsPerMinute: 60, requestsPerHour: 1000 },
    }
    const { call } = await newKey(shared.current, limits)
    const general = `60;w=60, 1000;w=3600, 100;w=86400, 10000;w=${31 * 86_400}`
    expect((await call('GET', MODELS)).headers['ratelimit-policy']).toBe(general)
    expect((await call('GET', USAGE)).headers['ratelimit-policy']).toBe('60;w=60, 1000;w=3600')
    const groups = `${general}, 100;w=60, 10000;w=86400, 300000;w=${31 * 86_400}`
    expect((await call('GET', GROUPS)).headers['ratelimit-policy']).toBe(groups)
  })

  test('are omitted without limits and for unknown callers', async () => {
    const gateway = shared.current
    const told = async (path: string, key?: string | null) =>
      Object.keys((await gateway.call('GET', path, undefined, key === undefined ? {} : { key })).headers).filter(
        (name) => name.startsWith('ratelimit'),
      )
    expect(await told(MODELS)).toEqual([])
    expect(await told(MODELS, null)).toEqual([])
    expect(await told('/health', null)).toEqual([])
    expect(await told('/nowhere')).toEqual([])
  })

  test('are reported in the shape of the route, with the wait in body and header', async () => {
    const { call } = await newKey(shared.current, perMinute(0))
    const flat = await call('GET', MODELS)
    expect([flat.status, flat.body, flat.headers]).toEqual([
      429,
      {
        success: false,
        error: 'Rate limit exceeded',
        message: expect.stringContaining('0 requests per minute'),
        reset_time: '2026-06-01T00:00:00.000Z',
        request_id: expect.any(String),
      },
      expect.objectContaining({ 'retry-after': '30', 'ratelimit-remaining': '0', 'ratelimit-reset': '30' }),
    ])
    const structured = await call('GET', GROUPS)
    expect([structured.status, structured.body, structured.headers]).toEqual([
      429,
      {
        success: false,
        error: {
          code: 'RATE_LIMIT_EXCEEDED',
          message: expect.stringContaining('0 requests per minute'),
          retryAfter: 30,
        },
        request_id: expect.any(String),
      },
      expect.objectContaining({ 'retry-after': '30', 'ratelimit-remaining': '0' }),
    ])
  })

  test('count rejected requests of known keys, and ignore unknown callers and addresses', async () => {
    const gateway = shared.current
    const { call, counts } = await newKey(gateway, {}, 'user')
    expect((await call('POST', GROUPS, { name: 'x', description: 'x' })).status).toBe(403)
    expect((await call('POST', '/api/external/chat/completions', '{')).status).toBe(400)
    const both = { minute: 2, hour: 2, day: 2, month: 2 }
    expect(await counts()).toEqual({
      ...both,
      ...Object.fromEntries(['minute', 'day', 'month'].map((window) => [`POST ${GROUPS} ${window}`, 1])),
    })
    const elsewhere = await newKey(gateway, { allowedIPs: ['192.0.2.1'] })
    expect((await elsewhere.call('GET', MODELS)).status).toBe(403)
    expect(await elsewhere.counts()).toEqual({})
    const revoked = await newKey(gateway, {})
    await gateway.app.db
      .updateTable('api_keys')
      .set({ revoked_at: '2026-01-01T00:00:00.000Z' })
      .where('id', '=', revoked.id)
      .execute()
    expect((await revoked.call('GET', MODELS)).status).toBe(401)
    expect(await revoked.counts()).toEqual({})
  })

  test('allow GET /usage when the day is exhausted, which shows every request', async () => {
    const { call } = await newKey(shared.current, { dailyLimit: 7, monthlyLimit: null })
    await statuses(20, () => call('GET', MODELS))
    for (let turn = 0; turn < 2; turn++) {
      const { status, body } = await call('GET', USAGE)
      expect([status, body.api_key.daily, body.api_key.monthly.used]).toEqual([
        200,
        { used: 7, limit: 7, remaining: 0 },
        7,
      ])
    }
  })

  test('apply at once when an administrator changes them', async () => {
    const { call, id } = await newKey(shared.current, perMinute(3))
    const change = (requestsPerMinute: number | null) =>
      call('PUT', `/api/admin/api-keys/${id}`, { rateLimit: { requestsPerMinute, requestsPerHour: null } })
    expect((await change(2)).status).toBe(200)
    expect((await call('GET', MODELS)).status).toBe(200)
    expect((await call('GET', MODELS)).status).toBe(429)
    // The key has no requests left to raise its own limit.
    expect((await change(100)).status).toBe(429)
  })
})

describeEachEngine('counts', (engine) => {
  test('survive a restart, and end with their window', async () => {
    const clock = createFakeClock(START)
    const gateway = await startGateway({ engine, clock })
    const { call } = await newKey(gateway, { ...perMinute(3), monthlyLimit: 4 })
    expect(await statuses(9, () => call('GET', MODELS))).toEqual({ 200: 3, 429: 6 })
    await gateway.restart()
    expect((await call('GET', MODELS)).status).toBe(429)
    clock.advance(30_000)
    expect(await statuses(9, () => call('GET', MODELS))).toEqual({ 200: 3, 429: 6 })
  })

  test('count a chat whose client disconnects midway', async () => {
    const gateway = await startGateway({ engine })
    const { key, counts } = await newKey(gateway, {}, 'user')
    const started = chatStream(['one '], { finishReason: null, done: false })
    gateway.upstream.script(replySteps([started], { ending: 'hang' }))
    const leave = new AbortController()
    const answer = await gateway.openStream({ prompt: 'hi' }, { key, signal: leave.signal })
    await answer.next()
    const received = await gateway.upstream.nextRequest()
    leave.abort()
    await received.aborted
    // Closing waits for running requests.
    await gateway.restart()
    expect((await gateway.usage()).map(({ outcome }) => outcome)).toEqual(['aborted'])
    expect(await counts()).toEqual({ minute: 1, hour: 1, day: 1, month: 1 })
  })

  test.each([false, true])('count a chat that failed because it could not be billed (stream: %s)', async (stream) => {
    const gateway = await startGateway({ engine })
    const { key, counts } = await newKey(gateway, {}, 'user')
    await sql`create table saved as select * from evidence_commits`.execute(gateway.app.db)
    await sql`drop table evidence_commits`.execute(gateway.app.db)
    if (stream) {
      gateway.upstream.script(replyRaw(chatStream(['all of it'])))
      expect((await gateway.stream({ prompt: 'hi' }, { key })).done).toBe(false)
    } else expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(500)
    // The next chat is rejected before any model is called, and counts too.
    expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(503)
    await sql`create table evidence_commits as select * from saved`.execute(gateway.app.db)
    // The error frame may be sent earlier; closing waits for the remaining work.
    await gateway.restart()
    expect(await counts()).toMatchObject({ month: 2 })
  })
})

test('a chat and its counters are one commit: both are stored, or the request failed', async () => {
  const gateway = await startGateway()
  const { key, counts } = await newKey(gateway, {}, 'user')
  await gateway.chat({ prompt: 'hi' }, { key })
  await sql`create trigger no_counters before update on rate_counters begin select raise(abort, 'no'); end`.execute(
    gateway.app.db,
  )
  expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(500)
  expect([await counts(), await gateway.usage()]).toEqual([expect.objectContaining({ month: 1 }), [expect.anything()]])
  // The administrative request is still answered, because it has taken effect.
  expect((await gateway.call('GET', MODELS, undefined, { key })).status).toBe(200)
  await sql`drop trigger no_counters`.execute(gateway.app.db)
  await gateway.chat({ prompt: 'hi' }, { key })
  expect(await counts()).toMatchObject({ month: 4 })
})

const POLICY_WRITES = [
  'POST /api/external/smltp-policies',
  'PUT /api/external/smltp-policies/{policyId}',
  'DELETE /api/external/smltp-policies/{policyId}',
  'POST /api/external/smltp-policies/{policyId}/activate',
]

describe('the classes', () => {
  test('apply to the routes of the contract, and to no other', async () => {
    const { app } = await startGateway()
    const inClass = (rate: string) =>
      app.routes
        .filter((route) => route.rate === rate)
        .map(endpointOf)
        .sort()
    const writes = ['groups', 'roles'].flatMap((name) => [
      `POST /api/external/${name}`,
      `PUT /api/external/${name}/{${name.slice(0, -1)}Id}`,
      `DELETE /api/external/${name}/{${name.slice(0, -1)}Id}`,
    ])
    const isIndexWrite = (endpoint: string) => /^(POST|PUT|DELETE) \/api\/external\/indexes(\/\{\w+\})?$/.test(endpoint)
    expect(inClass('write').filter((endpoint) => !isIndexWrite(endpoint))).toEqual(
      [
        'POST /api/admin/webhooks/trigger',
        'POST /api/external/indexes/{indexId}/rebuild',
        ...writes,
        ...POLICY_WRITES,
      ].sort(),
    )
    expect(app.routes.filter((route) => isIndexWrite(endpointOf(route)) && route.rate !== 'write')).toEqual([])
    expect(inClass('read')).toEqual(
      [
        'GET /api/external/groups',
        'GET /api/external/groups/{groupId}',
        'GET /api/external/roles',
        'GET /api/external/roles/{roleId}',
        'GET /api/external/indexes/all',
        'GET /api/external/indexes/{indexId}',
        'GET /api/external/smltp-policies/active',
        'GET /api/external/smltp-policies/all',
        'GET /api/external/smltp-policies/{policyId}',
        'PUT /api/external/users/{userId}',
        'GET /api/external/audit-logs',
      ].sort(),
    )
    // The routes for polling and for batch checks.
    const ofTheLog = app.routes.filter(({ method, path }) => method === 'GET' && path.includes('/transparency/'))
    expect(ofTheLog.length).toBeGreaterThan(10)
    expect(inClass('unmetered')).toEqual(
      [`GET ${USAGE}`, 'GET /api/external/activity-logs', ...ofTheLog.map(endpointOf)].sort(),
    )
  })

  test('100 reads a minute, separately for each route', async () => {
    const gateway = await startGateway({ clock: createFakeClock(START) })
    const { call } = await newKey(gateway, {})
    expect(await statuses(120, () => call('GET', GROUPS))).toEqual({ 200: 100, 429: 20 })
    const refused = await call('GET', GROUPS)
    expect(refused.body.error.message).toContain(`100 requests per minute to GET ${GROUPS}`)
    expect((await call('GET', '/api/external/roles')).status).toBe(200)
  })
})
