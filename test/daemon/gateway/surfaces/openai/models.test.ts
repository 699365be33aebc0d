import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { expect, test } from 'vitest'
import { addKey, addUser } from '../../../../accounts.ts'
import { sharedGateway, upstreamProvider } from '../../../../harness.ts'

/** It receives no request. */
const NOWHERE = 'http://127.0.0.1:1/v1'
const target = (modelId: string) => ({ modelId, weight: 1, priority: 1 })
const shared = sharedGateway({
  providers: [
    upstreamProvider('open', NOWHERE),
    upstreamProvider('closed', NOWHERE, ['a/b', 'c']),
    { ...upstreamProvider('anthropic', NOWHERE), kind: 'anthropic', prices: undefined },
    { ...upstreamProvider('cheap', NOWHERE, ['claude-sonnet-4-5']), prices: { '*': { input: 4, output: 1 } } },
  ],
  models: [
    { name: 'smart', targets: [target('anthropic/claude-sonnet-4-5'), target('cheap/claude-sonnet-4-5')] },
    { name: 'c-only', targets: [target('closed/c')] },
  ],
})

const get = (path: string, key?: string) =>
  shared.current.call('GET', path, undefined, key === undefined ? {} : { key })
const model = (id: string) => ({ id, object: 'model', created: expect.any(Number), owned_by: id.split('/')[0] })
const idsIn = ({ body }: { body: { data: { id: string }[] } }) => body.data.map(({ id }) => id)

/** A key of a user in the tenant of the gateway. */
async function keyWith(settings: object): Promise<string> {
  const { db } = shared.current.app
  const { tenant_id } = await db.selectFrom('api_keys').select('tenant_id').executeTakeFirstOrThrow()
  return (await addKey(db, await addUser(db, { tenant_id }), { settings })).secret
}

test.each(['open/any', 'closed/a/b', 'closed/c', 'local/extract', 'open/a//b', 'open/a b', 'open/ü'])(
  '%s is found by its id, with its slashes escaped or not',
  async (id) => {
    const escaped = [encodeURIComponent(id), encodeURI(id)]
    for (const path of escaped.flatMap((one) => [`/v1/models/${one}`, `/api/external/v1/models/${one}`])) {
      expect(await get(path)).toMatchObject({ status: 200, body: model(id) })
    }
  },
)

test("OpenAI's own client finds a model, and gets its usual error for a missing one", async () => {
  const client = new OpenAI({ apiKey: shared.current.adminKey, baseURL: `${shared.current.url}/v1`, maxRetries: 0 })
  expect(await client.models.retrieve('closed/a/b')).toMatchObject(model('closed/a/b'))
  await expect(client.models.retrieve('closed/d')).rejects.toMatchObject({
    constructor: OpenAI.NotFoundError,
    status: 404,
    code: 'model_not_found',
    type: 'invalid_request_error',
  })
})

test("each model in a key's list can be retrieved", async () => {
  const narrow = { allowedModels: ['open/*', 'closed/c'] }
  const keys = [
    await keyWith(narrow),
    await keyWith({ allowedModels: ['open/one'] }),
    await keyWith({ allowedModels: ['smart'] }),
  ]
  for (const key of [shared.current.adminKey, ...keys]) {
    const { data } = (await get('/v1/models', key)).body as { data: { id: string }[] }
    expect(data).not.toEqual([])
    for (const one of data) expect((await get(`/v1/models/${one.id}`, key)).body).toEqual(one)
  }
})

test('a model that the key or its policy forbids looks like a missing one', async () => {
  const policy = { name: 'only-c', description: '', policy: { version: 1, allowedModels: ['closed/c'] } }
  expect((await shared.current.call('POST', '/api/external/smltp-policies', policy)).status).toBe(201)
  const keys = [await keyWith({ allowedModels: ['closed/c'] }), await keyWith({ defaultSMLTPPolicy: 'only-c' })]
  for (const key of keys) {
    expect((await get('/v1/models/closed/c', key)).status).toBe(200)
    for (const id of ['closed/a/b', 'open/any', 'closed/nothing', 'nobody/any', 'closed', '*', 'open/*', 'open/']) {
      expect(await get(`/v1/models/${id}`, key)).toMatchObject({
        status: 404,
        body: {
          error: {
            message: `The model "${id}" does not exist, or this key may not use it.`,
            type: 'invalid_request_error',
            code: 'model_not_found',
          },
        },
      })
    }
  }
})

test("an invalid model id is an error in OpenAI's format too", async () => {
  const type = 'invalid_request_error'
  const long = await get(`/v1/models/closed/${'x'.repeat(5_000)}`)
  expect(long).toMatchObject({ status: 404, body: { error: { code: 'model_not_found', type } } })
  expect(long.text.length).toBeLessThan(500)
  expect(await get('/v1/models/a%00b')).toMatchObject({ status: 400, body: { error: { type } } })
  expect(await get('/v1/models/')).toMatchObject({ status: 404, body: { error: { type } } })
  const deleted = await shared.current.call('DELETE', '/v1/models/closed/c')
  expect(deleted).toMatchObject({ status: 405, headers: { allow: 'GET' }, body: { error: { type } } })
})

test('the list has names, listed models and known models of open providers, and never a pattern', async () => {
  const ids = idsIn(await get('/v1/models'))
  expect(ids.slice(0, 3)).toEqual(['smart', 'c-only', 'local/extract'])
  for (const id of ['closed/a/b', 'closed/c', 'anthropic/claude-sonnet-4-5']) expect(ids).toContain(id)
  expect(ids.filter((id) => id.includes('*'))).toEqual([])
  expect(new Set(ids).size).toBe(ids.length)
  expect((await get('/v1/models/open/*')).status).toBe(404)
})

test('a key sees the names that it may use', async () => {
  expect(idsIn(await get('/v1/models', await keyWith({ allowedModels: ['smart'] })))).toEqual(['smart'])
  expect(idsIn(await get('/v1/models', await keyWith({ allowedModels: ['closed/c'] })))).toEqual(['c-only', 'closed/c'])
  const policy = { name: 'only-cheap', description: '', policy: { version: 1, allowedProviders: ['cheap'] } }
  expect((await shared.current.call('POST', '/api/external/smltp-policies', policy)).status).toBe(201)
  const key = await keyWith({ defaultSMLTPPolicy: 'only-cheap' })
  expect(idsIn(await get('/v1/models', key))).toEqual(['smart', 'cheap/claude-sonnet-4-5'])
  expect((await get('/v1/models/c-only', key)).status).toBe(404)
})

test('a model shows its limits, modalities and prices; a name shows what holds for all its models', async () => {
  const { body } = await get('/v1/models/anthropic/claude-sonnet-4-5')
  const limits = {
    context_length: 200_000,
    max_output_tokens: 64_000,
    modalities: { input: ['text', 'image', 'pdf'], output: ['text'] },
  }
  const list = { input: 3, output: 15, cache_read: 0.3, cache_write: 3.75, cache_write_1h: 6, points: 2 }
  expect(body).toMatchObject({ ...limits, prices: list })
  const { body: name } = await get('/v1/models/smart')
  expect(name).toMatchObject({ id: 'smart', owned_by: 'gateway', ...limits })
  expect(name.prices).toMatchObject({ input: 4, output: 15, cache_read: 4 })
  const plain = await get('/v1/models/claude-sonnet-4-5')
  expect(plain.status).toBe(404)
  expect((await get('/v1/models/a/b')).status).toBe(404)
})

test("Anthropic's own client lists the models and retrieves one", async () => {
  const client = new Anthropic({ apiKey: shared.current.adminKey, baseURL: shared.current.url, maxRetries: 0 })
  const ids: string[] = []
  for await (const { id } of client.models.list()) ids.push(id)
  expect(ids).toEqual(idsIn(await get('/v1/models')))
  expect(await client.models.retrieve('smart')).toMatchObject({
    type: 'model',
    id: 'smart',
    display_name: 'smart',
    created_at: expect.stringMatching(/^\d{4}-/),
    max_input_tokens: 200_000,
    max_tokens: 64_000,
  })
})
