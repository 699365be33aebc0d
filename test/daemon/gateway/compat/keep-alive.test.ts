import { createHash } from 'node:crypto'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import type { Config } from '../../../../src/daemon/config/config.ts'
import { type Deferred, deferred } from '../../../deferred.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, type GatewayOptions, startGateway } from '../../../harness.ts'
import { chatStream, hang, replyJson, replySteps } from '../../../upstream.ts'

const COMMENT = ': keep-alive\n\n'
const PING = 'event: ping\ndata: {"type":"ping"}\n\n'
const hello = { model: 'test/any', messages: [{ role: 'user' as const, content: 'Hi' }] }
const SURFACES = [
  ['/v1/chat/completions', hello, COMMENT, '[DONE]', 'data: {"success":false,"error":'],
  ['/v1/messages', { ...hello, max_tokens: 100 }, PING, 'message_stop', 'event: error'],
  ['/v1/responses', { model: 'test/any', input: 'Hi' }, COMMENT, 'response.completed', 'event: response.failed'],
  [
    '/v1beta/models/test/any:streamGenerateContent?alt=sse',
    { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] },
    'data: {}\n\n',
    '"STOP"',
    'data: {"candidates":[{"finishReason":"OTHER"',
  ],
] as const
const CLASSIC = '/api/external/chat/completions'
const EVERY_MS = 15_000

type Limits = Partial<NonNullable<Config['limits']>>

async function started(requestLimits: Limits = {}, options: GatewayOptions = {}) {
  const clock = createFakeClock()
  return { clock, gateway: await startGateway({ clock, requestLimits, ...options }) }
}

/** A stream that the test reads piece by piece. */
async function open(gateway: Gateway, path: string, body: object, headers: object = {}) {
  const abort = new AbortController()
  const answer = fetch(gateway.url + path, {
    method: 'POST',
    signal: abort.signal,
    headers: { authorization: `Bearer ${gateway.adminKey}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ ...body, stream: true }),
  })
  let text = ''
  const reading = answer.then((response) =>
    (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader(),
  )
  return {
    answer,
    abort,
    get text() {
      return text
    },
    /** Reads until the text contains this so many times, or to the end. */
    async until(wanted?: string, times = 1): Promise<string> {
      const reader = await reading
      while (wanted === undefined || text.split(wanted).length <= times) {
        const { done, value } = await reader.read()
        if (done) return text
        text += value
      }
      return text
    },
  }
}

/** An upstream that waits for the first promise before its head, and for the second one after its first word. */
function thinking(gateway: Gateway): Deferred<void>[] {
  const [first, second] = [deferred<void>(), deferred<void>()]
  const word = chatStream(['Hel'], { finishReason: null, done: false })
  gateway.upstream.script(replySteps([first.promise, word, second.promise, chatStream(['lo'])]))
  return [first, second]
}

describe.each(SURFACES)('%s', (path, body, frame, end, failure) => {
  test('a client hears from the gateway every 15 s, before the first token and after it', async () => {
    const { gateway, clock } = await started()
    const [first, second] = thinking(gateway)
    const stream = await open(gateway, path, body)
    await gateway.upstream.nextRequest()
    clock.advance(EVERY_MS - 1)
    clock.advance(1)
    expect((await stream.answer).status).toBe(200)
    expect(await stream.until(frame)).toBe(frame)
    clock.advance(EVERY_MS)
    expect(await stream.until(frame + frame)).toBe(frame + frame)
    first?.resolve()
    await stream.until('Hel')
    clock.advance(EVERY_MS)
    expect(await stream.until(frame, 3)).not.toContain(end)
    second?.resolve()
    const text = await stream.until()
    expect(text).toContain('lo')
    expect(text).toContain(end)
    expect(text.split(frame)).toHaveLength(4)
    expect(await gateway.usage()).toMatchObject([{ outcome: 'complete' }])
  })

  test('a failure after a keep-alive ends the stream with an error, and the receipt knows what was sent', async () => {
    const { gateway, clock } = await started()
    gateway.upstream.script(hang)
    const stream = await open(gateway, path, body)
    await gateway.upstream.nextRequest()
    clock.advance(EVERY_MS)
    const { headers } = await stream.answer
    clock.advance(300_000)
    const text = await stream.until()
    expect(text).toContain(failure)
    expect(text).toContain('attempt(s) failed')
    expect(text).not.toContain(end)
    const { body: receipt } = await gateway.call('GET', `/api/external/receipts/${headers.get('x-smltp-bundle-id')}`)
    expect(JSON.stringify(receipt)).toContain(createHash('sha256').update(text).digest('hex'))
  })

  test('a client that leaves after a keep-alive ends the call to the provider', async () => {
    const { gateway, clock } = await started()
    gateway.upstream.script(hang)
    const stream = await open(gateway, path, body)
    const received = await gateway.upstream.nextRequest()
    clock.advance(EVERY_MS)
    await stream.until(frame)
    stream.abort.abort()
    await received.aborted
  })

  test('with `keep_alive: 0s` nothing is sent, and a failure has its own status', async () => {
    const { gateway, clock } = await started({ keepAliveMs: 0 })
    gateway.upstream.script(hang)
    const answer = gateway.call('POST', path, { ...body, stream: true })
    await gateway.upstream.nextRequest()
    clock.advance(300_000)
    expect((await answer).status).toBe(502)
  })

  test('a failure within the first interval has its own status', async () => {
    const { gateway } = await started()
    gateway.upstream.script(replyJson({ error: { message: 'down' } }, { status: 500 }))
    expect((await gateway.call('POST', path, { ...body, stream: true })).status).toBe(502)
  })

  test('a retry with the same Idempotency-Key gets the same bytes, keep-alives included', async () => {
    const { gateway, clock } = await started()
    const [first, second] = thinking(gateway)
    const headers = { 'idempotency-key': 'one' }
    const stream = await open(gateway, path, body, headers)
    await gateway.upstream.nextRequest()
    clock.advance(EVERY_MS)
    await stream.until(frame)
    first?.resolve()
    second?.resolve()
    const text = await stream.until()
    const retry = await gateway.call('POST', path, { ...body, stream: true }, { headers })
    expect([retry.headers['idempotent-replayed'], retry.text]).toEqual(['true', text])
  })
})

test('POST /chat/completions keeps its statuses: comments come only after the first token', async () => {
  const { gateway, clock } = await started()
  const classic = { prompt: 'Hi', index: 'Zero-Knowledge', model: 'test/any' }
  const [first, second] = thinking(gateway)
  const stream = await open(gateway, CLASSIC, classic)
  await gateway.upstream.nextRequest()
  clock.advance(2 * EVERY_MS)
  first?.resolve()
  expect(await stream.until('Hel')).not.toContain(COMMENT)
  clock.advance(EVERY_MS)
  await stream.until(COMMENT)
  second?.resolve()
  expect(await stream.until()).toContain('[DONE]')

  gateway.upstream.script(hang)
  const failed = gateway.call('POST', CLASSIC, { ...classic, stream: true })
  await gateway.upstream.nextRequest()
  clock.advance(300_000)
  expect((await failed).status).toBe(502)
})

test('the SDKs ignore keep-alives, and throw the error that follows', async () => {
  const { gateway, clock } = await started()
  const apiKey = gateway.adminKey
  const openai = new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
  const anthropic = new Anthropic({ apiKey, baseURL: gateway.url, maxRetries: 0 })
  const ways = [
    async () => {
      let text = ''
      const stream = await openai.chat.completions.create({ ...hello, stream: true })
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
      return text
    },
    async () => {
      const { content } = await anthropic.messages.stream({ ...hello, max_tokens: 100 }).finalMessage()
      return content.map((block) => (block.type === 'text' ? block.text : '')).join('')
    },
  ]
  for (const way of ways) {
    const [first, second] = thinking(gateway)
    const answer = way()
    await gateway.upstream.nextRequest()
    clock.advance(EVERY_MS)
    first?.resolve()
    second?.resolve()
    expect(await answer).toBe('Hello')

    gateway.upstream.script(hang)
    const failed = way().catch((error: Error) => error)
    await gateway.upstream.nextRequest()
    clock.advance(EVERY_MS)
    clock.advance(300_000)
    expect((await failed) as Error).toMatchObject({ message: expect.stringContaining('attempt(s) failed') })
  }
})

test('keep-alives of the provider count as life, for twenty minutes', async () => {
  const { gateway, clock } = await started({ keepAliveMs: 0 })
  const beats = Array.from({ length: 10 }, () => ({ due: deferred<void>(), sent: deferred<void>() }))
  gateway.upstream.script(async ({ head, write, end }) => {
    head(200, { 'content-type': 'text/event-stream' })
    await write(chatStream(['Hel'], { finishReason: null, done: false }))
    for (const { due, sent } of beats) {
      await due.promise
      await write(COMMENT)
      sent.resolve()
    }
    await write(chatStream(['lo']))
    end()
  })
  const stream = await open(gateway, '/v1/chat/completions', hello)
  await stream.until('Hel')
  for (const { due, sent } of beats) {
    clock.advance(120_000)
    due.resolve()
    await sent.promise
  }
  expect(await stream.until()).toContain('[DONE]')
})
