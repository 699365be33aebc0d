import OpenAI from 'openai'
import { expect, test } from 'vitest'
import { addKey, addUser } from '../../../../accounts.ts'
import { sharedGateway, upstreamProvider } from '../../../../harness.ts'

/** It receives no request. */
const NOWHERE = 'http://127.0.0.1:1/v1'
const shared = sharedGateway({
  providers: [upstreamProvider('open', NOWHERE), upstreamProvider('closed', NOWHERE, ['a/b', 'c'])],
})

const get = (path: string, key?: string) =>
  shared.current.call('GET', path, undefined, key === undefined ? {} : { key })
const model = (id: string) => ({ id, object: 'model', created: expect.any(Number), owned_by: id.split('/')[0] })

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
  expect(await client.models.retrieve('closed/a/b')).toEqual(model('closed/a/b'))
  await expect(client.models.retrieve('closed/d')).rejects.toMatchObject({
    constructor: OpenAI.NotFoundError,
    status: 404,
    code: 'model_not_found',
    type: 'invalid_request_error',
  })
})

test("each model in a key's list can be retrieved", async () => {
  const narrow = { allowedModels: ['open/*', 'closed/c'] }
  for (const key of [shared.current.adminKey, await keyWith(narrow), await keyWith({ allowedModels: ['open/one'] })]) {
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
