import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { type Config, ConfigFaults } from '../../../src/daemon/config/config.ts'
import { DEFAULT_CONCURRENCY, DEFAULT_LIMITS } from '../../../src/daemon/gateway/config.ts'
import { CIRCUIT_FAILURES } from '../../../src/daemon/models/breaker.ts'
import { addKey, addTenant, addUser } from '../../accounts.ts'
import { deferred } from '../../deferred.ts'
import { describeEachEngine } from '../../engines.ts'
import { type Gateway, startGateway, toFrames, upstreamProvider } from '../../harness.ts'
import { recordedChanges } from '../../recorded-changes.ts'
import { chatJson, chatStream, replyJson, replyRaw, replySteps, startUpstream } from '../../upstream.ts'

const RELOAD = '/api/admin/config/reload'

/** Reloads the gateway's configuration with these members replaced. */
function reload(gateway: Gateway, changes: Partial<Config>) {
  gateway.onReload(() => ({ ...gateway.config, ...changes }))
  return gateway.call('POST', RELOAD)
}

const own = (gateway: Gateway) => gateway.config.providers

/** Collects garbage, as a daemon does under load. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
}

test('leaves nothing of an earlier configuration in memory', async () => {
  const gateway = await startGateway()
  const ofChats = () => gateway.app.routes.find(({ path }) => path === '/api/external/chat/completions')
  const routes = new WeakRef(ofChats() ?? {})
  expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
  await reload(gateway, { defaultModel: 'test/any' })
  expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
  await expect
    .poll(() => {
      collectGarbage()
      return routes.deref()
    })
    .toBeUndefined()
})

test('that cannot be recorded leaves queues and circuits as they are', async () => {
  const gateway = await startGateway({ concurrency: { perKey: 1, waitingPerKey: 0 } })
  const held = deferred()
  gateway.upstream.script(async (exchange) => {
    await held.promise
    await replyRaw('')(exchange)
  })
  const { db } = gateway.app
  const tenant = await addTenant(db)
  const owner = await addUser(db, { tenant_id: tenant.id })
  const { secret: key } = await addKey(db, { tenant_id: tenant.id, id: owner.id })
  const first = gateway.chat({ prompt: 'hi' }, { key })
  await gateway.upstream.nextRequest()
  await sql`alter table evidence_commits rename to unavailable`.execute(db)
  const refused = await reload(gateway, { concurrency: { ...DEFAULT_CONCURRENCY, perKey: 2 } })
  expect(refused.status).toBeGreaterThanOrEqual(500)
  await sql`alter table unavailable rename to evidence_commits`.execute(db)
  await reload(gateway, { defaultModel: 'test/any' })
  expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(503)
  held.resolve()
  await first
})

describeEachEngine('a reload', (engine) => {
  test('applies providers, names and prices at once, says so, and is recorded', async () => {
    const gateway = await startGateway({ engine })
    expect((await gateway.chat({ prompt: 'hi', model: 'second/m' })).status).toBe(400)
    const answer = await reload(gateway, {
      providers: [
        ...own(gateway),
        { ...upstreamProvider('second', gateway.upstream.url), apiKey: 'sk-second-secret-key' },
      ],
      models: [{ name: 'fast', targets: [{ modelId: 'second/m', weight: 1, priority: 1 }] }],
      listen: { host: '127.0.0.1', port: 1 },
    })
    expect([answer.status, answer.body]).toEqual([
      200,
      {
        success: true,
        message:
          'Applied: providers.second, models. Restart the daemon to apply: listen. The earlier values stay in force until then.',
        reload: { changed: ['providers.second', 'models'], needsRestart: ['listen'] },
      },
    ])
    expect((await gateway.chat({ prompt: 'hi', model: 'fast' })).body.metadata.served_model).toBe('second/m')
    expect(gateway.upstream.requests.at(-1)?.headers.authorization).toBe('Bearer sk-second-secret-key')
    const { models } = (await gateway.call('GET', '/api/external/models')).body
    expect(models.map(({ id }: { id: string }) => id)).toContain('second/*')
    expect((await recordedChanges(gateway.app.db)).at(-1)).toMatchObject({
      ...{ type: 'configuration_management', operation: 'reload', actor: 'key', endpoint: `POST ${RELOAD}` },
      metadata: { changed: ['providers.second', 'models'], needs_restart: ['listen'] },
    })

    const [provider] = own(gateway).slice(-1)
    await reload(gateway, { providers: [{ ...provider, prices: { '*': { input: 10, output: 20 } } } as never] })
    expect((await gateway.chat({ prompt: 'hi', model: 'second/m' })).status).toBe(400)
    await gateway.chat({ prompt: 'hi' })
    const bills = await gateway.usage()
    expect(bills.at(-1)?.cost_nanos).toBe(210_000)
  })

  test('with an invalid configuration changes nothing, and names the file, the line and the fault', async () => {
    const gateway = await startGateway({ engine })
    const before = (await recordedChanges(gateway.app.db)).length
    gateway.onReload(() => new ConfigFaults(['/srv/aigw.yaml:3: lisen: unknown key; did you mean "listen"?']))
    const { status, body } = await gateway.call('POST', RELOAD)
    expect([status, body.error.code]).toEqual([422, 'CONFIG_INVALID'])
    expect(body.error.message).toContain('nothing was changed')
    expect(body.error.message).toContain('/srv/aigw.yaml:3: lisen: unknown key; did you mean "listen"?')
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
    expect(await recordedChanges(gateway.app.db)).toHaveLength(before)
    await gateway.app.reload()
    expect(gateway.log.at(-1)).toMatchObject({ level: 'error', message: expect.stringContaining('was not reloaded') })
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
  })

  test('by a signal is recorded as a change of the operator, and only if something has changed', async () => {
    const gateway = await startGateway({ engine })
    const before = (await recordedChanges(gateway.app.db)).length
    await gateway.app.reload()
    expect(await recordedChanges(gateway.app.db)).toHaveLength(before)
    gateway.onReload(() => ({ ...gateway.config, defaultModel: 'test/any' }))
    await gateway.app.reload()
    expect((await recordedChanges(gateway.app.db)).at(-1)).toMatchObject({
      ...{ operation: 'reload', actor: 'operator', user_id: null, key_id: null, endpoint: 'SIGHUP' },
      metadata: { changed: ['default_model'], needs_restart: [] },
    })
    const verified = await gateway.call('GET', '/api/external/transparency/chain-integrity')
    expect(verified.status).toBe(200)
  })
})

describe('a running request', () => {
  test('keeps its provider, its prices and its stream when a reload removes the provider', async () => {
    const gateway = await startGateway()
    const held = deferred()
    const frames = chatStream(['Hel', 'lo'], { usage: { prompt_tokens: 11, completion_tokens: 5 } }).split(/(?<=\n\n)/)
    gateway.upstream.script(replySteps([...frames.slice(0, 2), held.promise, ...frames.slice(2)]))
    const stream = await gateway.openStream({ prompt: 'hi' })
    let text = String((await stream.next()).value)
    expect((await reload(gateway, { providers: [] })).body.reload.changed).toEqual(['providers.test'])
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(400)
    held.resolve()
    for (let piece = await stream.next(); !piece.done; piece = await stream.next()) text += String(piece.value)
    expect(toFrames(text)).toMatchObject({ done: true })
    expect((await gateway.usage()).at(-1)?.cost_nanos).toBe(21_000)
  })

  test('fails over to a provider that a reload has removed in the meantime', async () => {
    const gateway = await startGateway({ failover: { sameModelRetries: 0 } })
    const second = await startUpstream()
    second.fallback(replyJson(chatJson('From the second.', { usage: { prompt_tokens: 1, completion_tokens: 1 } })))
    await reload(gateway, { providers: [...own(gateway), upstreamProvider('second', second.url)] })
    const held = deferred()
    gateway.upstream.script(async (exchange) => {
      await held.promise
      await replyJson({ error: { message: 'no' } }, { status: 500 })(exchange)
    })
    const answer = gateway.chat({ prompt: 'hi', model: 'test/a', fallback_models: ['second/b'] } as never)
    await gateway.upstream.nextRequest()
    expect((await reload(gateway, { providers: own(gateway) })).body.reload.changed).toEqual(['providers.second'])
    held.resolve()
    expect((await answer).body).toMatchObject({ metadata: { served_model: 'second/b' } })
    await gateway.close()
    await second.close()
  })

  test('never fails while the configuration is reloaded 50 times', async () => {
    const gateway = await startGateway()
    const servers = [gateway.upstream, await startUpstream()]
    servers[1]?.fallback(replyJson(chatJson('Hello', { usage: { prompt_tokens: 1, completion_tokens: 1 } })))
    let isOver = false
    const statuses: number[] = []
    const load = Array.from({ length: 8 }, async () => {
      while (!isOver) statuses.push((await gateway.chat({ prompt: 'hi' })).status)
    })
    for (let nth = 1; nth <= 50; nth++) {
      const moved = { ...upstreamProvider('test', servers[nth % 2]?.url ?? ''), apiKey: `sk-upstream-number-${nth}` }
      expect((await reload(gateway, { providers: [moved] })).body.reload.changed).toEqual(['providers.test'])
    }
    isOver = true
    await Promise.all(load)
    expect(statuses.length).toBeGreaterThan(50)
    expect(new Set(statuses)).toEqual(new Set([200]))
    await gateway.close()
    await servers[1]?.close()
  })
})

describe('state that a reload keeps', () => {
  test('an unchanged provider keeps its connections and its circuit; a provider with a new key starts anew', async () => {
    const gateway = await startGateway()
    await gateway.chat({ prompt: 'hi' })
    const opened = gateway.upstream.connections()
    await reload(gateway, { defaultModel: 'test/any' })
    await gateway.chat({ prompt: 'hi' })
    expect(gateway.upstream.connections()).toBe(opened)

    for (let nth = 0; nth < CIRCUIT_FAILURES; nth++) {
      gateway.upstream.script(replyJson({ error: { message: 'no' } }, { status: 500 }))
      await gateway.chat({ prompt: 'hi' })
    }
    const skipped = async () => {
      const { body } = await gateway.chat({ prompt: 'hi', fallback_models: ['local/extract'] } as never)
      return body.metadata.served_model
    }
    await reload(gateway, { limits: { ...DEFAULT_LIMITS, tools: 3 } })
    expect(await skipped()).toBe('local/extract')
    const [provider] = own(gateway)
    await reload(gateway, { providers: [{ ...provider, apiKey: 'sk-another-secret-key' } as never] })
    expect(await skipped()).toBe('test/any')
  })

  test('limits of running requests stay in force', async () => {
    const gateway = await startGateway({ concurrency: { perKey: 1, waitingPerKey: 0 } })
    const { db } = gateway.app
    const tenant = await addTenant(db)
    const owner = await addUser(db, { tenant_id: tenant.id })
    const { secret: key } = await addKey(db, { tenant_id: tenant.id, id: owner.id })
    const held = deferred()
    gateway.upstream.script(async (exchange) => {
      await held.promise
      await replyRaw('')(exchange)
    })
    const first = gateway.chat({ prompt: 'hi' }, { key })
    await gateway.upstream.nextRequest()
    await reload(gateway, { defaultModel: 'test/any' })
    expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(503)
    await reload(gateway, { concurrency: { ...DEFAULT_CONCURRENCY, perKey: 2 } })
    expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(200)
    held.resolve()
    await first
  })
})

test('limits, points, licences, origins and the answer cache follow a reload', async () => {
  const gateway = await startGateway()
  const origin = { headers: { origin: 'https://app.example.com' } }
  expect(
    (await gateway.call('GET', '/livez', undefined, origin)).headers['access-control-allow-origin'],
  ).toBeUndefined()
  const { body } = await reload(gateway, {
    limits: { ...DEFAULT_LIMITS, messages: 1, bodyMemoryBytes: 70_000_000 },
    points: { Essential: 7 },
    licenses: { ...gateway.config.licenses, Growth: 5 },
    cors: { origins: ['https://app.example.com'] },
    cache: { enabled: true, ttlMs: 60_000, maxBytes: 1_048_576 },
  })
  expect(body.reload).toEqual({ changed: ['limits', 'points', 'licenses', 'cache', 'cors'], needsRestart: [] })
  const seen = await gateway.call('GET', '/livez', undefined, origin)
  expect(seen.headers['access-control-allow-origin']).toBe('https://app.example.com')
  const messages = [
    { role: 'user', content: 'a' },
    { role: 'user', content: 'b' },
  ]
  const refused = await gateway.call('POST', '/v1/chat/completions', { model: 'test/any', messages })
  expect([refused.status, refused.body.error.message]).toEqual([400, expect.stringContaining('at most 1')])
  expect((await gateway.call('GET', '/api/admin/cache')).body.cache).toMatchObject({ enabled: true, ttlSeconds: 60 })
})

test('only the operator reloads', async () => {
  const gateway = await startGateway()
  const tenant = await addTenant(gateway.app.db)
  const owner = await addUser(gateway.app.db, { tenant_id: tenant.id, role: 'admin' })
  const { secret: key } = await addKey(gateway.app.db, { tenant_id: tenant.id, id: owner.id })
  expect((await gateway.call('POST', RELOAD, undefined, { key })).status).toBe(403)
})
