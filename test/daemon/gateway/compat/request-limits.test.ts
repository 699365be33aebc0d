import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addKey, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { type Gateway, sharedGateway, startGateway, upstreamProvider } from '../../../harness.ts'
import { chatJson, replyJson, startUpstream, type Upstream } from '../../../upstream.ts'

const OPENAI = '/v1/chat/completions'
const MESSAGES = '/v1/messages'
const RESPONSES = '/v1/responses'
const EMBEDDINGS = '/v1/embeddings'
const CLASSIC = '/api/external/chat/completions'
const model = 'test/any'

// biome-ignore lint/suspicious/noExplicitAny: what the upstream was sent has any shape
const sent = ({ upstream }: Gateway) => upstream.requests.at(-1)?.body as any

/** A valid request of each API with these texts as messages and this number of tools. */
function bodyOf(path: string, texts: readonly string[], tools = 0): object {
  const messages = texts.map((content) => ({ role: 'user', content }))
  const named = Array.from({ length: tools }, (_, at) => `tool${at}`)
  const parameters = { type: 'object', properties: {} }
  switch (path) {
    case OPENAI:
      return { model, messages, tools: named.map((name) => ({ type: 'function', function: { name, parameters } })) }
    case MESSAGES:
      return { model, max_tokens: 100, messages, tools: named.map((name) => ({ name, input_schema: parameters })) }
    case RESPONSES:
      return { model, input: messages, tools: named.map((name) => ({ type: 'function', name, parameters })) }
    case EMBEDDINGS:
      return { model, input: texts }
    default:
      return { model, index: 'Zero-Knowledge', messages }
  }
}

async function keyWith({ app: { db } }: Gateway, limits: object): Promise<string> {
  const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
  return (await addKey(db, await addUser(db, { tenant_id }), { settings: { limits } as never })).secret
}

const fifty = 'x'.repeat(50)
const allowed = (what: string) => expect.stringContaining(what)

describe('limits of the operator', () => {
  const shared = sharedGateway({
    requestLimits: { contentBytes: 100, tools: 2, defaultMaxTokens: 700, maxTokens: 900 },
  })
  const post = (path: string, body: object) => shared.current.call('POST', path, body)

  test.each([OPENAI, MESSAGES, RESPONSES])('%s: text and tools', async (path) => {
    expect((await post(path, bodyOf(path, [fifty, fifty], 2))).status).toBe(200)
    const long = await post(path, bodyOf(path, [fifty, `${fifty}x`]))
    expect([long.status, long.body.error.message]).toEqual([
      400,
      allowed('The request has 101 bytes of text; the operator allows at most 100. Shorten it.'),
    ])
    const many = await post(path, bodyOf(path, [fifty], 3))
    expect([many.status, many.body.error.message]).toEqual([
      400,
      allowed('The request has 3 tools; the operator allows at most 2. Send fewer.'),
    ])
  })

  test('of text apply to embeddings, and no limit to POST /chat/completions', async () => {
    expect((await post(EMBEDDINGS, bodyOf(EMBEDDINGS, [fifty, fifty]))).status).toBe(200)
    expect((await post(EMBEDDINGS, bodyOf(EMBEDDINGS, [fifty, fifty, 'x']))).status).toBe(400)
    expect((await post(CLASSIC, bodyOf(CLASSIC, [fifty, fifty, fifty]))).status).toBe(200)
    expect(sent(shared.current).max_tokens).toBe(1_000)
  })

  test('the default limit of an answer applies only to requests without one, which the answer reports', async () => {
    const without = await post(OPENAI, bodyOf(OPENAI, ['Hi']))
    const set = [{ field: 'max_tokens', asked: null, used: 700, why: 'operator' }]
    expect([sent(shared.current).max_tokens, without.body.gateway.changed]).toEqual([700, set])
    const own = await post(OPENAI, { ...bodyOf(OPENAI, ['Hi']), max_tokens: 800 })
    expect([sent(shared.current).max_tokens, own.body.gateway.changed]).toEqual([800, undefined])
    const lowered = await post(OPENAI, { ...bodyOf(OPENAI, ['Hi']), max_tokens: 1_000 })
    expect([sent(shared.current).max_tokens, lowered.body.gateway.changed[0].used]).toEqual([900, 900])
  })
})

test('a default above the limit of an answer is lowered to it', async () => {
  const gateway = await startGateway({ requestLimits: { defaultMaxTokens: 700, maxTokens: 300 } })
  await gateway.call('POST', OPENAI, bodyOf(OPENAI, ['Hi']))
  expect(sent(gateway).max_tokens).toBe(300)
})

describeEachEngine('limits of a key', (engine) => {
  const shared = sharedGateway({
    engine,
    requestLimits: { messages: 4, contentBytes: 1_000, tools: 4, maxTokens: 800, jsonDepth: 64, bodyBytes: 100_000 },
  })

  test.each([OPENAI, MESSAGES, RESPONSES, CLASSIC])('%s: lower those of the gateway', async (path) => {
    const gateway = shared.current
    const limits = { messages: 2, contentBytes: 100, tools: 1, bodyBytes: 2_000, jsonDepth: 8 }
    const key = await keyWith(gateway, limits)
    const post = (body: object) => gateway.call('POST', path, body, { key })
    const messageOf = ({ body }: { body: { error: { message: string }; message?: string } }) =>
      body.message ?? body.error.message
    expect((await post(bodyOf(path, ['Hi', 'Ho']))).status).toBe(200)
    const refusals: [object, number, string][] = [
      [bodyOf(path, ['a', 'b', 'c']), 400, '; this key allows at most 2. Send fewer.'],
      [bodyOf(path, [fifty, `${fifty}x`]), 400, 'The request has 101 bytes of text; this key allows at most 100.'],
      [bodyOf(path, ['x'.repeat(2_000)]), 413, 'at most 2000 bytes'],
      [
        { ...bodyOf(path, ['Hi']), metadata: { a: { a: { a: { a: { a: { a: { a: {} } } } } } } } },
        400,
        'at most 8 levels',
      ],
    ]
    if (path !== CLASSIC)
      refusals.push([bodyOf(path, ['Hi'], 2), 400, 'The request has 2 tools; this key allows at most 1.'])
    for (const [body, status, words] of refusals) {
      const answer = await post(body)
      expect([answer.status, messageOf(answer)]).toEqual([status, allowed(words)])
    }
  })

  test('never raise them', async () => {
    const key = await keyWith(shared.current, { messages: 10, contentBytes: 5_000, tools: 9, maxTokens: 5_000 })
    const post = (body: object) => shared.current.call('POST', OPENAI, body, { key })
    expect((await post(bodyOf(OPENAI, ['a', 'b', 'c', 'd', 'e']))).body.error.message).toContain(
      'the operator allows at most 4',
    )
    expect((await post(bodyOf(OPENAI, ['x'.repeat(1_001)]))).body.error.message).toContain('the operator')
    expect((await post(bodyOf(OPENAI, ['Hi'], 5))).body.error.message).toContain('the operator')
    const { body } = await post({ ...bodyOf(OPENAI, ['Hi']), max_tokens: 900 })
    expect(body.gateway.changed).toEqual([{ field: 'max_tokens', asked: 900, used: 800, why: 'operator' }])
  })

  test('lower the tokens of an answer, which it reports on every surface', async () => {
    const gateway = shared.current
    const key = await keyWith(gateway, { maxTokens: 300, defaultMaxTokens: 200 })
    const reported = async (path: string, more: object) => {
      const { body } = await gateway.call('POST', path, { ...bodyOf(path, ['Hi']), ...more }, { key })
      const { max_tokens: used } = sent(gateway)
      return [used, (body.gateway ?? body.metadata).changed]
    }
    const lowered = (field: string, asked: number | null, used: number) => [used, [{ field, asked, used, why: 'key' }]]
    expect(await reported(OPENAI, { max_tokens: 500 })).toEqual(lowered('max_tokens', 500, 300))
    expect(await reported(MESSAGES, { max_tokens: 500 })).toEqual(lowered('max_tokens', 500, 300))
    expect(await reported(RESPONSES, { max_output_tokens: 500 })).toEqual(lowered('max_output_tokens', 500, 300))
    expect(await reported(CLASSIC, { max_tokens: 500 })).toEqual(lowered('max_tokens', 500, 300))
    expect(await reported(OPENAI, {})).toEqual(lowered('max_tokens', null, 200))
    expect(await reported(OPENAI, { max_tokens: 250 })).toEqual([250, undefined])
    expect(await reported(CLASSIC, {})).toEqual([200, undefined])
  })

  test('POST /policy-check checks them too', async () => {
    const key = await keyWith(shared.current, { messages: 1 })
    const { body } = await shared.current.call('POST', '/api/external/policy-check', bodyOf(CLASSIC, ['a', 'b']), {
      key,
    })
    expect(body.checks.input).toMatchObject({ passed: false, message: allowed('this key allows at most 1') })
  })
})

describe('values outside of the fixed bounds', () => {
  const shared = sharedGateway()

  test('POST /chat/completions clamps them and reports it, also in a stream', async () => {
    const { body } = await shared.current.chat({ prompt: 'Hi', temperature: 5, max_tokens: 16_000 })
    const changed = [
      { field: 'temperature', asked: 5, used: 2, why: 'gateway' },
      { field: 'max_tokens', asked: 16_000, used: 4_000, why: 'gateway' },
    ]
    expect(sent(shared.current)).toMatchObject({ temperature: 2, max_tokens: 4_000 })
    expect(body.metadata.changed).toEqual(changed)
    const { body: usual } = await shared.current.chat({ prompt: 'Hi', temperature: 1, max_tokens: 5 })
    expect(usual.metadata).not.toHaveProperty('changed')
    expect(usual.metadata).not.toHaveProperty('dropped')
  })

  test('POST /chat/completions names the members that it does not have', async () => {
    const { body } = await shared.current.chat({ prompt: 'Hi', top_p: 0.5, tools: [] })
    expect(body.metadata.dropped).toEqual([
      { field: 'top_p', why: 'gateway' },
      { field: 'tools', why: 'gateway' },
    ])
  })

  test.each([OPENAI, MESSAGES, RESPONSES])('%s: a temperature is a 400, and is never changed', async (path) => {
    for (const [temperature, words] of [
      [2.5, 'temperature must be at most 2'],
      [-1, 'temperature must not be negative'],
    ] as const) {
      const { status, body } = await shared.current.call('POST', path, { ...bodyOf(path, ['Hi']), temperature })
      expect([status, body.error.message]).toEqual([400, allowed(words)])
    }
  })

  test.each([OPENAI, MESSAGES, RESPONSES, CLASSIC])('%s: time limits are clamped and reported', async (path) => {
    const given = { redundancy: { timeout_ms: 1 }, models: [{ model, first_token_timeout_ms: 1e9 }] }
    const { status, body } = await shared.current.call('POST', path, { ...bodyOf(path, ['Hi']), ...given })
    expect([status, (body.gateway ?? body.metadata).changed]).toEqual([
      200,
      [
        { field: 'models[0].first_token_timeout_ms', asked: 1e9, used: 60_000, why: 'gateway' },
        { field: 'redundancy.timeout_ms', asked: 1, used: 1_000, why: 'gateway' },
      ],
    ])
  })
})

describe('options that the interface of a provider does not have', () => {
  let upstream: Upstream
  beforeAll(async () => {
    upstream = await startUpstream()
    upstream.fallback(replyJson(chatJson('Hello.')))
  })
  const shared = sharedGateway(() => ({ providers: [upstreamProvider('mistral', upstream.url)] }))
  afterAll(() => upstream.close())

  test.each([
    [OPENAI, { user: 'u-1' }, ['user']],
    [MESSAGES, { metadata: { user_id: 'u-1' } }, ['metadata.user_id']],
    [MESSAGES, { thinking: { type: 'disabled' } }, ['thinking']],
    [RESPONSES, { user: 'u-1' }, ['user']],
    [OPENAI, { stop: ['x'] }, undefined],
  ])('%s %j', async (path, given, fields) => {
    const { status, body } = await shared.current.call('POST', path, {
      ...bodyOf(path, ['Hi']),
      model: 'mistral/any',
      ...given,
    })
    const dropped = fields?.map((field) => ({ field, why: 'provider' }))
    expect([status, body.gateway.dropped]).toEqual([200, dropped])
    expect(upstream.requests.at(-1)?.body).not.toHaveProperty('user')
  })
})
