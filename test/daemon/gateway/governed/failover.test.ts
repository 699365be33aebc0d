import { describe, expect, test } from 'vitest'
import type { Config } from '../../../../src/daemon/config/config.ts'
import { TURN_WAIT_MS } from '../../../../src/daemon/gateway/room.ts'
import { addKey, addUser } from '../../../accounts.ts'
import { deferred } from '../../../deferred.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, type GatewayOptions, startGateway, textOf, upstreamProvider } from '../../../harness.ts'
import { recordedChanges } from '../../../recorded-changes.ts'
import {
  chatJson,
  chatStream,
  hang,
  replyCut,
  replyJson,
  replyRaw,
  replySteps,
  resetAtOnce,
  type Script,
  startUpstream,
  type Upstream,
} from '../../../upstream.ts'

const usage = { prompt_tokens: 12, completion_tokens: 7 }
const down = replyJson({ error: {} }, { status: 503 })
const limited = (seconds: string) => replyJson({ error: {} }, { status: 429, headers: { 'retry-after': seconds } })
const whole = (text: string) => replyJson(chatJson(text, { usage }))
const streamed = (text: string) => replyRaw(chatStream([text], { usage }))
const started = chatStream(['half an '], { finishReason: null, done: false })

/** Each model responds with its own script. */
function byModel(gateway: Gateway, scripts: Record<string, Script>): void {
  gateway.upstream.fallback((exchange) => {
    const { model } = exchange.request.body as { model: string }
    return (scripts[model] ?? hang)(exchange)
  })
}

const asked = (gateway: Gateway) => gateway.upstream.requests.map(({ body }) => (body as { model: string }).model)
const chain = { prompt: 'hi', models: ['test/a', 'test/b'] }

async function hopsIn(gateway: Gateway) {
  const { db } = gateway.app
  const events = await db.selectFrom('outbox_events').selectAll().orderBy('id').execute()
  const entries = (await recordedChanges(db)).filter(({ type }) => type === 'api_access')
  return { events: events.map((event) => ({ ...event, data: JSON.parse(event.data) })), entries }
}

describeEachEngine('each step of a chain to its next model', (engine) => {
  test('is one event and one audit entry, in the commit of the bill', async () => {
    const gateway = await startGateway({ engine })
    byModel(gateway, { a: down, b: resetAtOnce, c: whole('from c') })
    const { body, headers } = await gateway.chat({ prompt: 'hi', models: ['test/a', 'test/b', 'test/c'] })
    expect(body.metadata.failover).toMatchObject({ occurred: true, attempts: [{}, {}, { status: 'served' }] })
    const { events, entries } = await hopsIn(gateway)
    const [user] = await gateway.app.db.selectFrom('users').selectAll().execute()
    const [key] = await gateway.app.db.selectFrom('api_keys').selectAll().execute()
    const data = events.map((event) => event.data).sort((a, b) => (a.failedModel < b.failedModel ? -1 : 1))
    const same = { latencyMs: expect.any(Number), userId: user?.id, apiKeyId: key?.id }
    expect(data).toEqual([
      { failedModel: 'test/a', reason: 'server_error', nextModel: 'test/b', ...same },
      { failedModel: 'test/b', reason: 'connection_error', nextModel: 'test/c', ...same },
    ])
    for (const event of events) expect(event).toMatchObject({ type: 'api:model_failover', tenant_id: user?.tenant_id })
    expect(entries).toHaveLength(2)
    for (const entry of entries) {
      expect(entry).toMatchObject({
        operation: 'model_failover',
        request_id: headers['x-request-id'],
        endpoint: 'POST /api/external/chat/completions',
        severity: 'warning',
        description: expect.stringMatching(/^External API: failed over from "test\/\w" to "test\/\w" \(\w+\)$/),
      })
    }
  })

  test('is recorded before the error of an exhausted chain is sent', async () => {
    const gateway = await startGateway({ engine })
    byModel(gateway, { a: down, b: down })
    expect((await gateway.chat(chain)).status).toBe(502)
    const { events, entries } = await hopsIn(gateway)
    expect([events.length, entries.length]).toEqual([1, 1])
    expect(events[0]?.data).toMatchObject({ failedModel: 'test/a', nextModel: 'test/b' })
    expect(await gateway.usage()).toEqual([])
  })
})

test('a request without failover leaves no event, nor does a single model that fails', async () => {
  const gateway = await startGateway()
  await gateway.chat(chain)
  byModel(gateway, { any: down })
  await gateway.chat({ prompt: 'hi' })
  expect(await hopsIn(gateway)).toEqual({ events: [], entries: [] })
})

test('a failover after the client has disconnected is recorded too', async () => {
  const gateway = await startGateway()
  gateway.upstream.script(down, hang)
  const leave = new AbortController()
  const answer = gateway.chat(chain, { signal: leave.signal })
  await gateway.upstream.nextRequest()
  const second = await gateway.upstream.nextRequest()
  leave.abort()
  await expect(answer).rejects.toThrow()
  await second.aborted
  await gateway.restart()
  expect((await hopsIn(gateway)).events).toHaveLength(1)
})

describe('the smallest Retry-After of rate-limited models is returned', () => {
  test('with the 429 of a chain in which all models were rate-limited', async () => {
    const gateway = await startGateway()
    gateway.upstream.script(limited('30'), limited('7'))
    const { status, headers } = await gateway.chat(chain)
    expect([status, headers['retry-after']]).toEqual([429, '7'])
  })

  test('but not with a 502', async () => {
    const gateway = await startGateway()
    gateway.upstream.script(limited('30'), down)
    const { status, headers } = await gateway.chat(chain)
    expect([status, headers['retry-after']]).toEqual([502, undefined])
  })
})

describe('a prompt that is too long for a model', () => {
  const tooLong = replyJson({ error: { code: 'context_length_exceeded', message: 'secret' } }, { status: 400 })
  const unfit = replyJson({ error: { message: 'secret' } }, { status: 400 })
  const three = ['test/a', 'test/b', 'test/c']

  test.each([undefined, ['timeout']])('goes to the next model, also with `on` %j', async (on) => {
    const gateway = await startGateway()
    for (const stream of [false, true]) {
      byModel(gateway, { a: tooLong, b: stream ? streamed('from b') : whole('from b') })
      const request = { ...chain, ...(on && { redundancy: { on } }) }
      const answer = stream ? (await gateway.stream(request)).frames[0]?.data : (await gateway.chat(request)).body
      expect(answer).toMatchObject({
        metadata: {
          served_model: 'test/b',
          failover: {
            attempts: [{ model: 'test/a', status: 'failed', reason: 'context_length' }, { status: 'served' }],
          },
        },
      })
    }
    const { events } = await hopsIn(gateway)
    expect(events.map(({ data }) => [data.failedModel, data.reason, data.nextModel])).toEqual(
      Array(2).fill(['test/a', 'context_length', 'test/b']),
    )
  })

  test('is a 400 when every model rejects it, after one call each', async () => {
    const gateway = await startGateway({ failover: { sameModelRetries: 2 } })
    byModel(gateway, { a: tooLong, b: tooLong, c: tooLong })
    const { status, body, text } = await gateway.chat({ prompt: 'hi', models: three })
    expect([status, body.error, body.reason]).toEqual([400, 'Provider rejected the request', 'context_length'])
    expect(text).not.toContain('secret')
    expect(asked(gateway)).toEqual(['a', 'b', 'c'])
  })

  test('is the 400 of a model that was down for the first call', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ clock, failover: { sameModelRetries: 1 } })
    gateway.upstream.script(down, tooLong)
    const answer = gateway.chat({ prompt: 'hi', model: 'test/a' })
    await gateway.upstream.nextRequest()
    await untilWaiting(clock, 250)
    clock.advance(250)
    expect([(await answer).status, (await answer).body.reason]).toEqual([400, 'context_length'])
  })

  test('is a 400 when the others reject the request too', async () => {
    const gateway = await startGateway()
    byModel(gateway, { a: tooLong, b: unfit, c: tooLong })
    const { status, body } = await gateway.chat({ prompt: 'hi', models: three })
    expect([status, body.reason, asked(gateway)]).toEqual([400, 'context_length', ['a', 'b', 'c']])
  })

  test('is another failed attempt when one model was down', async () => {
    const gateway = await startGateway()
    byModel(gateway, { a: tooLong, b: down, c: tooLong })
    const { status, body } = await gateway.chat({ prompt: 'hi', models: three })
    expect([status, body.attempts]).toMatchObject([
      502,
      [{ reason: 'context_length' }, { reason: 'server_error' }, { reason: 'context_length' }],
    ])
  })

  test('does not count against the model', async () => {
    const gateway = await startGateway()
    byModel(gateway, { a: tooLong, b: whole('from b') })
    for (let request = 0; request < 7; request++) await gateway.chat(chain)
    expect(asked(gateway)).toEqual(Array(7).fill(['a', 'b']).flat())
  })
})

test('a chain of silent models ends when all timeouts have passed, and no later', async () => {
  const clock = createFakeClock()
  const gateway = await startGateway({ clock })
  gateway.upstream.fallback(hang)
  const models = [
    { model: 'test/a', timeout_ms: 1_000 },
    { model: 'test/b', timeout_ms: 3_000 },
  ]
  const answer = gateway.chat({ prompt: 'hi', models, redundancy: { timeout_ms: 200_000 } })
  for (const { timeout_ms: timeoutMs } of models) {
    const request = await gateway.upstream.nextRequest()
    clock.advance(timeoutMs)
    await request.aborted
  }
  expect((await answer).body).toMatchObject({
    attempts: [
      { model: 'test/a', reason: 'timeout', latency_ms: 1_000 },
      { model: 'test/b', reason: 'timeout', latency_ms: 3_000 },
    ],
  })
})

describe('redundancy.commit: "complete"', () => {
  const complete = { ...chain, redundancy: { commit: 'complete' } }
  const cut = chatStream(['half an ', 'answer'], { usage })

  test.each([
    ['is cut', replyCut(cut, cut.indexOf('answer'), 'reset')],
    ['just ends', replySteps([started])],
    ['is garbled', replySteps([started, 'data: {"cho\n\n'])],
    ['reports an error', replySteps([started, 'data: {"error":{"message":"x"}}\n\n'])],
    ['ends for an unknown reason', replySteps([started, chatStream([], { finishReason: 'weary' })])],
  ])('answers with the next model when a stream %s, and bills only that model', async (_how, broken) => {
    const gateway = await startGateway()
    byModel(gateway, { a: broken, b: streamed('whole') })
    const { frames, done } = await gateway.stream(complete)
    expect([textOf(frames), done]).toEqual(['whole', true])
    expect(await gateway.usage()).toEqual([expect.objectContaining({ served_model: 'test/b', outcome: 'complete' })])
    expect((await hopsIn(gateway)).events).toHaveLength(1)
  })

  test('is a plain 502 when every stream breaks', async () => {
    const gateway = await startGateway()
    byModel(gateway, { a: replySteps([started]), b: replySteps([started]) })
    const { status, text } = await gateway.chat({ ...complete, stream: true })
    expect([status, text.includes('half')]).toEqual([502, false])
  })

  test('streams an answer that exceeds the hold-back buffer, and ends it with an `error` frame', async () => {
    const gateway = await startGateway()
    const long = 'x'.repeat(600_000)
    const held = deferred()
    byModel(gateway, {
      a: replySteps([chatStream([long, long], { finishReason: null, done: false }), held.promise]),
      b: streamed('never asked'),
    })
    const answer = await gateway.openStream(complete)
    const first = await answer.next()
    expect(String(first.value)).toContain('"type":"metadata"')
    held.resolve()
    let text = ''
    for (let step = await answer.next(); !step.done; step = await answer.next()) text += String(step.value)
    expect(text).toContain('"type":"error"')
    expect(asked(gateway)).toEqual(['a'])
  })

  test('without it the first token commits a stream', async () => {
    const gateway = await startGateway()
    byModel(gateway, { a: replySteps([started]), b: streamed('never asked') })
    const { frames, done } = await gateway.stream(chain)
    expect([textOf(frames), done, frames.at(-1)?.type]).toEqual(['half an ', false, 'error'])
  })

  test('is validated', async () => {
    const gateway = await startGateway()
    const { status, body } = await gateway.chat({ ...chain, redundancy: { commit: 'never' } })
    expect([status, body]).toEqual([400, expect.objectContaining({ error: 'Invalid redundancy' })])
  })
})

describe('a non-streamed answer', () => {
  test('does not fail over if `on` excludes the failure', async () => {
    const gateway = await startGateway()
    byModel(gateway, { a: replyJson(chatJson('x', { finishReason: null })), b: whole('never asked') })
    expect((await gateway.chat({ ...chain, redundancy: { on: ['timeout'] } })).status).toBe(502)
    expect(asked(gateway)).toEqual(['a'])
  })
})

describe('a rejection of the request', () => {
  const refuses = replyJson({ error: { message: 'no such tool', type: 'invalid_request_error' } }, { status: 400 })
  const abc = { prompt: 'hi', models: ['test/a', 'test/b', 'test/c'] }

  test('by a fallback is another failure: the next model is called', async () => {
    const gateway = await startGateway()
    byModel(gateway, { a: down, b: refuses, c: whole('from c') })
    const { body } = await gateway.chat(abc)
    expect(body.metadata.failover?.attempts).toMatchObject([
      { model: 'test/a', reason: 'server_error' },
      { model: 'test/b', reason: 'bad_request' },
      { model: 'test/c', status: 'served' },
    ])
  })
})

describe('failover.same_model_retries', () => {
  const failover: Config['failover'] = { sameModelRetries: 1 }

  test('retries a model after the requested wait, and lists both attempts', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ clock, failover })
    gateway.upstream.script(limited('1'), whole('second try'))
    const answer = gateway.chat(chain)
    await gateway.upstream.nextRequest()
    await untilWaiting(clock, 1_000)
    expect(asked(gateway)).toEqual(['a'])
    clock.advance(1_000)
    const { body } = await answer
    expect(body.metadata.failover).toEqual({
      occurred: false,
      attempts: [
        { model: 'test/a', status: 'failed', reason: 'rate_limit', latency_ms: expect.any(Number) },
        { model: 'test/a', status: 'served', latency_ms: expect.any(Number) },
      ],
    })
    expect(await hopsIn(gateway)).toEqual({ events: [], entries: [] })
  })

  test.each([
    ['the wait is longer than two seconds', limited('3')],
    ['a rate limit names no wait', replyJson({ error: {} }, { status: 429 })],
    ['a server that is down names a wait', replyJson({ error: {} }, { status: 503, headers: { 'retry-after': '3' } })],
    ['the server timed out', replyJson({ error: {} }, { status: 504 })],
    ['our credentials are refused', replyJson({ error: {} }, { status: 401 })],
  ])('fails over at once when %s', async (_why, script) => {
    const gateway = await startGateway({ failover })
    byModel(gateway, { a: script, b: whole('from b') })
    const { body } = await gateway.chat(chain)
    expect([body.metadata.served_model, asked(gateway)]).toEqual(['test/b', ['a', 'b']])
  })

  test('leaves no more time for the first token than one call has', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ clock, failover })
    gateway.upstream.script(down, hang, streamed('from b'))
    const answer = gateway.stream({ ...chain, redundancy: { first_token_timeout_ms: 2_000 } })
    await gateway.upstream.nextRequest()
    await untilWaiting(clock, 250)
    clock.advance(250)
    const silent = await gateway.upstream.nextRequest()
    clock.advance(1_750)
    await silent.aborted
    expect(textOf((await answer).frames)).toBe('from b')
    expect(asked(gateway)).toEqual(['a', 'a', 'b'])
  })

  test('is not applied to a model whose circuit is open', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ clock, failover })
    byModel(gateway, { a: down, b: whole('from b') })
    for (const retries of [1, 1, 0]) {
      const answer = gateway.chat(chain)
      await gateway.upstream.nextRequest()
      if (retries > 0) {
        await untilWaiting(clock, 250)
        clock.advance(250)
        await gateway.upstream.nextRequest()
      }
      await gateway.upstream.nextRequest()
      expect((await answer).body.metadata.served_model).toBe('test/b')
    }
    // The fifth failure opened the circuit. The probe is a single call.
    clock.advance(5_000)
    expect((await gateway.chat(chain)).body.metadata.failover?.attempts).toMatchObject([
      { model: 'test/a', reason: 'server_error' },
      { model: 'test/b', status: 'served' },
    ])
    expect(asked(gateway).join('')).toBe('aabaababab')
  })

  test('ends when the client disconnects', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ clock, failover })
    gateway.upstream.script(limited('1'))
    const leave = new AbortController()
    const answer = gateway.chat({ prompt: 'hi' }, { signal: leave.signal })
    await gateway.upstream.nextRequest()
    await untilWaiting(clock, 1_000)
    leave.abort()
    await expect(answer).rejects.toThrow()
    await gateway.close()
    expect(asked(gateway)).toEqual(['any'])
  })
})

describe('a model that is down', () => {
  async function broken() {
    const clock = createFakeClock()
    const gateway = await startGateway({ clock })
    byModel(gateway, { a: down, b: whole('from b') })
    for (let request = 0; request < 5; request++) await gateway.chat(chain)
    gateway.upstream.requests.splice(0)
    return { clock, gateway }
  }

  test('is skipped while a fallback exists, which is listed as a failed attempt with an event', async () => {
    const { gateway } = await broken()
    const { body } = await gateway.chat(chain)
    expect(body.metadata.failover).toEqual({
      occurred: true,
      attempts: [
        { model: 'test/a', status: 'failed', reason: 'circuit_open', latency_ms: 0 },
        { model: 'test/b', status: 'served', latency_ms: expect.any(Number) },
      ],
    })
    expect(asked(gateway)).toEqual(['b'])
    const { events } = await hopsIn(gateway)
    expect(events.filter(({ data }) => data.reason === 'circuit_open')).toHaveLength(1)
  })

  test('is called without an alternative: alone, and as the last of a chain', async () => {
    const { gateway } = await broken()
    byModel(gateway, { a: whole('a is back'), b: down })
    expect((await gateway.chat({ prompt: 'hi', model: 'test/a' })).body.choices[0]?.message.content).toBe('a is back')
    expect(asked(gateway)).toEqual(['a'])
  })

  test('is probed at the end of the chain if its probe became due meanwhile', async () => {
    const { clock, gateway } = await broken()
    byModel(gateway, { a: whole('a is back'), b: hang })
    const answer = gateway.chat({ ...chain, redundancy: { timeout_ms: 5_000 } })
    const silent = await gateway.upstream.nextRequest()
    clock.advance(5_000)
    await silent.aborted
    expect((await answer).body.metadata).toMatchObject({
      served_model: 'test/a',
      failover: {
        occurred: false,
        attempts: [
          { model: 'test/a', reason: 'circuit_open', latency_ms: 0 },
          { model: 'test/b', reason: 'timeout', latency_ms: 5_000 },
          { model: 'test/a', status: 'served' },
        ],
      },
    })
    expect(asked(gateway)).toEqual(['b', 'a'])
  })

  test('is not called again at the end of the chain before its probe is due', async () => {
    const { gateway } = await broken()
    byModel(gateway, { a: whole('a is back'), b: down })
    expect((await gateway.chat(chain)).status).toBe(502)
    expect(asked(gateway)).toEqual(['b'])
  })

  test('gets requests again within 10 s of its recovery', async () => {
    const { clock, gateway } = await broken()
    for (let second = 0; second < 60; second++) {
      clock.advance(1_000)
      await gateway.chat(chain)
    }
    // After 5 s, and then every 10 s.
    expect(asked(gateway).filter((model) => model === 'a')).toHaveLength(6)
    byModel(gateway, { a: whole('a is back'), b: whole('from b') })
    let seconds = 0
    for (; (await gateway.chat(chain)).body.metadata.served_model !== 'test/a'; seconds++) clock.advance(1_000)
    expect(seconds).toBeLessThanOrEqual(10)
    expect((await gateway.chat(chain)).body.metadata.served_model).toBe('test/a')
  })
})

describe('load', () => {
  /** An ordinary key, because the operator's key is exempt. */
  async function ordinaryKey(gateway: Gateway) {
    const { db } = gateway.app
    const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
    const { secret } = await addKey(db, await addUser(db, { tenant_id }))
    return { key: secret }
  }

  test('a further chat of a key waits in a queue, also until the end of a stream', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ clock, concurrency: { perKey: 1, waitingPerKey: 5, perProvider: 0 } })
    const as = await ordinaryKey(gateway)
    const held = deferred()
    gateway.upstream.script(replySteps([started, held.promise, chatStream(['answer'], { usage })]), whole('second'))
    const first = await gateway.openStream({ prompt: 'hi' }, as)
    await first.next()
    const second = gateway.chat({ prompt: 'hi' }, as)
    await untilWaiting(clock, TURN_WAIT_MS)
    expect(gateway.upstream.requests).toHaveLength(1)
    held.resolve()
    for (let step = await first.next(); !step.done; ) step = await first.next()
    expect((await second).body.choices[0]?.message.content).toBe('second')
  })

  test('a chat beyond the queue limit is 503 with Retry-After, and other keys are served', async () => {
    const gateway = await startGateway({ concurrency: { perKey: 1, waitingPerKey: 0, perProvider: 0 } })
    const as = await ordinaryKey(gateway)
    gateway.upstream.script(hang)
    const leave = new AbortController()
    const first = gateway.chat({ prompt: 'hi' }, { ...as, signal: leave.signal })
    const running = await gateway.upstream.nextRequest()
    const { status, body, headers } = await gateway.chat({ prompt: 'hi' }, as)
    expect([status, body, headers['retry-after']]).toEqual([
      503,
      expect.objectContaining({ error: 'Service unavailable', message: expect.stringContaining('may run 1 at once') }),
      '2',
    ])
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
    leave.abort()
    await expect(first).rejects.toThrow()
    await running.aborted
  })

  test('a provider at its limit is skipped while a fallback has a free slot, which is a failed attempt', async () => {
    const gateway = await startGateway({ concurrency: { perKey: 0, waitingPerKey: 0, perProvider: 1 } })
    gateway.upstream.script(hang)
    const leave = new AbortController()
    const first = gateway.chat({ prompt: 'hi' }, { signal: leave.signal })
    const running = await gateway.upstream.nextRequest()
    const { status, body } = await gateway.chat({ prompt: 'hi', models: ['test/a', 'local/extract'] })
    expect([status, body.metadata.failover]).toEqual([
      200,
      {
        occurred: true,
        attempts: [
          { model: 'test/a', status: 'failed', reason: 'overloaded', latency_ms: expect.any(Number) },
          { model: 'local/extract', status: 'served', latency_ms: expect.any(Number) },
        ],
      },
    ])
    expect((await gateway.chat(chain)).status).toBe(503)
    leave.abort()
    await expect(first).rejects.toThrow()
    await running.aborted
  })

  /** Runs a test with a provider of three keys, and the operator's chats to it. */
  async function withKeys(
    more: GatewayOptions,
    run: (given: {
      upstream: Upstream
      gateway: Gateway
      chat: (body: object, signal?: AbortSignal) => ReturnType<Gateway['chat']>
    }) => Promise<void>,
  ) {
    const upstream = await startUpstream()
    const apiKeys = ['1', '2', '3'].map((digit) => ({ key: `sk-${digit.repeat(20)}`, weight: 1 }))
    const provider = { ...upstreamProvider('keyed', upstream.url), apiKey: apiKeys[0]?.key, apiKeys }
    const gateway = await startGateway({ providers: [provider], ...more })
    const chat = (body: object, signal?: AbortSignal) =>
      gateway.chat({ prompt: 'hi', model: 'keyed/any', ...body }, signal && { signal })
    try {
      await run({ upstream, gateway, chat })
    } finally {
      await upstream.close()
    }
  }

  test('the keys of a provider at its limit are not tried one after another', () =>
    withKeys({ concurrency: { perKey: 0, waitingPerKey: 0, perProvider: 1 } }, async ({ upstream, gateway, chat }) => {
      upstream.script(hang)
      const leave = new AbortController()
      const first = chat({}, leave.signal)
      const running = await upstream.nextRequest()
      expect((await chat({})).status).toBe(503)
      expect(gateway.log.filter(({ facts }) => facts.reason === 'overloaded')).toHaveLength(1)
      leave.abort()
      await expect(first).rejects.toThrow()
      await running.aborted
    }))

  test("the time in a provider's queue leaves the other keys their time", () => {
    const clock = createFakeClock()
    const concurrency = { perKey: 0, waitingPerKey: 5, perProvider: 1 }
    return withKeys({ clock, concurrency }, async ({ upstream, chat }) => {
      const held = deferred()
      const answer = JSON.stringify(chatJson('first', { usage }))
      upstream.script(replySteps([held.promise, answer]), limited('60'), whole('second'))
      const first = chat({})
      await upstream.nextRequest()
      const second = chat({ redundancy: { timeout_ms: 4_000 } })
      await untilWaiting(clock, TURN_WAIT_MS)
      clock.advance(5_000)
      held.resolve()
      await first
      const { status, body } = await second
      expect([status, body.choices?.[0]?.message.content]).toEqual([200, 'second'])
    })
  })

  test('a provider slot is released by an answer, a failure and a disconnect', async () => {
    const gateway = await startGateway({ concurrency: { perKey: 0, waitingPerKey: 0, perProvider: 1 } })
    gateway.upstream.script(whole('one'), down, streamed('two'), replySteps([started]))
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(502)
    expect((await gateway.stream({ prompt: 'hi' })).done).toBe(true)
    expect((await gateway.stream({ prompt: 'hi' })).done).toBe(false)
    gateway.upstream.script(hang)
    const leave = new AbortController()
    const gone = gateway.chat({ prompt: 'hi' }, { signal: leave.signal })
    for (let request = 0; request < 4; request++) await gateway.upstream.nextRequest()
    const last = await gateway.upstream.nextRequest()
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(503)
    leave.abort()
    await expect(gone).rejects.toThrow()
    await last.aborted
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
  })
})

/** Lets the daemon run until a timer is set for `ms`; the timers of connections have other durations. */
async function untilWaiting(clock: ReturnType<typeof createFakeClock>, ms: number): Promise<void> {
  while (!clock.dueIn(ms)) await new Promise((resolve) => setImmediate(resolve))
}
