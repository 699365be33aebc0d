import { expect, test } from 'vitest'
import { addKey, addUser } from '../../accounts.ts'
import { sharedGateway } from '../../harness.ts'
import { replyJson } from '../../upstream.ts'

const PATH = '/v1/embeddings'
const shared = sharedGateway()
const post = (body: object, options = {}) =>
  shared.current.call('POST', PATH, { model: 'test/small', ...body }, options)
const vectors = (...embeddings: number[][]) =>
  replyJson({
    data: embeddings.map((embedding, index) => ({ object: 'embedding', index, embedding })),
    usage: { prompt_tokens: 6, total_tokens: 6 },
  })

test('one vector for each text, in their order, billed as a usage row', async () => {
  shared.current.upstream.script(vectors([0.5, -0.25], [1, 2]))
  const { status, headers, body } = await post({ input: ['one', 'two'], dimensions: 2, user: 'u-1' })
  expect([status, body]).toEqual([
    200,
    {
      object: 'list',
      data: [
        { object: 'embedding', index: 0, embedding: [0.5, -0.25] },
        { object: 'embedding', index: 1, embedding: [1, 2] },
      ],
      model: 'test/small',
      usage: { prompt_tokens: 6, total_tokens: 6 },
    },
  ])
  expect(shared.current.upstream.requests.at(-1)).toMatchObject({
    path: '/v1/embeddings',
    body: { model: 'small', input: ['one', 'two'], dimensions: 2, user: 'u-1' },
  })
  const [row] = (await shared.current.usage()).filter(({ request_id }) => request_id === headers['x-request-id'])
  expect(row).toMatchObject({
    route: '/api/external/v1/embeddings',
    served_model: 'test/small',
    outcome: 'complete',
    input_tokens: 6,
    output_tokens: 0,
    tokens_estimated: 0,
  })
})

test('base64 is 32-bit floats, little-endian', async () => {
  shared.current.upstream.script(vectors([0.5, -0.25]))
  const { body } = await post({ input: 'one', encoding_format: 'base64' })
  const bytes = Buffer.from(body.data[0].embedding, 'base64')
  expect([bytes.length, bytes.readFloatLE(0), bytes.readFloatLE(4)]).toEqual([8, 0.5, -0.25])
})

test('a repeat with its Idempotency-Key is not asked again', async () => {
  shared.current.upstream.script(vectors([0.5]))
  const ask = () => post({ input: 'once' }, { headers: { 'idempotency-key': 'embed-1' } })
  const [first, second] = [await ask(), await ask()]
  expect([second.status, second.text]).toEqual([200, first.text])
  expect(shared.current.upstream.requests.filter(({ rawBody }) => rawBody.includes('"once"'))).toHaveLength(1)
})

test('texts that the provider does not count are counted here', async () => {
  shared.current.upstream.script(replyJson({ data: [{ index: 0, embedding: [1] }] }))
  const { body } = await post({ input: 'some words to be counted' })
  expect(body.usage.prompt_tokens).toBeGreaterThan(0)
})

test.each([
  [{ model: 'local/extract', input: 'x' }, 'embeddings'],
  [{ model: null, input: 'x' }, 'must provide a model'],
  [{ model: 'nowhere/x', input: 'x' }, 'not offered'],
  [{ input: [] }, 'input'],
  [{ input: '' }, 'input'],
  [{ input: [1, 2, 3] }, 'texts'],
  [{ input: Array(2049).fill('x') }, '2048'],
  [{ input: 'x'.repeat(262_145) }, '262144'],
  [{ input: 'x', encoding_format: 'int8' }, 'encoding_format'],
])('what cannot be embedded is a 400: %#', async (body, message) => {
  const answer = await post(body)
  expect([answer.status, answer.body]).toEqual([
    400,
    expect.objectContaining({
      error: { message: expect.stringContaining(message), type: 'invalid_request_error', code: null },
    }),
  ])
})

test("the key's list of models holds, and its fallbacks are not used: their vectors would be others", async () => {
  const { db } = shared.current.app
  const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
  const user = await addUser(db, { tenant_id })
  const settings = {
    allowedModels: ['test/small', 'test/other'],
    failoverDefaults: {
      models: ['test/small', 'test/other'],
      timeout_ms: undefined,
      first_token_timeout_ms: undefined,
      on: undefined,
    },
  }
  const { secret: key } = await addKey(db, user, { settings })
  expect((await post({ model: 'test/any', input: 'x' }, { key })).status).toBe(403)

  shared.current.upstream.script(replyJson({ error: { message: 'down' } }, { status: 500 }))
  const { status, body } = await post({ input: 'x' }, { key })
  expect([status, body.error.code]).toEqual([502, 'all_models_failed'])
  expect(body.attempts).toHaveLength(1)
})
