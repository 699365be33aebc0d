import { describe, expect, test } from 'vitest'
import { outputLimitOf } from '../../../../src/daemon/models/output-limits.ts'
import { addKey, addUser } from '../../../accounts.ts'
import { deferred } from '../../../deferred.ts'
import { describeEachEngine } from '../../../engines.ts'
import { type Gateway, type GatewayOptions, sharedGateway, startGateway, upstreamProvider } from '../../../harness.ts'
import { chatJson, chatStream, replyJson, replySteps, startUpstream } from '../../../upstream.ts'

const OPENAI = '/v1/chat/completions'
const MESSAGES = '/v1/messages'
const hello = { model: 'test/any', messages: [{ role: 'user', content: 'Hi' }] }
// biome-ignore lint/suspicious/noExplicitAny: what the upstream was sent has any shape
const sent = ({ upstream }: Gateway) => upstream.requests.at(-1)?.body as any

/** The `gateway` member of a streamed answer. */
function gatewayOf(stream: string) {
  const first = JSON.parse(stream.slice(stream.indexOf('{'), stream.indexOf('\n\n')))
  return (first.message ?? first).gateway
}

describe('a request without limits', () => {
  const shared = sharedGateway()

  test.each([
    [OPENAI, {}],
    [OPENAI, { max_completion_tokens: 16_000 }],
    [OPENAI, { max_tokens: 64_000 }],
    [MESSAGES, { max_tokens: 64_000 }],
  ])('%s %j: its `max_tokens` reaches the model unchanged, and none is added', async (path, given) => {
    const { status, body } = await shared.current.call('POST', path, { ...hello, ...given })
    expect([status, sent(shared.current).max_tokens]).toEqual([200, Object.values(given)[0]])
    expect(body.gateway).not.toHaveProperty('changed')
  })

  test.each([
    [OPENAI, 'max_tokens'],
    [OPENAI, 'max_completion_tokens'],
    [MESSAGES, 'max_tokens'],
  ])('%s: more than ten million is an invalid `%s`', async (path, field) => {
    expect((await shared.current.call('POST', path, { ...hello, [field]: 10_000_000 })).status).toBe(200)
    const { status, text } = await shared.current.call('POST', path, { ...hello, [field]: 10_000_001 })
    expect([status, text]).toEqual([400, expect.stringContaining(`${field} must be at most 10000000`)])
  })

  test('POST /chat/completions keeps its default', async () => {
    await shared.current.chat({ prompt: 'Hi' })
    expect(sent(shared.current).max_tokens).toBe(1000)
  })
})

test('a provider that requires a limit gets the maximum of its model, which the answer reports', async () => {
  const upstream = await startUpstream()
  const claude = {
    name: 'claude',
    kind: 'anthropic',
    baseUrl: upstream.url,
    apiKey: 'x',
    headers: {},
    models: undefined,
  }
  const gateway = await startGateway({ providers: [{ ...claude, kind: 'anthropic' }] })
  upstream.fallback(
    replyJson({ type: 'message', content: [{ type: 'text', text: 'Hello.' }], stop_reason: 'end_turn', usage: {} }),
  )
  for (const [model, used] of [
    ['claude-sonnet-4-5-20250929', 64_000],
    ['someone-else', 4_096],
  ] as const) {
    const { status, body } = await gateway.call('POST', OPENAI, { ...hello, model: `claude/${model}` })
    expect([status, body.gateway.changed]).toEqual([200, [{ field: 'max_tokens', asked: null, used, why: 'model' }]])
    expect(upstream.requests.at(-1)?.body).toMatchObject({ max_tokens: used })
  }
  await upstream.close()
})

describe("the operator's limit", () => {
  const shared = sharedGateway({ requestLimits: { maxTokens: 8_000 } })

  test.each([
    [OPENAI, { max_tokens: 16_000 }, 16_000],
    [OPENAI, {}, null],
    [MESSAGES, { max_tokens: 16_000 }, 16_000],
  ])('%s %j: lowers the requested limit, which the answer reports, streamed or not', async (path, given, asked) => {
    const changed = [{ field: 'max_tokens', asked, used: 8_000, why: 'operator' }]
    const { body } = await shared.current.call('POST', path, { ...hello, ...given })
    expect([sent(shared.current).max_tokens, body.gateway.changed]).toEqual([8_000, changed])
    shared.current.upstream.script(replySteps([chatStream(['Hello.'])]))
    const { text } = await shared.current.call('POST', path, { ...hello, ...given, stream: true })
    expect([sent(shared.current).max_tokens, gatewayOf(text).changed]).toEqual([8_000, changed])
  })

  test('is reported under the name that the request used', async () => {
    const { body } = await shared.current.call('POST', OPENAI, { ...hello, max_completion_tokens: 16_000 })
    const lowered = { field: 'max_completion_tokens', asked: 16_000, used: 8_000, why: 'operator' }
    expect(body.gateway.changed).toEqual([lowered])
  })

  test('leaves lower limits unchanged, and POST /chat/completions', async () => {
    const { body } = await shared.current.call('POST', OPENAI, { ...hello, max_tokens: 100 })
    expect([sent(shared.current).max_tokens, body.gateway.changed]).toEqual([100, undefined])
    await shared.current.chat({ prompt: 'Hi', max_tokens: 4_000 })
    expect(sent(shared.current).max_tokens).toBe(4_000)
  })
})

async function withBudget(dollars: number, options: GatewayOptions = {}) {
  const gateway = await startGateway(options)
  const { db } = gateway.app
  const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
  const user = await addUser(db, { tenant_id, usage_by_model: 1, dollar_limit_nanos: Math.round(dollars * 1e9) })
  const { secret: key } = await addKey(db, user, { settings: { billingMode: 'usage-by-model' } })
  const post = (body: object = hello, path = OPENAI) => gateway.call('POST', path, body, { key })
  const spent = async () => (await gateway.usage()).reduce((sum, { cost_nanos }) => sum + cost_nanos, 0) / 1e9
  return { gateway, key, post, spent }
}

/** An upstream that uses all allowed output tokens, and as many input tokens as were reserved. */
function sayAll(gateway: Gateway): void {
  gateway.upstream.fallback(async (exchange) => {
    const { max_tokens: allowed } = exchange.request.body as { max_tokens: number }
    await replyJson(chatJson('All.', { usage: { prompt_tokens: 66, completion_tokens: allowed } }))(exchange)
  })
}

describeEachEngine('a request without `max_tokens` in a budget of dollars', (engine) => {
  test("sends the model's known limit, or the default, and reserves it", async () => {
    const { gateway, post } = await withBudget(1, { engine })
    for (const [model, used] of [
      ['test/gpt-4o-mini', 16_384],
      ['test/unheard-of', 4_096],
    ] as const) {
      const { status, body } = await post({ ...hello, model })
      expect([status, body.gateway.changed]).toEqual([200, [{ field: 'max_tokens', asked: null, used, why: 'model' }]])
      expect(sent(gateway).max_tokens).toBe(used)
    }
  })

  test("sends the operator's limit to a model that the gateway does not know", async () => {
    const outputTokens = { 'test/deployment': 16_384 }
    const { gateway, post } = await withBudget(1, { engine, requestLimits: { outputTokens } })
    const { body } = await post({ ...hello, model: 'test/deployment' })
    expect(body.gateway.changed).toEqual([{ field: 'max_tokens', asked: null, used: 16_384, why: 'model' }])
    expect(sent(gateway).max_tokens).toBe(16_384)
  })

  test('sends at most what fits into the context window after a long prompt', async () => {
    const { gateway, post } = await withBudget(100, { engine })
    const long = { role: 'user', content: 'word '.repeat(72_000) }
    const { status } = await post({ ...hello, model: 'test/gpt-4o-mini', messages: [long] })
    const { max_tokens: used } = sent(gateway)
    // 360,000 bytes are at most 120,000 of the 128,000 tokens.
    expect([status, used > 7_000 && used < 8_000]).toEqual([200, true])
    await post({ ...hello, model: 'test/gpt-4o-mini', messages: [long, long] })
    expect(sent(gateway).max_tokens).toBe(1_024)
  })

  test('sends what the budget still covers, and is rejected if that is too little', async () => {
    // At most 66 input tokens at a millionth of a dollar, and 2,000 output tokens at two millionths.
    const { gateway, post, spent } = await withBudget(0.004066, { engine })
    const covered = { field: 'max_tokens', asked: null, used: 2_000, why: 'budget' }
    expect((await post()).body.gateway.changed).toEqual([covered])
    expect(sent(gateway).max_tokens).toBe(2_000)
    sayAll(gateway)
    const { body } = await post()
    expect(body.gateway.changed[0].used).toBeLessThan(2_000)
    expect(await spent()).toBeLessThanOrEqual(0.004066)
    const refused = await post()
    expect([refused.status, refused.body.error.code]).toEqual([429, 'insufficient_quota'])
    expect(refused.body.error.message).toContain('this request needs at least')
  })

  test('is not billed for tokens beyond the limit sent to its model', async () => {
    const { gateway, post } = await withBudget(0.004066, { engine })
    gateway.upstream.fallback(
      replyJson(chatJson('All.', { usage: { prompt_tokens: 66, completion_tokens: 1_300_000 } })),
    )
    expect((await post()).status).toBe(200)
    expect(sent(gateway).max_tokens).toBe(2_000)
    const [bill] = await gateway.usage()
    expect(bill).toMatchObject({ tokens_estimated: 1 })
    expect(bill?.output_tokens).toBeLessThan(10)
  })

  test('with its own limit reserves all of it, or is rejected', async () => {
    const { post } = await withBudget(0.004066, { engine })
    const { body } = await post({ ...hello, max_tokens: 2_000 })
    expect(body.gateway.changed).toBeUndefined()
    expect((await post({ ...hello, max_tokens: 2_001 })).status).toBe(429)
  })

  test('is served alone from 256 tokens on', async () => {
    const { post } = await withBudget((66 + 2 * 256) / 1e6, { engine })
    expect((await post()).body.gateway.changed[0].used).toBe(256)
    const less = await withBudget((66 + 2 * 255) / 1e6, { engine })
    expect((await less.post()).status).toBe(429)
  })

  test('of 20 concurrent callers is served with at least 1,024 tokens, or asked to retry', async () => {
    // After the answers of up to 4,096 tokens, 8,258 tokens remain, then 4,129, and then 200 too few for 1,024.
    const { gateway, post, spent } = await withBudget((3 * (66 + 2 * 4_096) + 66 + 2 * 1_000) / 1e6, { engine })
    const refused = new Set<number>()
    const asked: number[] = []
    const all = deferred<void>()
    const check = () => asked.length + refused.size === 20 && all.resolve()
    gateway.upstream.fallback(async (exchange) => {
      const { max_tokens: allowed } = exchange.request.body as { max_tokens: number }
      asked.push(allowed)
      check()
      await all.promise
      await replyJson(chatJson('All.', { usage: { prompt_tokens: 66, completion_tokens: allowed } }))(exchange)
    })
    const answers = await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        const answer = await post()
        if (answer.status === 429) refused.add(at)
        check()
        return answer
      }),
    )
    expect(asked).toEqual([4_096, 4_096, 4_096])
    for (const at of refused) {
      expect(answers[at]?.headers['retry-after']).toBe('2')
      expect(answers[at]?.body.error.message).toContain('Running requests have reserved the rest')
    }
    // A single next request gets the rest.
    expect((await post()).body.gateway.changed[0].used).toBe(1_000)
    expect(await spent()).toBeLessThanOrEqual((3 * (66 + 2 * 4_096) + 66 + 2 * 1_000) / 1e6)
  })

  test('of 100 concurrent callers never exceeds $1, on two daemons if they can share a store', async () => {
    const first = await withBudget(1, { engine })
    const second = engine.name === 'sqlite' ? first.gateway : await startGateway({ engine, beside: first.gateway })
    sayAll(first.gateway)
    const ask = (gateway: Gateway) => gateway.call('POST', OPENAI, { ...hello, model: 'test/o1' }, { key: first.key })
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, at) => ask(at % 2 === 0 ? first.gateway : second)),
    )
    const served = answers.filter(({ status }) => status === 200)
    expect(served.length).toBeGreaterThan(4)
    expect(served.length + answers.filter(({ status }) => status === 429).length).toBe(100)
    expect(await first.spent()).toBeLessThanOrEqual(1)
    expect(await first.spent()).toBeGreaterThan(0.99)
  })
})

/** Claude with a thinking budget; an output token costs two millionths of a dollar. */
async function withClaude(dollars: number, options: GatewayOptions = {}) {
  const upstream = await startUpstream()
  const answer = { type: 'message', content: [{ type: 'text', text: 'Hello.' }], stop_reason: 'end_turn', usage: {} }
  upstream.fallback(replyJson(answer))
  const { url: baseUrl } = upstream
  const prices = { '*': { input: 1, output: 2 } }
  const claude = { name: 'claude', kind: 'anthropic', baseUrl, apiKey: 'x', headers: {}, models: undefined } as const
  const { post } = await withBudget(dollars, { providers: [{ ...claude, prices }], ...options })
  return { upstream, post }
}
const thoughtful = { ...hello, model: 'claude/claude-sonnet-4-5', reasoning_effort: 'low' }

test('a request that requires thinking is rejected if its budget leaves no room for it', async () => {
  const { upstream, post } = await withClaude((66 + 2 * 1_279) / 1e6)
  const { status, body } = await post(thoughtful)
  expect([status, body.error.code]).toEqual([429, 'insufficient_quota'])
  expect(upstream.requests).toEqual([])
  const enough = await withClaude((66 + 2 * 1_280) / 1e6)
  expect((await enough.post(thoughtful)).status).toBe(200)
  expect(enough.upstream.requests[0]?.body).toMatchObject({ max_tokens: 1_280, thinking: { budget_tokens: 1_024 } })
  await Promise.all([upstream.close(), enough.upstream.close()])
})

test("a request does not think if the operator's limit leaves no room, which the answer reports", async () => {
  const { upstream, post } = await withClaude(1, { requestLimits: { maxTokens: 1_000 } })
  const fewer = { field: 'max_tokens', asked: null, used: 1_000, why: 'operator' }
  const dropped = { field: 'reasoning_effort', asked: 'low', used: null, why: 'operator' }
  expect((await post(thoughtful)).body.gateway.changed).toEqual([fewer, dropped])
  for (const { body: got } of upstream.requests) expect(got).not.toHaveProperty('thinking')
  await upstream.close()
})

test("a thinking budget that does not fit into the operator's limit is rejected", async () => {
  const { upstream, post } = await withClaude(1, { requestLimits: { maxTokens: 1_000 } })
  const thinking = { type: 'enabled', budget_tokens: 1_024 }
  const message = { ...hello, model: thoughtful.model, max_tokens: 4_096, thinking }
  const { status, body } = await post(message, MESSAGES)
  expect([status, body.error.message]).toEqual([400, expect.stringContaining('thinking.budget_tokens')])
  expect(upstream.requests).toEqual([])
  await upstream.close()
})

test('a chain reserves for its most expensive model, and each model gets what the budget covers', async () => {
  const dear = (baseUrl: string) => ({
    ...upstreamProvider('dear', baseUrl),
    prices: { '*': { input: 1, output: 10 } },
  })
  const upstream = await startUpstream()
  const { gateway, post } = await withBudget(0.004066, { providers: [dear(upstream.url)] })
  upstream.fallback(replyJson({ error: {} }, { status: 500 }))
  const { body } = await post({ messages: hello.messages, models: ['dear/a', 'test/b'] })
  expect(upstream.requests.at(-1)?.body).toMatchObject({ max_tokens: 400 })
  expect(sent(gateway).max_tokens).toBe(2_000)
  expect(body.gateway.changed).toEqual([{ field: 'max_tokens', asked: null, used: 2_000, why: 'budget' }])
  await upstream.close()
})

test('a free model needs no limit, whatever the budget', async () => {
  const free = { ...upstreamProvider('free', 'http://127.0.0.1:9/v1'), prices: { '*': { input: 0, output: 0 } } }
  const upstream = await startUpstream()
  const { post } = await withBudget(0.001, { providers: [{ ...free, baseUrl: upstream.url }] })
  upstream.fallback(replyJson(chatJson('Hello.')))
  expect((await post({ ...hello, model: 'free/m' })).status).toBe(200)
  expect(upstream.requests.at(-1)?.body).not.toHaveProperty('max_tokens')
  await upstream.close()
})

test.each([
  ['gpt-4o', 16_384],
  ['gpt-4o-2024-08-06', 16_384],
  ['gpt-4o-2024-05-13', 4_096],
  ['gpt-5.2-codex', 128_000],
  ['o1-mini-2024-09-12', 65_536],
  ['us.anthropic.claude-3-7-sonnet-20250219-v1:0', 64_000],
  ['anthropic/claude-sonnet-4.5', 64_000],
  ['claude-3-opus-20240229', 4_096],
  ['claude-opus-4@20250514', 32_000],
  ['claude-sonnet-9', 32_000],
  ['gemini-2.5-flash', 65_535],
  ['gpt-4o-mini', 16_384],
  ['gpt-5.1-chat-latest', 16_384],
  ['gpt-5.3-chat-latest', undefined],
  ['gpt-4o-audio-preview', undefined],
  ['gpt-4o-realtime-preview-2024-12-17', undefined],
  ['gemini-2.5-flash-image', undefined],
  ['gemini-3-pro-preview', 65_535],
  ['llama3', undefined],
  ['gpt4', undefined],
  ['__proto__', undefined],
])('the known limit of %s is %s', (model, limit) => {
  expect(outputLimitOf(model)).toBe(limit)
})
