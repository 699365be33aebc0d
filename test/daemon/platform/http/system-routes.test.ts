import { readFile } from 'node:fs/promises'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'vitest'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway, startGateway } from '../../../harness.ts'

describeEachEngine('probes', (engine) => {
  test('/livez, /readyz and /health need no key and report the real state', async () => {
    const gateway = await startGateway({ engine })
    const probe = async (path: string) => {
      const { status, body } = await gateway.call('GET', path, undefined, { key: null })
      return [status, body]
    }
    expect(await probe('/livez')).toEqual([200, { status: 'ok' }])
    expect(await probe('/readyz')).toEqual([
      200,
      {
        status: 'ready',
        checks: {
          ...{ store: true, migrations: true, master_key: true, accepting: true, evidence: true, secrets: true },
        },
      },
    ])
    expect(await probe('/api/external/health')).toEqual([
      200,
      { success: true, status: 'healthy', timestamp: expect.stringMatching(/^\d{4}-.*Z$/), version: '1.1.0' },
    ])
    // During a store outage readiness fails and liveness does not.
    await gateway.app.db.schema.dropTable('kysely_migration').execute()
    expect((await probe('/readyz'))[0]).toBe(503)
    expect((await probe('/api/external/health'))[0]).toBe(503)
    expect((await probe('/livez'))[0]).toBe(200)
  })
})

describe('the description of the interface', () => {
  const gateway = sharedGateway()

  test('/openapi.json lists every route, and docs/openapi.json is the same', async () => {
    const { body } = await gateway.current.call('GET', '/openapi.json', undefined, { key: null })
    const described = Object.entries(body.paths).flatMap(([path, methods]) =>
      Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`),
    )
    const routes = gateway.current.app.routes.map(({ method, path }) => `${method} ${path}`)
    // The routes below /v1 and /v1beta have a short path too.
    const short = routes
      .filter((route) => route.includes(' /api/external/v1'))
      .map((route) => route.replace('/api/external', ''))
    expect(described.sort()).toEqual([...routes, ...short].sort())
    const committed = await readFile(new URL('../../../../docs/openapi.json', import.meta.url), 'utf8')
    expect(JSON.parse(committed), 'run `npm run openapi` and commit the result').toEqual(body)
  })

  test('it lists the Idempotency-Key of exactly the routes that accept one', async () => {
    const { call } = gateway.current
    const { body: api } = await call('GET', '/openapi.json')
    const page = await readFile(new URL('../../../../docs/idempotency.md', import.meta.url), 'utf8')
    const described: string[] = []
    for (const { method, path } of gateway.current.app.routes) {
      const { parameters = [] } = api.paths[path][method.toLowerCase()]
      const header = parameters.find(({ name }: { name: string }) => name === 'Idempotency-Key')
      if (header === undefined) continue
      described.push(path)
      expect(header).toMatchObject({
        name: 'Idempotency-Key',
        schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x21-\\x7e]+$' },
      })
      expect(header.required ?? false).toBe(false)
      const short = path.replace('/api/external/v1', '/v1')
      expect(page).toContain(short.startsWith('/v1beta/') ? 'the routes below `/v1beta`' : `${short}\``)
    }
    expect(described).toHaveLength(14)
    // The description matches the behaviour: one more character is rejected, and so is any other value.
    const bodies: Record<string, object> = {
      '/api/external/chat/completions': { prompt: 'hi', model: 'test/any', index: 'Zero-Knowledge' },
      '/api/external/v1/embeddings': { input: 'hi', model: 'test/any' },
      '/api/external/v1/responses': { input: 'hi', model: 'test/any' },
      '/api/external/v1/completions': { prompt: 'hi', model: 'test/any' },
      '/api/external/v1/moderations': { input: 'hi', model: 'test/any' },
      '/api/external/v1/rerank': { query: 'hi', documents: ['ho'], model: 'test/any' },
    }
    const part = { parts: [{ text: 'hi' }] }
    for (const path of described) {
      if (!path.includes('/v1beta/')) continue
      bodies[path] = path.endsWith(':embedContent')
        ? { content: part }
        : path.endsWith(':batchEmbedContents')
          ? { requests: [{ content: part }] }
          : { contents: [part] }
    }
    const spoken = { messages: [{ role: 'user', content: 'hi' }], model: 'test/any', max_tokens: 5 }
    for (const path of described) {
      for (const key of ['k'.repeat(256), 'a b']) {
        const { status, text } = await call('POST', path.replace('{model}', 'test/any'), bodies[path] ?? spoken, {
          headers: { 'idempotency-key': key },
        })
        expect([path, status, text]).toEqual([path, 400, expect.stringContaining('Idempotency-Key')])
      }
    }
  })

  test('its schemas accept the responses of the gateway', async () => {
    const { body: api } = await gateway.current.call('GET', '/openapi.json')
    const ajv = new Ajv2020({ strict: false, validateFormats: false })
    ajv.addSchema(api, 'api')
    const check = async (path: string, status: number, answer: unknown) => {
      const pointer = path.replaceAll('~', '~0').replaceAll('/', '~1')
      const method = path === '/api/external/chat/completions' ? 'post' : 'get'
      const validate = ajv.compile({
        $ref: `api#/paths/${pointer}/${method}/responses/${status}/content/application~1json/schema`,
      })
      expect(validate(answer), JSON.stringify(validate.errors)).toBe(true)
      expect(validate({ success: 'no' })).toBe(false)
    }
    const chat = await gateway.current.chat({ prompt: 'hi' })
    await check('/api/external/chat/completions', 200, chat.body)
    const refused = await gateway.current.chat({ prompt: 7 })
    await check('/api/external/chat/completions', 400, refused.body)
    const who = await gateway.current.call('GET', '/api/external/whoami')
    await check('/api/external/whoami', 200, who.body)
    const ready = await gateway.current.call('GET', '/readyz')
    await check('/readyz', 200, ready.body)
  })
})

describe('a key', () => {
  const gateway = sharedGateway()

  test('acts for its owner', async () => {
    const { status, body } = await gateway.current.call('GET', '/api/external/whoami')
    expect(status).toBe(200)
    expect(body).toMatchObject({
      success: true,
      user: { role: 'admin' },
      tenant: { name: 'default' },
      api_key: { operator: true },
    })
  })

  test.each([
    ['an unknown one', `sk-${'0'.repeat(64)}`],
    ['SQL', "' OR 1=1 --"],
    ['nothing after Bearer', ''],
  ])('that is %s gets 401 on every protected route', async (_what, key) => {
    for (const { method, path, access } of gateway.current.app.routes) {
      if (access === 'none') continue
      const { status, body } = await gateway.current.call(method, path.replace(/\{\w+\}/g, 'x'), undefined, { key })
      expect([path, status]).toEqual([path, 401])
      expect(body.error.status ?? body.error.code ?? body.error.type ?? body.error).toMatch(
        /^(UNAUTHORIZED|UNAUTHENTICATED|Invalid API key|invalid_api_key)$/,
      )
    }
  })
})
