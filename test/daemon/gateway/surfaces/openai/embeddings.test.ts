import { hash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { responseParts } from '../../../../../src/daemon/gateway/surfaces/openai/embeddings.ts'
import type { ProviderConfig } from '../../../../../src/daemon/models/config.ts'
import { payloadOf } from '../../../../../src/daemon/records/evidence/entry-payload.ts'
import { ATTEMPT_TIMEOUT_MS } from '../../../../../src/shared/spec-limits.ts'
import { addKey, addUser } from '../../../../accounts.ts'
import { createFakeClock } from '../../../../fake-clock.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../../harness.ts'
import { hang, replyJson, startUpstream } from '../../../../upstream.ts'

const PATH = '/v1/embeddings'
const shared = sharedGateway()
const post = (body: object, options = {}) =>
  shared.current.call('POST', PATH, { model: 'test/small', ...body }, options)
const vectors = (...embeddings: number[][]) =>
  replyJson({
    data: embeddings.map((embedding, index) => ({ object: 'embedding', index, embedding })),
    usage: { prompt_tokens: 6, total_tokens: 6 },
  })

test('one vector per text, in order, billed as a usage row', async () => {
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

test('a repeat with its Idempotency-Key causes no second call', async () => {
  shared.current.upstream.script(vectors([0.5]))
  const ask = () => post({ input: 'once' }, { headers: { 'idempotency-key': 'embed-1' } })
  const [first, second] = [await ask(), await ask()]
  expect([second.status, second.text]).toEqual([200, first.text])
  expect(shared.current.upstream.requests.filter(({ rawBody }) => rawBody.includes('"once"'))).toHaveLength(1)
})

test('texts without a provider count are counted here', async () => {
  shared.current.upstream.script(replyJson({ data: [{ index: 0, embedding: [1] }] }))
  const { body } = await post({ input: 'some words to be counted' })
  expect(body.usage.prompt_tokens).toBeGreaterThan(0)
})

test.each([
  [{ model: 'local/extract', input: 'x' }, 'embeddings'],
  [{ model: null, input: 'x' }, 'must provide a model'],
  [{ model: 'nowhere/x', input: 'x' }, 'not configured'],
  [{ input: [] }, 'input'],
  [{ input: '' }, 'input'],
  [{ input: [1, 2, 3] }, 'texts'],
  [{ input: Array(2049).fill('x') }, '2048'],
  [{ input: 'x', encoding_format: 'int8' }, 'encoding_format'],
])('invalid input is a 400: %#', async (body, message) => {
  const answer = await post(body)
  expect([answer.status, answer.body]).toEqual([
    400,
    expect.objectContaining({
      error: { message: expect.stringContaining(message), type: 'invalid_request_error', code: expect.any(String) },
    }),
  ])
})

test("the key's list of models applies, and its fallbacks are not used, because their vectors differ", async () => {
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

describe('embeddings share the concurrency limits of chats', () => {
  async function ordinaryKey(gateway: Gateway): Promise<string> {
    const { db } = gateway.app
    const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
    return (await addKey(db, await addUser(db, { tenant_id }))).secret
  }

  test.each([
    ['its key', { perKey: 1, waitingPerKey: 0, perProvider: 0 }, 'may run 1 at once'],
    ['its provider', { perKey: 0, waitingPerKey: 0, perProvider: 1 }, 'may run 1 at once'],
  ])('of %s: while they run there is no other, and a client that leaves gives its place back', async (...given) => {
    const [, concurrency, message] = given
    const gateway = await startGateway({ concurrency })
    const key = await ordinaryKey(gateway)
    const ask = (options = {}) => gateway.call('POST', PATH, { model: 'test/small', input: 'x' }, { key, ...options })
    gateway.upstream.script(hang)
    const leave = new AbortController()
    const first = ask({ signal: leave.signal })
    const running = await gateway.upstream.nextRequest()
    for (const busy of [await ask(), await gateway.chat({ prompt: 'hi' }, { key })]) {
      expect([busy.status, busy.headers['retry-after'], busy.text]).toEqual([
        503,
        '2',
        expect.stringContaining(message),
      ])
    }
    leave.abort()
    await expect(first).rejects.toThrow()
    await running.aborted
    expect((await ask()).status).toBe(200)
    expect(gateway.upstream.requests).toHaveLength(2)
  })

  test('a model that keeps failing at them is skipped by chats with an alternative', async () => {
    const gateway = await startGateway()
    gateway.upstream.fallback(replyJson({ error: {} }, { status: 503 }))
    for (let request = 0; request < 5; request++) {
      expect((await gateway.call('POST', PATH, { model: 'test/small', input: 'x' })).status).toBe(502)
    }
    const { body } = await gateway.chat({ prompt: 'hi', models: ['test/small', 'local/extract'] })
    expect(body.metadata.failover?.attempts).toMatchObject([{ reason: 'circuit_open' }, { status: 'served' }])
    // A request for a single model always reaches that model.
    expect((await gateway.call('POST', PATH, { model: 'test/small', input: 'x' })).body.attempts).toMatchObject([
      { reason: 'server_error' },
    ])
  })

  test("a call without an answer ends with the attempt's timeout, and is not billed", async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ clock })
    gateway.upstream.script(hang)
    const answer = gateway.call('POST', PATH, { model: 'test/small', input: 'x' })
    await gateway.upstream.nextRequest()
    clock.advance(ATTEMPT_TIMEOUT_MS.last)
    const { status, body } = await answer
    expect([status, body.attempts]).toMatchObject([502, [{ reason: 'timeout' }]])
    expect(await gateway.usage()).toEqual([])
  })
})

describe('providers with their own interface', () => {
  const usual = { apiKey: 'secret', headers: {}, models: undefined, prices: { '*': { input: 1, output: 2 } } }
  const configured = (baseUrl: string): readonly ProviderConfig[] => [
    { ...usual, name: 'google', kind: 'google', baseUrl },
    { ...usual, name: 'bedrock', kind: 'bedrock', baseUrl, region: 'eu-central-1', credentials: undefined },
  ]

  test.each([
    ['google/gemini-embedding-001', { embeddings: [{ values: [0.5] }] }],
    ['bedrock/cohere.embed-v4:0', { embeddings: { float: [[0.5]] } }],
  ])("%s: vectors in OpenAI's format, a bill and an entitlement", async (model, answer) => {
    const upstream = await startUpstream()
    const gateway = await startGateway({ providers: configured(new URL(upstream.url).origin) })
    upstream.fallback(replyJson(answer))
    const asked = await gateway.call('POST', PATH, { model, input: 'one text' })
    expect([asked.status, asked.body]).toEqual([
      200,
      expect.objectContaining({ model, data: [{ object: 'embedding', index: 0, embedding: [0.5] }] }),
    ])
    expect(await gateway.usage()).toMatchObject([{ served_model: model, tokens_estimated: 1, outcome: 'complete' }])
    const row = await gateway.app.db
      .selectFrom('evidence_entries')
      .selectAll()
      .where('id', '=', String(asked.headers['x-smltp-bundle-id']))
      .executeTakeFirstOrThrow()
    expect(payloadOf(row)?.attempts?.[0]?.entitlement).toMatchObject({
      ...{ model, verdict: 'allowed' },
      body_sha256: hash('sha256', upstream.requests[0]?.rawBody ?? ''),
    })
    await gateway.close()
    await upstream.close()
  })
})

test('a large answer is rendered in steps of one vector, in both formats', () => {
  const vectors = Array.from({ length: 100 }, (_, index) => Float32Array.of(index, 0.1))
  for (const encoding_format of [undefined, 'float', 'base64'] as const) {
    const parts = [
      ...responseParts({ vectors }, 'test/small', { inputTokens: 7, outputTokens: 0 }, { encoding_format }),
    ]
    expect(parts).toHaveLength(vectors.length + 1)
    expect(JSON.parse(parts.join(''))).toEqual({
      object: 'list',
      data: vectors.map((vector, index) => ({
        object: 'embedding',
        index,
        embedding: encoding_format === 'base64' ? Buffer.from(vector.buffer).toString('base64') : Array.from(vector),
      })),
      model: 'test/small',
      usage: { prompt_tokens: 7, total_tokens: 7 },
    })
  }
})
