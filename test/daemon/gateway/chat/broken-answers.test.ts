import { describe, expect, test } from 'vitest'
import { startGateway, textOf } from '../../../harness.ts'
import { chatJson, chatStream, replyCut, replyJson, replyRaw } from '../../../upstream.ts'

const usage = { prompt_tokens: 12, completion_tokens: 7 }

describe('no truncated answer is reported as a success', () => {
  test('a stream that breaks ends with an error frame and without [DONE]', async () => {
    const whole = chatStream(['one ', 'two ', 'three'], { usage })
    const gateway = await startGateway()
    gateway.upstream.script(replyCut(whole, whole.indexOf('two '), 'reset'))
    const { frames, done } = await gateway.stream({ prompt: 'hi' })
    expect(done).toBe(false)
    expect(textOf(frames)).toBe('one ')
    expect(frames.at(-1)).toEqual({
      type: 'error',
      data: {
        error: 'Provider interrupted',
        message: expect.stringMatching(/^The answer is incomplete\. /),
        reason: 'connection_error',
        request_id: expect.stringMatching(/^req-/),
      },
    })
    expect(await gateway.usage()).toEqual([expect.objectContaining({ outcome: 'truncated', streamed: 1 })])
  })

  test('a complete answer that breaks is a 502 and not billed', async () => {
    const gateway = await startGateway()
    const whole = JSON.stringify(chatJson('one two three', { usage }))
    gateway.upstream.script(replyCut(whole, whole.indexOf('two '), 'reset'))
    const { status, body } = await gateway.chat({ prompt: 'hi' })
    expect(status).toBe(502)
    expect(body).toMatchObject({ attempts: [{ model: 'test/any', status: 'failed', reason: 'connection_error' }] })
    expect(await gateway.usage()).toEqual([])
  })

  test('an error response instead of an answer is a 502 with its attempt', async () => {
    const gateway = await startGateway()
    gateway.upstream.script(replyJson({ error: { message: 'secret detail' } }, { status: 500 }))
    const { status, body, headers } = await gateway.chat({ prompt: 'hi' })
    expect(status).toBe(502)
    expect(body).toEqual({
      success: false,
      error: 'All model attempts failed',
      message: 'All 1 model attempt(s) failed (last: test/any — server_error)',
      request_id: headers['x-request-id'],
      bundle_id: headers['x-smltp-bundle-id'],
      attempts: [{ model: 'test/any', status: 'failed', reason: 'server_error', latency_ms: expect.any(Number) }],
    })
    expect(await gateway.usage()).toEqual([])
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
})
