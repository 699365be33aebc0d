import { describe, expect, test } from 'vitest'
import { createFakeClock } from '../../../fake-clock.ts'
import { startGateway, textOf } from '../../../harness.ts'
import {
  chatJson,
  chatStream,
  hang,
  replyCut,
  replyJson,
  replyRaw,
  replySteps,
  resetAtOnce,
} from '../../../upstream.ts'

const usage = { prompt_tokens: 12, completion_tokens: 7 }

describe('no truncated answer is reported as a success', () => {
  const whole = chatStream(['one ', 'two ', 'three'], { usage })
  const afterFirst = whole.indexOf('two ')

  const started = chatStream(['one '], { finishReason: null, done: false })

  test.each([
    ['a reset', replyCut(whole, afterFirst, 'reset')],
    ['a clean end', replyCut(whole, afterFirst, 'end')],
    ['a connection closed in order', replyCut(whole, afterFirst, 'close')],
    ['a [DONE] without a finish_reason', replySteps([started, 'data: [DONE]\n\n'])],
    ['an event that is not JSON', replySteps([started, 'data: {"cho\n\n'])],
    ['an error object in the stream', replySteps([started, 'data: {"error":{"message":"x"}}\n\n'])],
    ['an unknown finish reason', replySteps([started, chatStream([], { finishReason: 'weary' })])],
  ])(
    'a stream that breaks by %s ends with an error frame and without [DONE], and its output is billed',
    async (_how, script) => {
      const gateway = await startGateway()
      gateway.upstream.script(script)
      const { frames, done } = await gateway.stream({ prompt: 'hi' })
      expect(done).toBe(false)
      expect(textOf(frames)).toBe('one ')
      expect(frames.at(-1)).toEqual({
        type: 'error',
        data: {
          error: 'Provider interrupted',
          message: expect.any(String),
          reason: expect.any(String),
          request_id: expect.stringMatching(/^req-/),
        },
      })
      expect(frames.filter((frame) => frame.type === 'usage')).toEqual([])
      const rows = await gateway.usage()
      expect(rows).toHaveLength(1)
      expect(['truncated', 'error']).toContain(rows[0]?.outcome)
      expect(rows[0]?.output_tokens).toBeGreaterThan(0)
    },
  )

  test.each([
    ['a body cut short', replyCut(JSON.stringify(chatJson('one two', { usage })), 120, 'end')],
    ['a body without finish_reason', replyJson(chatJson('one two', { finishReason: null, usage }))],
    ['a body without choices', replyJson({ id: 'x', object: 'chat.completion' })],
    ['a body that is not JSON', replyRaw('<html>', { contentType: 'application/json' })],
    ['a reset', resetAtOnce],
    ['a 500', replyJson({ error: { message: 'secret detail' } }, { status: 500 })],
    ['a refused credential', replyJson({ error: { message: 'secret detail' } }, { status: 401 })],
  ])('a complete answer that fails by %s is a 502 with its attempt, and is not billed', async (_how, script) => {
    const gateway = await startGateway()
    gateway.upstream.script(script)
    const { status, body, headers, text } = await gateway.chat({ prompt: 'hi' })
    expect(status).toBe(502)
    expect(body).toEqual({
      success: false,
      error: 'All model attempts failed',
      message: expect.stringMatching(/^All 1 model attempt\(s\) failed \(last: test\/any — \w+\)$/),
      request_id: headers['x-request-id'],
      bundle_id: headers['x-smltp-bundle-id'],
      attempts: [{ model: 'test/any', status: 'failed', reason: expect.any(String), latency_ms: expect.any(Number) }],
    })
    expect(text).not.toContain('secret detail')
    expect(await gateway.usage()).toEqual([])
  })

  test('a rate-limited upstream is a 429 with its Retry-After', async () => {
    const gateway = await startGateway()
    gateway.upstream.script(replyJson({ error: {} }, { status: 429, headers: { 'retry-after': '7' } }))
    const { status, body, headers } = await gateway.chat({ prompt: 'hi' })
    expect([status, body.error, headers['retry-after']]).toEqual([429, 'All model attempts failed', '7'])
  })

  test('a bad request at the upstream is a 400 for the caller', async () => {
    const gateway = await startGateway()
    gateway.upstream.script(replyJson({ error: { message: 'secret', code: 'content_filter' } }, { status: 400 }))
    const { status, body, text } = await gateway.chat({ prompt: 'hi', fallback_models: ['test/b'] })
    expect([status, body.error, body.reason]).toEqual([400, 'Provider rejected the request', 'content_filter'])
    expect(text).not.toContain('secret')
    expect(gateway.upstream.requests).toHaveLength(1)
  })
})

describe('a chain of models', () => {
  test('fails over before the first token and reports it', async () => {
    const gateway = await startGateway()
    gateway.upstream.script(replyJson({}, { status: 503 }), replyRaw(chatStream(['from b'], { usage })))
    const { frames, done } = await gateway.stream({ prompt: 'hi', models: ['test/a', 'test/a', 'test/b'] })
    expect(done).toBe(true)
    expect(textOf(frames)).toBe('from b')
    expect(frames[0]?.data).toMatchObject({
      model: 'test/b',
      metadata: {
        requested_model: 'test/a',
        served_model: 'test/b',
        failover: {
          occurred: true,
          attempts: [
            { model: 'test/a', status: 'failed', reason: 'server_error', latency_ms: expect.any(Number) },
            { model: 'test/b', status: 'served', latency_ms: expect.any(Number) },
          ],
        },
      },
    })
    expect(await gateway.usage()).toEqual([expect.objectContaining({ served_model: 'test/b', attempts: 2 })])
  })

  test('reports that no failover was needed', async () => {
    const gateway = await startGateway()
    const { body } = await gateway.chat({ prompt: 'hi', fallback_models: ['test/b'] })
    expect(body.metadata.failover).toEqual({
      occurred: false,
      attempts: [{ model: 'test/any', status: 'served', latency_ms: expect.any(Number) }],
    })
  })

  test('that is exhausted lists every attempt: 502, or 429 if all were rate limits', async () => {
    const gateway = await startGateway()
    const limited = replyJson({}, { status: 429 })
    gateway.upstream.script(limited, resetAtOnce, limited, limited)
    const mixed = await gateway.chat({ prompt: 'hi', fallback_models: ['test/b'] })
    expect(mixed.status).toBe(502)
    expect(mixed.body).toMatchObject({
      error: 'All model attempts failed',
      attempts: [
        { model: 'test/any', status: 'failed', reason: 'rate_limit' },
        { model: 'test/b', status: 'failed', reason: 'connection_error' },
      ],
    })
    expect((await gateway.chat({ prompt: 'hi', fallback_models: ['test/b'] })).status).toBe(429)
  })

  test('stops at a failure outside its triggers', async () => {
    const gateway = await startGateway()
    gateway.upstream.script(replyJson({}, { status: 500 }))
    const body = { prompt: 'hi', fallback_models: ['test/b'], redundancy: { on: ['timeout'] } }
    expect((await gateway.chat(body)).status).toBe(502)
    expect(gateway.upstream.requests).toHaveLength(1)
  })

  test('fails over when the first token times out', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ clock })
    gateway.upstream.script(hang, replyRaw(chatStream(['late but here'], { usage })))
    const answer = gateway.stream({
      prompt: 'hi',
      models: [{ model: 'test/slow', first_token_timeout_ms: 500 }, 'test/b'],
    })
    const slow = await gateway.upstream.nextRequest()
    clock.advance(500)
    await slow.aborted
    expect(textOf((await answer).frames)).toBe('late but here')
  })
})

describe('a client that disconnects', () => {
  test('mid-stream: the upstream is aborted, and the output is billed once as aborted', async () => {
    const gateway = await startGateway()
    gateway.upstream.script(
      replySteps([chatStream(['one ', 'two '], { finishReason: null, done: false })], { ending: 'hang' }),
    )
    const leave = new AbortController()
    const answer = await gateway.openStream({ prompt: 'hi' }, { signal: leave.signal })
    expect(String((await answer.next()).value)).toContain('one ')
    leave.abort()
    await (await gateway.upstream.nextRequest()).aborted
    await gateway.restart()
    expect(await gateway.usage()).toEqual([expect.objectContaining({ outcome: 'aborted', streamed: 1 })])
  })

  test('before the answer: the upstream is aborted and nothing is billed', async () => {
    const gateway = await startGateway()
    gateway.upstream.script(hang)
    const leave = new AbortController()
    const answer = gateway.chat({ prompt: 'hi' }, { signal: leave.signal })
    const asked = await gateway.upstream.nextRequest()
    leave.abort()
    await expect(answer).rejects.toThrow()
    await asked.aborted
    await gateway.restart()
    expect(await gateway.usage()).toEqual([])
  })
})
