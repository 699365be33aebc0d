import { describe, expect, test } from 'vitest'
import { purgeCache } from '../../../../src/daemon/gateway/cache/answer-cache.ts'
import { parseKeySet } from '../../../../src/shared/evidence/keys.ts'
import { verifyReceipt } from '../../../../src/shared/evidence/receipt.ts'
import { DAY_MS } from '../../../../src/shared/time.ts'
import { MESSAGES_PATH } from '../../../../src/shared/wire/messages.ts'
import { OPENAI_CHAT_PATH } from '../../../../src/shared/wire/openai.ts'
import { RESPONSES_PATH } from '../../../../src/shared/wire/responses.ts'
import { addKey } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../harness.ts'
import { chatJson, chatStream, replyCut, replyJson, replyRaw, replySteps } from '../../../upstream.ts'
import { MULTIPART, multipart } from '../../knowledge/ingest/multipart.ts'
import { addGuardedTenant } from '../chat/guarded-tenant.ts'

const cache = { enabled: true }
const asking = (how: string) => ({ headers: { 'x-aigw-cache': how } })
const USE = asking('use')
const SETTINGS = { dailyLimit: null, monthlyLimit: null, rateLimit: { requestsPerMinute: null, requestsPerHour: null } }
const usage = { prompt_tokens: 11, completion_tokens: 5 }
const entries = (gateway: Gateway) => gateway.app.db.selectFrom('cache_entries').selectAll().orderBy('id').execute()
const calls = (gateway: Gateway) => gateway.upstream.requests.length

describeEachEngine('an identical request', (engine) => {
  test('gets the stored answer free of charge; its receipt names the original request', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, cache, clock })
    const first = await gateway.chat({ prompt: 'hi' }, USE)
    clock.advance(5_000)
    const second = await gateway.chat({ prompt: 'hi' }, USE)
    expect(calls(gateway)).toBe(1)
    const original = first.body.metadata.smltp.bundle_id
    expect(first.body.metadata.cache).toEqual({ status: 'miss' })
    expect(second.body.metadata.cache).toEqual({ status: 'hit', age_s: 5, original })
    for (const member of ['choices', 'usage', 'model'] as const) {
      expect(second.body[member]).toEqual(first.body[member])
    }
    expect(second.body.id).not.toBe(first.body.id)
    expect([first, second].map(({ headers }) => headers['x-aigw-cache'])).toEqual(['miss', 'hit'])
    const [paid, free] = await gateway.usage()
    expect(paid?.cost_nanos).toBe(21_000)
    expect(free).toMatchObject({ cost_nanos: 0, points: 0, attempts: 0, input_tokens: 11, output_tokens: 5 })
    const bundleId = second.body.metadata.smltp.bundle_id
    const { receipt } = (await gateway.call('GET', `/api/external/receipts/${bundleId}`)).body
    expect(receipt).toMatchObject({
      cache: { status: 'hit', age_s: 5, original },
      attempts: [],
      model: 'test/any',
      result: 'success',
    })
    const keys = await gateway.call('GET', '/.well-known/aigw-keys.json', undefined, { key: null })
    expect(verifyReceipt(receipt, parseKeySet(keys.body))).toEqual({ ok: true })
  })

  test('is answered by a restarted daemon, for other keys of the tenant, whether streamed or not', async () => {
    const gateway = await startGateway({ engine, cache })
    gateway.upstream.script(replyRaw(chatStream(['An ', 'old ', 'answer.'], { usage })))
    const streamed = await gateway.stream({ prompt: 'hi' }, USE)
    expect(streamed.frames[0]).toMatchObject({ data: { metadata: { cache: { status: 'miss' } } } })
    await gateway.restart()
    const { db } = gateway.app
    const owner = await db.selectFrom('users').selectAll().executeTakeFirstOrThrow()
    const { secret: key } = await addKey(db, owner)
    const whole = await gateway.chat({ prompt: 'hi' }, { ...USE, key })
    expect(whole.body.choices[0]?.message.content).toBe('An old answer.')
    expect(whole.body.metadata.cache).toMatchObject({ status: 'hit' })
    const again = await gateway.stream({ prompt: 'hi' }, { ...USE, key })
    expect([again.done, again.frames.map(({ type }) => type)]).toEqual([true, ['metadata', 'chunk', 'chunk', 'usage']])
    expect(again.frames[1]).toMatchObject({ data: { choices: [{ delta: { content: 'An old answer.' } }] } })
    expect(again.frames[3]).toMatchObject({ data: { usage: { prompt_tokens: 11, completion_tokens: 5 } } })
    expect(calls(gateway)).toBe(1)
  })

  test('calls the model without opting in, and stores nothing', async () => {
    const gateway = await startGateway({ engine, cache })
    const answers = [await gateway.chat({ prompt: 'hi' }), await gateway.chat({ prompt: 'hi' }, asking('off'))]
    for (const { body } of answers) expect(body.metadata).not.toHaveProperty('cache')
    expect([calls(gateway), await entries(gateway)]).toEqual([2, []])
  })

  test('with `refresh` calls the model and replaces the stored answer', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, cache, clock })
    const ask = async (how: string) => {
      clock.advance(1_000)
      const { body } = await gateway.chat({ prompt: 'hi' }, asking(how))
      return [body.metadata.cache?.status, body.choices[0]?.message.content]
    }
    gateway.upstream.script(...['one', 'two', 'three'].map((text) => replyJson(chatJson(text, { usage }))))
    expect(await ask('use')).toEqual(['miss', 'one'])
    expect(await ask('refresh')).toEqual(['refreshed', 'two'])
    expect(await ask('use')).toEqual(['hit', 'two'])
    expect(await ask('off')).toEqual([undefined, 'three'])
  })

  test('of another tenant is never answered from the cache', async () => {
    const gateway = await startGateway({ engine, cache })
    for (let tenants = 0; tenants < 2; tenants++) {
      const { chat } = await addGuardedTenant(gateway, { settings: SETTINGS })
      expect((await chat({ prompt: 'hi' }, USE)).body.metadata.cache).toEqual({ status: 'miss' })
    }
    expect(calls(gateway)).toBe(2)
  })

  test('expires with the lifetime and with the retention of its policy, and is then purged', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, cache: { enabled: true, ttlMs: 3 * DAY_MS }, clock })
    const { db } = gateway.app
    const short = await addGuardedTenant(gateway, { policy: { retentionDays: 2 }, settings: SETTINGS })
    const long = await addGuardedTenant(gateway, { policy: {}, settings: SETTINGS })
    const statuses = async () => {
      const answers = [await short.chat({ prompt: 'hi' }, USE), await long.chat({ prompt: 'hi' }, USE)]
      return answers.map(({ body }) => body.metadata.cache?.status)
    }
    expect(await statuses()).toEqual(['miss', 'miss'])
    clock.advance(2 * DAY_MS - 1)
    expect(await statuses()).toEqual(['hit', 'hit'])
    await purgeCache({ db, clock })
    expect(await entries(gateway)).toHaveLength(2)
    clock.advance(1)
    await purgeCache({ db, clock })
    expect((await entries(gateway)).map(({ tenant_id }) => tenant_id)).toEqual([long.tenant.id])
    clock.advance(DAY_MS)
    expect(await statuses()).toEqual(['miss', 'miss'])
  })

  test('is stored encrypted, and bound to its row', async () => {
    const gateway = await startGateway({ engine, cache })
    gateway.upstream.fallback(replyJson(chatJson('The umbrella is blue.', { usage })))
    for (const prompt of ['Where is the heron?', 'Where is the crane?']) await gateway.chat({ prompt }, USE)
    const [one, other] = await entries(gateway)
    if (!one || !other) throw new Error('two answers were expected')
    expect(JSON.stringify([one, other])).not.toMatch(/umbrella|heron|Where|test\/any/)
    const { db } = gateway.app
    await db.updateTable('cache_entries').set({ sealed: other.sealed }).where('id', '=', one.id).execute()
    const { body, status } = await gateway.chat({ prompt: 'Where is the heron?' }, USE)
    expect([status, body.metadata.cache]).toEqual([200, { status: 'miss' }])
    expect(gateway.log.some(({ message }) => message.startsWith('a stored answer could not be read'))).toBe(true)
  })
})

describe('a shorter lifetime', () => {
  test('applies to answers that were stored before', async () => {
    const clock = createFakeClock()
    const long = await startGateway({ cache: { enabled: true, ttlMs: DAY_MS }, clock })
    await long.chat({ prompt: 'hi' }, USE)
    const { db } = long.app
    await db.updateTable('cache_entries').set({ created_at: '2025-12-30T00:00:00.000Z' }).execute()
    expect((await long.chat({ prompt: 'hi' }, USE)).body.metadata.cache).toEqual({ status: 'miss' })
  })
})

describe('the key of an answer', () => {
  const shared = sharedGateway({ cache })
  const base = { prompt: 'Where is the lift?', system_message: 'Be brief.' }

  test.each<[string, object]>([
    ['prompt', { prompt: 'Where is the stair?' }],
    ['system prompt', { system_message: 'Be long.' }],
    ['temperature', { temperature: 0.1 }],
    ['output limit', { max_tokens: 77 }],
    ['model', { model: 'test/other' }],
    ['policy', { smltp_policy: 'public' }],
  ])('contains the %s', async (_, change) => {
    const { chat } = await addGuardedTenant(shared.current, {
      settings: { ...SETTINGS, allowedSMLTPPolicies: ['ours', 'public'] },
    })
    const statusOf = async (body: object) => (await chat({ ...base, ...body }, USE)).body.metadata.cache?.status
    expect([await statusOf({}), await statusOf({}), await statusOf(change)]).toEqual(['miss', 'hit', 'miss'])
  })

  test.each([
    ['tools', { tools: [{ type: 'function', function: { name: 'look' } }] }],
    ['seed', { seed: 7 }],
    ['end user', { user: 'ada' }],
    ['response format', { response_format: { type: 'json_object' } }],
    ['reasoning effort', { reasoning_effort: 'low' }],
    ['stop sequences', { stop: ['.'] }],
  ])('contains the %s of an OpenAI request', async (_, change) => {
    const { post } = await addGuardedTenant(shared.current, { settings: SETTINGS })
    const body = { model: 'test/any', messages: [{ role: 'user', content: 'hi' }] }
    const statusOf = async (more: object) =>
      (await post(OPENAI_CHAT_PATH, { ...body, ...more }, USE)).body.gateway.cache.status
    expect([await statusOf({}), await statusOf({}), await statusOf(change)]).toEqual(['miss', 'hit', 'miss'])
  })

  test('contains the retrieved passages', async () => {
    const { call, chat } = shared.current
    const BASE = '/api/external/indexes'
    expect((await call('POST', BASE, { name: 'manual' })).status).toBe(201)
    const train = async (content: string) => {
      const body = multipart([{ fileName: 'lift.md', content }])
      expect((await call('POST', `${BASE}/manual/train`, body, { headers: MULTIPART })).status).toBe(200)
    }
    const ask = async () => {
      const { body } = await chat({ index: 'manual', prompt: 'Where is the lift?' }, USE)
      return [body.metadata.cache?.status, body.metadata.documents_retrieved]
    }
    await train('# Lift\n\nThe lift is in the hall.')
    expect([await ask(), await ask()]).toEqual([
      ['miss', 1],
      ['hit', 1],
    ])
    await train('# Lift\n\nThe lift is in the yard.')
    expect(await ask()).toEqual(['miss', expect.any(Number)])
  })
})

describeEachEngine('an answer is not stored', (engine) => {
  const shared = sharedGateway({ engine, cache })

  test.each([
    ['that reached its token limit', replyJson(chatJson('Too', { finishReason: 'length', usage }))],
    ['that the provider filtered', replyJson(chatJson('No', { finishReason: 'content_filter', usage }))],
    ['that is a refusal', replyJson(chatJson(null, { message: { refusal: 'I refuse.' }, usage }))],
    ['that failed', replyJson({ error: {} }, { status: 500 })],
  ])('%s', async (_, script) => {
    const { chat } = await addGuardedTenant(shared.current, { settings: SETTINGS })
    shared.current.upstream.script(script)
    await chat({ prompt: 'hi' }, USE)
    expect((await chat({ prompt: 'hi' }, USE)).body.metadata.cache).toEqual({ status: 'miss' })
    expect((await chat({ prompt: 'hi' }, USE)).body.metadata.cache).toMatchObject({ status: 'hit' })
  })

  test('whose stream breaks, or whose client leaves', async () => {
    const { chat, stream, key } = await addGuardedTenant(shared.current, { settings: SETTINGS })
    const { upstream } = shared.current
    const text = chatStream(['all ', 'of ', 'it'], { usage })
    upstream.script(replyCut(text, text.indexOf('"it"')))
    expect((await stream({ prompt: 'hi' }, USE)).done).toBe(false)
    const start = chatStream(['one '], { finishReason: null, done: false })
    upstream.script(replySteps([start], { ending: 'hang' }))
    const leave = new AbortController()
    const answer = await shared.current.openStream({ prompt: 'hi' }, { ...USE, key, signal: leave.signal })
    await answer.next()
    leave.abort()
    await upstream.requests.at(-1)?.aborted
    expect((await chat({ prompt: 'hi' }, USE)).body.metadata.cache).toEqual({ status: 'miss' })
  })

  test('that a fallback gave, because the first model may be available again', async () => {
    const { chat } = await addGuardedTenant(shared.current, { settings: SETTINGS })
    const chain = { model: 'test/one', fallback_models: [{ model: 'test/two' }] }
    shared.current.upstream.script(replyJson({ error: {} }, { status: 500 }))
    const first = await chat({ prompt: 'hi', ...chain }, USE)
    expect(first.body.metadata).toMatchObject({ served_model: 'test/two', cache: { status: 'miss' } })
    const second = await chat({ prompt: 'hi', ...chain }, USE)
    expect(second.body.metadata).toMatchObject({ served_model: 'test/one', cache: { status: 'miss' } })
    const third = await chat({ prompt: 'hi', ...chain }, USE)
    expect(third.body.metadata).toMatchObject({
      served_model: 'test/one',
      failover: { occurred: false, attempts: [] },
      cache: { status: 'hit' },
    })
  })

  test('that a guard blocked', async () => {
    const policy = { pii: { enabled: true, action: 'block', direction: 'output' } }
    const { chat } = await addGuardedTenant(shared.current, { policy, settings: SETTINGS })
    shared.current.upstream.script(replyJson(chatJson('The number is 4111 1111 1111 1111.', { usage })))
    expect((await chat({ prompt: 'hi' }, USE)).status).toBe(403)
    expect((await chat({ prompt: 'hi' }, USE)).body.metadata.cache).toEqual({ status: 'miss' })
  })

  test('that depends on the content of an address', async () => {
    const { post } = await addGuardedTenant(shared.current, { settings: SETTINGS })
    const image = { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }
    const body = { model: 'test/any', max_tokens: 9, messages: [{ role: 'user', content: [image] }] }
    for (let times = 0; times < 2; times++) {
      const answer = await post(MESSAGES_PATH, body, USE)
      expect(answer.body.gateway?.cache, answer.text).toEqual({ status: 'off', why: 'request' })
    }
  })

  test('that is larger than an answer may be', async () => {
    const { chat } = await addGuardedTenant(shared.current, { settings: SETTINGS })
    shared.current.upstream.script(replyJson(chatJson('long '.repeat(210_000), { usage })))
    for (let times = 0; times < 2; times++) {
      expect((await chat({ prompt: 'hi' }, USE)).body.metadata.cache).toEqual({ status: 'miss' })
    }
  })
})

describe('the cache is used', () => {
  const shared = sharedGateway({ cache })

  test.each([
    ['if the key asks for it', { cacheAnswers: true }, {}, {}, 'hit'],
    ['if the policy asks for it', {}, { cache: { mode: 'on' } }, {}, 'hit'],
    ['unless the request opts out', { cacheAnswers: true }, {}, asking('off'), undefined],
    ['unless the policy forbids it', { cacheAnswers: true }, { cache: { mode: 'off' } }, {}, 'off'],
    ['unless the policy forbids it, even if the request asks for it', {}, { cache: { mode: 'off' } }, USE, 'off'],
  ])('%s', async (_, key, policy, options, status) => {
    const { chat } = await addGuardedTenant(shared.current, { policy, settings: { ...SETTINGS, ...key } })
    await chat({ prompt: 'hi' }, options)
    const { body } = await chat({ prompt: 'hi' }, options)
    expect(body.metadata.cache?.status).toBe(status)
    if (status === 'off') expect(body.metadata.cache).toEqual({ status, why: 'policy' })
  })

  test('only if the operator enabled it; otherwise the answer says so', async () => {
    const gateway = await startGateway()
    expect((await gateway.chat({ prompt: 'hi' }, USE)).body.metadata.cache).toEqual({ status: 'off', why: 'operator' })
    expect((await gateway.chat({ prompt: 'hi' })).body.metadata).not.toHaveProperty('cache')
  })

  test('an unknown value of the header is a 400 without a receipt', async () => {
    const { chat, bills } = await addGuardedTenant(shared.current, { settings: SETTINGS })
    const { status, body, headers } = await chat({ prompt: 'hi' }, asking('yes'))
    expect([status, body]).toMatchObject([
      400,
      { error: 'Invalid X-AIGW-Cache', message: expect.stringContaining('use, refresh, off') },
    ])
    expect([headers['x-smltp-bundle-id'], await bills()]).toEqual([undefined, []])
  })
})

const SCHEMA = { type: 'object' }
const SURFACES: [string, string, object, (body: ReturnType<typeof JSON.parse>) => unknown][] = [
  [
    'OpenAI',
    OPENAI_CHAT_PATH,
    {
      messages: [{ role: 'user', content: 'hi' }],
      tools: [{ type: 'function', function: { name: 'look', parameters: SCHEMA } }],
    },
    (body) => body.choices[0].message.tool_calls[0].function,
  ],
  [
    'Anthropic',
    MESSAGES_PATH,
    {
      max_tokens: 9,
      messages: [{ role: 'user', content: 'hi' }],
      tools: [{ name: 'look', input_schema: SCHEMA }],
    },
    (body) => body.content.at(-1).input,
  ],
  [
    'Responses',
    RESPONSES_PATH,
    { input: 'hi', tools: [{ type: 'function', name: 'look', parameters: SCHEMA }] },
    (body) => body.output.at(-1).arguments,
  ],
]

describe.each(SURFACES)('an answer in the format of %s', (_, path, request, callIn) => {
  const shared = sharedGateway({ cache })
  const call = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"a":1}' } }

  test('comes from the cache as a whole and as a stream, with its tool calls', async () => {
    const { upstream } = shared.current
    const { post } = await addGuardedTenant(shared.current, { settings: SETTINGS })
    const before = upstream.requests.length
    const delta = { tool_calls: [{ index: 0, ...call }] }
    const first = `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`
    upstream.script(replySteps([first, chatStream([], { finishReason: 'tool_calls', usage })]))
    const body = { model: 'test/any', ...request }
    const streams = [await post(path, { ...body, stream: true }, USE), await post(path, { ...body, stream: true }, USE)]
    const whole = await post(path, body, USE)
    expect(upstream.requests.length - before).toBe(1)
    expect(whole.body.gateway.cache.status).toBe('hit')
    expect(callIn(whole.body)).toBeTruthy()
    // Ids, times and the member about the cache differ.
    const [live, stored] = streams.map(({ text }) =>
      text
        .replaceAll(/"gateway":\{.*?\}(?=[,}])/g, '')
        .replaceAll(
          /[\w-]*[0-9a-f]{8}-[0-9a-f-]{27}|(?:req-|resp_|msg_|fc_|chatcmpl-)[\w-]+|"created(?:_at)?":\d+/g,
          '',
        ),
    )
    expect(stored).toBe(live)
    expect(stored).toContain('look')
  })
})

test('embeddings come from the cache in every encoding', async () => {
  const gateway = await startGateway({ cache })
  const embed = async (body: object) => {
    const answer = await gateway.call('POST', '/v1/embeddings', { model: 'test/small', input: ['one'], ...body }, USE)
    expect(answer.status, answer.text).toBe(200)
    return { status: answer.headers['x-aigw-cache'], vector: answer.body.data[0].embedding, usage: answer.body.usage }
  }
  const first = await embed({})
  expect(first).toMatchObject({ status: 'miss', vector: [0.5, -0.25] })
  expect(await embed({})).toEqual({ ...first, status: 'hit' })
  const bytes = Buffer.from(Float32Array.of(0.5, -0.25).buffer).toString('base64')
  expect(await embed({ encoding_format: 'base64' })).toEqual({ ...first, status: 'hit', vector: bytes })
  expect((await embed({ dimensions: 2 })).status).toBe('miss')
  expect((await embed({ input: ['two'] })).status).toBe('miss')
  expect((await gateway.usage()).map(({ cost_nanos }) => cost_nanos > 0)).toEqual([true, false, false, true, true])
})

describe('guards inspect an answer from the cache', () => {
  const shared = sharedGateway({ cache })
  const FALCON = 'The falcon is in the hall.'
  const ruleOf = (action: string) => ({
    ...{ name: 'Birds', kind: 'dlp', detector: 'keywords', words: ['falcon'], direction: 'output', action },
  })

  test.each(['mask', 'block'])('with the rules that are in force now: %s', async (action) => {
    const { chat, tenant, bills, incidents } = await addGuardedTenant(shared.current, { settings: SETTINGS })
    shared.current.upstream.script(replyJson(chatJson(FALCON, { usage })))
    expect((await chat({ prompt: 'hi' }, USE)).body.choices[0]?.message.content).toBe(FALCON)
    expect((await tenant.call('POST', '/api/admin/guard-rules', ruleOf(action))).status).toBe(201)
    const again = await chat({ prompt: 'hi' }, USE)
    expect(again.text).not.toContain('falcon')
    expect(again.status).toBe(action === 'block' ? 403 : 200)
    expect(await incidents()).toHaveLength(1)
    expect((await bills()).map(({ outcome, cost_nanos }) => [outcome, cost_nanos > 0])).toEqual([
      ['complete', true],
      [action === 'block' ? 'filtered' : 'complete', false],
    ])
  })

  test('what it stores has pseudonyms; each request restores its own values', async () => {
    const policy = { pii: { enabled: true, action: 'tokenize' } }
    const { chat } = await addGuardedTenant(shared.current, { policy, settings: SETTINGS })
    shared.current.upstream.script(async (exchange) => {
      const { messages } = exchange.request.body as { messages: { content: string }[] }
      await replyJson(chatJson(`Echo: ${messages.at(-1)?.content}`, { usage }))(exchange)
    })
    const prompt = 'Write to ada.lovelace@analytical.org'
    const answers = [await chat({ prompt }, USE), await chat({ prompt }, USE)]
    expect(answers.map(({ body }) => body.metadata.cache?.status)).toEqual(['miss', 'hit'])
    for (const { body } of answers) expect(body.choices[0]?.message.content).toBe(`Echo: ${prompt}`)
  })

  test('a canary belongs to one key, so another key gets no stored answer', async () => {
    const policy = { canary: { enabled: true } }
    const { chat, tenant } = await addGuardedTenant(shared.current, { policy, settings: SETTINGS })
    const { secret } = await addKey(tenant.db, tenant.admin, { settings: SETTINGS })
    const own = [await chat({ prompt: 'hi' }, USE), await chat({ prompt: 'hi' }, USE)]
    const other = await shared.current.chat({ prompt: 'hi' }, { ...USE, key: secret })
    expect([...own, other].map(({ body }) => body.metadata.cache?.status)).toEqual(['miss', 'hit', 'miss'])
  })
})

describe('checks run for an answer from the cache', () => {
  const shared = sharedGateway({ cache })

  test('rights and policies', async () => {
    const { chat, tenant } = await addGuardedTenant(shared.current, { settings: SETTINGS })
    await chat({ prompt: 'hi' }, USE)
    const { secret: key } = await addKey(tenant.db, tenant.admin, {
      settings: { ...SETTINGS, allowedModels: ['test/other'] },
    })
    expect((await shared.current.chat({ prompt: 'hi' }, { ...USE, key })).status).toBe(403)
    expect((await chat({ prompt: 'hi' }, USE)).status).toBe(200)
    const changed = { policy: { deniedModels: ['test/any'] } }
    expect((await tenant.call('PUT', '/api/external/smltp-policies/ours', changed)).status).toBe(200)
    expect((await chat({ prompt: 'hi' }, USE)).status).toBe(403)
  })

  test('request limits and budgets', async () => {
    const limited = await addGuardedTenant(shared.current, { settings: { ...SETTINGS, dailyLimit: 2 } })
    const statuses = []
    for (let times = 0; times < 3; times++) statuses.push((await limited.chat({ prompt: 'hi' }, USE)).status)
    expect(statuses).toEqual([200, 200, 429])
    const settings = { ...SETTINGS, billingMode: 'usage-by-model' as const }
    const { chat, tenant } = await addGuardedTenant(shared.current, { settings })
    const budget = { usage_by_model: 1, dollar_limit_nanos: 200_000 }
    await tenant.db.updateTable('users').set(budget).where('id', '=', tenant.admin.id).execute()
    const statusOf = async (prompt: string) => (await chat({ prompt, max_tokens: 5 }, USE)).status
    // Twenty calls would cost 420,000.
    for (let times = 0; times < 20; times++) expect(await statusOf('hi')).toBe(200)
    let other = 0
    while ((await statusOf(`other ${other}`)) === 200) other += 1
    expect(other).toBeGreaterThan(3)
    expect(await statusOf('hi')).toBe(429)
  })
})

describeEachEngine('an Idempotency-Key', (engine) => {
  test('repeats its own answer, even if that answer came from the cache', async () => {
    const gateway = await startGateway({ engine, cache })
    const keyed = (how: string) => ({ headers: { ...asking(how).headers, 'idempotency-key': 'k-1' } })
    await gateway.chat({ prompt: 'hi' }, USE)
    const hit = await gateway.chat({ prompt: 'hi' }, keyed('use'))
    expect(hit.body.metadata.cache).toMatchObject({ status: 'hit' })
    const repeat = await gateway.chat({ prompt: 'hi' }, keyed('refresh'))
    expect([repeat.text, repeat.headers['idempotent-replayed']]).toEqual([hit.text, 'true'])
    expect([calls(gateway), (await gateway.usage()).length]).toEqual([1, 2])
  })
})

describeEachEngine('the stored answers of a tenant', (engine) => {
  test('are counted and deleted by its administrator, with an entry in the log', async () => {
    const gateway = await startGateway({ engine, cache })
    const [ours, theirs] = [
      await addGuardedTenant(gateway, { settings: SETTINGS }),
      await addGuardedTenant(gateway, { settings: SETTINGS }),
    ]
    for (const { chat } of [ours, theirs]) {
      for (const prompt of ['one', 'two']) await chat({ prompt }, USE)
    }
    const show = async () => (await ours.tenant.call('GET', '/api/admin/cache')).body.cache
    expect(await show()).toEqual({
      ...{ enabled: true, ttlSeconds: 3_600, entries: 2, maxBytes: 67_108_864 },
      bytes: expect.any(Number),
      oldestAt: expect.any(String),
    })
    const cleared = await ours.tenant.call('DELETE', '/api/admin/cache')
    expect([cleared.status, cleared.body.deleted]).toEqual([200, 2])
    expect(await show()).toMatchObject({ entries: 0, bytes: 0, oldestAt: null })
    expect((await ours.tenant.audit()).at(-1)).toMatchObject({ type: 'cache_management', operation: 'delete' })
    expect((await ours.chat({ prompt: 'one' }, USE)).body.metadata.cache?.status).toBe('miss')
    expect((await theirs.chat({ prompt: 'one' }, USE)).body.metadata.cache?.status).toBe('hit')
  })

  test('fit into their limit: the oldest are deleted first', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, cache: { enabled: true, maxBytes: 4_000 }, clock })
    const statusOf = async (prompt: string) => {
      clock.advance(1)
      return (await gateway.chat({ prompt }, USE)).body.metadata.cache?.status
    }
    const prompts = Array.from({ length: 20 }, (_, at) => `question ${at}`)
    for (const prompt of prompts) expect(await statusOf(prompt)).toBe('miss')
    const stored = await entries(gateway)
    const bytes = stored.reduce((sum, entry) => sum + Number(entry.bytes), 0)
    expect(stored.length).toBeGreaterThan(3)
    expect(bytes).toBeLessThanOrEqual(4_000)
    expect(await statusOf('question 19')).toBe('hit')
    expect(await statusOf('question 0')).toBe('miss')
    gateway.upstream.script(replyJson(chatJson('long '.repeat(1_000), { usage })))
    expect([await statusOf('a long answer'), await statusOf('a long answer')]).toEqual(['miss', 'miss'])
  })
})
