import { describe, expect, test } from 'vitest'
import { openConfiguration } from '../../../src/daemon/control/configuration.ts'
import { sealSettings } from '../../../src/daemon/control/provider-store.ts'
import { createMasterKey } from '../../../src/daemon/platform/secrets/seal.ts'
import { STORED_PROVIDERS_LOOK_MS } from '../../../src/shared/spec-limits.ts'
import { addKey, addTenant, addUser } from '../../accounts.ts'
import { describeEachEngine, postgresEngine } from '../../engines.ts'
import { createFakeClock } from '../../fake-clock.ts'
import { type Gateway, startGateway, upstreamProvider } from '../../harness.ts'
import { recordedChanges } from '../../recorded-changes.ts'
import { secretWatch } from '../../secret-watch.ts'
import { chatJson, replyJson } from '../../upstream.ts'

const silent = { info() {}, warn() {}, error() {} } as never
const PROVIDERS = '/api/admin/providers'
const SECRET = 'sk-of-the-house-4f1d2c3b'

const add = (gateway: Gateway, more: object = {}) => {
  secretWatch.addSecret('the key of a stored provider', SECRET)
  return gateway.call('POST', PROVIDERS, { name: 'house', base_url: gateway.upstream.url, api_key: SECRET, ...more })
}

describeEachEngine('a provider of the store', (engine) => {
  test('is callable at once and after a restart; its secrets are neither shown nor stored readable', async () => {
    const gateway = await startGateway({ engine })
    const added = await add(gateway, { models: ['small'], headers: { 'X-Team': 'a-team-token-81c2' }, region: 'eu' })
    expect([added.status, added.body.provider]).toMatchObject([
      201,
      {
        ...{ id: 'house', name: 'house', source: 'store', inUse: true, problem: null, kind: 'openai' },
        ...{ base_url: gateway.upstream.url, models: ['small'], region: 'eu', secrets: ['api_key', 'headers.X-Team'] },
      },
    ])
    expect(added.text).not.toContain(SECRET)
    const served = async () => (await gateway.chat({ prompt: 'hi', model: 'house/small' })).body.metadata?.served_model
    expect(await served()).toBe('house/small')
    expect(gateway.upstream.requests.at(-1)?.headers).toMatchObject({
      authorization: `Bearer ${SECRET}`,
      'x-team': 'a-team-token-81c2',
    })
    expect((await recordedChanges(gateway.app.db)).at(-1)).toMatchObject({
      ...{ type: 'configuration_management', operation: 'create', resource_type: 'provider', resource_id: 'house' },
      metadata: { members: ['api_key', 'base_url', 'headers', 'models', 'region'] },
    })
    await gateway.restart()
    expect(await served()).toBe('house/small')
    const { body } = await gateway.call('GET', PROVIDERS)
    expect(body.providers.map(({ name, source }: { name: string; source: string }) => `${name} ${source}`)).toEqual([
      'test file',
      'house store',
    ])
    expect(JSON.stringify(body)).not.toContain(SECRET)
  })

  test('is changed and removed at once; null removes a member', async () => {
    const gateway = await startGateway({ engine })
    await add(gateway, { models: ['small'], region: 'eu' })
    const changed = await gateway.call('PUT', `${PROVIDERS}/house`, { models: ['large'], region: null })
    expect([changed.status, changed.body.provider]).toMatchObject([
      200,
      { models: ['large'], region: null, secrets: ['api_key'] },
    ])
    expect((await gateway.chat({ prompt: 'hi', model: 'house/small' })).status).toBe(400)
    expect((await gateway.chat({ prompt: 'hi', model: 'house/large' })).status).toBe(200)
    expect((await gateway.call('DELETE', `${PROVIDERS}/house`)).status).toBe(200)
    expect((await gateway.chat({ prompt: 'hi', model: 'house/large' })).status).toBe(400)
    expect((await gateway.call('GET', `${PROVIDERS}/house`)).body.error.code).toBe('PROVIDER_NOT_FOUND')
    expect((await gateway.call('DELETE', `${PROVIDERS}/house`)).status).toBe(404)
    expect((await recordedChanges(gateway.app.db)).slice(-2)).toMatchObject([
      { operation: 'update', metadata: { members: ['models', 'region'] } },
      { operation: 'delete', metadata: {} },
    ])
  })

  test('cannot take a name of the configuration; a reload that defines its name takes precedence', async () => {
    const gateway = await startGateway({ engine })
    const taken = await add(gateway, { name: 'test' })
    expect([taken.status, taken.body.error.code]).toEqual([409, 'PROVIDER_IN_FILE'])
    for (const method of ['PUT', 'DELETE']) {
      const refused = await gateway.call(method, `${PROVIDERS}/test`, method === 'PUT' ? { region: 'eu' } : undefined)
      expect([refused.status, refused.body.error.code]).toEqual([409, 'PROVIDER_IN_FILE'])
    }
    await add(gateway)
    expect((await add(gateway)).body.error.code).toBe('PROVIDER_NAME_EXISTS')
    const inFile = { ...upstreamProvider('house', gateway.upstream.url), apiKey: 'sk-of-the-file-77aa66' }
    gateway.onReload(() => ({ ...gateway.config, providers: [...gateway.config.providers, inFile] }))
    await gateway.call('POST', '/api/admin/config/reload')
    await gateway.chat({ prompt: 'hi', model: 'house/m' })
    expect(gateway.upstream.requests.at(-1)?.headers.authorization).toBe('Bearer sk-of-the-file-77aa66')
    expect(gateway.log.map(({ message }) => message)).toContainEqual(
      expect.stringContaining('a provider of the store, and takes precedence'),
    )
    const { providers } = (await gateway.call('GET', PROVIDERS)).body
    expect(providers).toMatchObject([
      { name: 'test' },
      { name: 'house', source: 'file', inUse: true },
      { name: 'house', source: 'store', inUse: false, problem: expect.stringContaining('takes precedence') },
    ])
    expect((await gateway.call('DELETE', `${PROVIDERS}/house`)).status).toBe(200)
  })

  test('is refused with the member and the remedy if its settings are invalid', async () => {
    const gateway = await startGateway({ engine })
    for (const [settings, field, message] of [
      [{ name: 'House' }, 'name', 'must be a name of a-z'],
      [{ name: 'local' }, 'name', 'built-in'],
      [{ name: 'x', base_url: 'ftp://x' }, 'base_url', 'is not an http or https URL'],
      [{ name: 'x', base_url: undefined }, 'base_url', 'is missing'],
      [{ name: 'openai', base_url: undefined, api_key: undefined }, 'api_key', 'is missing; set it here'],
      [{ name: 'x', kind: 'opnai' }, 'kind', 'did you mean "openai"?'],
      [{ name: 'x', api_key: { file: '/etc/passwd' } }, 'api_key', 'must be a string'],
      [{ name: 'x', prices: { '*': { input: -1, output: 1 } } }, 'prices.*.input', 'must not be negative'],
    ] as const) {
      const { status, body } = await add(gateway, settings)
      expect([status, body.error.details?.field, body.error.message]).toEqual([
        400,
        field,
        expect.stringContaining(message),
      ])
      expect(body.error.message).not.toContain('environment')
    }
  })

  test('sends its secrets to no other address', async () => {
    const gateway = await startGateway({ engine })
    await add(gateway)
    const moved = await gateway.call('PUT', `${PROVIDERS}/house`, { base_url: 'http://127.0.0.1:9/v1' })
    expect([moved.status, moved.body.error.message]).toEqual([400, expect.stringContaining('send api_key again')])
    const given = { base_url: 'http://127.0.0.1:9/v1', api_key: 'sk-of-the-new-address' }
    expect((await gateway.call('PUT', `${PROVIDERS}/house`, given)).status).toBe(200)
  })
})

describe('a test of a provider', () => {
  test('makes one small call and tells its time, or the fault in plain words', async () => {
    const gateway = await startGateway()
    await add(gateway, { models: ['small'] })
    const test = (body?: object) => gateway.call('POST', `${PROVIDERS}/house/test`, body)
    expect((await test()).body.test).toMatchObject({ provider: 'house', model: 'small', ok: true, reason: null })
    expect(gateway.upstream.requests).toHaveLength(1)
    gateway.upstream.script(replyJson({ error: { message: `Incorrect API key: ${SECRET}` } }, { status: 401 }))
    const { text, body } = await test()
    expect(body.test).toMatchObject({ ok: false, reason: 'auth_failed', message: expect.stringContaining('api_key') })
    expect(text).not.toContain(SECRET)
    expect((await test({ model: 'other' })).status).toBe(400)
    await add(gateway, { name: 'open' })
    const unnamed = await gateway.call('POST', `${PROVIDERS}/open/test`)
    expect([unnamed.status, unnamed.body.error.message]).toEqual([400, expect.stringContaining('lists no models')])
    expect((await gateway.call('POST', `${PROVIDERS}/none/test`)).status).toBe(404)
    expect(await gateway.usage()).toEqual([])
  })
})

test('another daemon of the same store learns of a change within two seconds', async () => {
  const clock = createFakeClock()
  const gateway = await startGateway({ engine: postgresEngine, clock })
  const other = await startGateway({ engine: postgresEngine, clock, beside: gateway })
  await add(gateway)
  expect(STORED_PROVIDERS_LOOK_MS).toBeLessThan(2_000)
  const status = async () => (await other.chat({ prompt: 'hi', model: 'house/m' })).status
  expect(await status()).toBe(400)
  clock.advance(STORED_PROVIDERS_LOOK_MS)
  while ((await status()) !== 200);
  await gateway.call('DELETE', `${PROVIDERS}/house`)
  clock.advance(STORED_PROVIDERS_LOOK_MS)
  while ((await status()) !== 400);
  await other.close()
})

test('that is sealed with a key which this daemon does not know yet stays as it was until the key is known', async () => {
  const { db, close } = await postgresEngine.open()
  const [mine, theirs] = ['a'.repeat(64), 'b'.repeat(64)]
  const masterKey = createMasterKey(mine)
  const row = (key: string, base_url: string) => ({
    ...{ name: 'house', created_at: '2026-01-01T00:00:00.000Z', updated_at: '2026-01-01T00:00:00.000Z' },
    sealed: sealSettings(createMasterKey(key), 'house', { base_url }),
  })
  await db.insertInto('stored_providers').values(row(mine, 'http://127.0.0.1:1')).execute()
  const config = { providers: [] } as never
  const deps = { db, masterKey, clock: createFakeClock(), log: silent, loadConfig: undefined }
  const configuration = await openConfiguration(config, deps)
  const addresses = () => configuration.current().providers.map((one) => 'baseUrl' in one && String(one.baseUrl))
  const [before] = addresses()
  const changed = row(theirs, 'http://127.0.0.1:2')
  await db.updateTable('stored_providers').set({ sealed: changed.sealed }).execute()
  for (let look = 0; look < 2; look++) {
    await configuration.refresh()
    expect(addresses()).toEqual([before])
    expect(configuration.stored()).toMatchObject([{ isLocked: true }])
  }
  masterKey.accept(theirs)
  await configuration.refresh()
  expect(addresses()).toEqual([expect.stringContaining(':2')])
  expect(configuration.stored()).toMatchObject([{ problem: undefined }])
  await configuration.close()
  await close()
})

test('only the operator sees and changes providers', async () => {
  const gateway = await startGateway()
  gateway.upstream.fallback(replyJson(chatJson('Hello')))
  const tenant = await addTenant(gateway.app.db)
  const owner = await addUser(gateway.app.db, { tenant_id: tenant.id, role: 'admin' })
  const { secret: key } = await addKey(gateway.app.db, { tenant_id: tenant.id, id: owner.id })
  expect((await gateway.call('GET', PROVIDERS, undefined, { key })).status).toBe(403)
  const refused = await gateway.call('POST', PROVIDERS, { name: 'x', base_url: gateway.upstream.url }, { key })
  expect(refused.status).toBe(403)
})
