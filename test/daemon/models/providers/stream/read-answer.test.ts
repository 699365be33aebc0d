import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ChatPart, Provider, ProviderCall } from '../../../../../src/daemon/models/provider.ts'
import { openAiProvider } from '../../../../../src/daemon/models/providers/openai/provider.ts'
import { PROVIDER_BODY_BYTES } from '../../../../../src/daemon/models/providers/stream/read-answer.ts'
import { STREAM_END_GRACE_MS } from '../../../../../src/shared/spec-limits.ts'
import { createFakeClock, type FakeClock } from '../../../../fake-clock.ts'
import {
  chatJson,
  chatStream,
  hang,
  replyCut,
  replyJson,
  replyRaw,
  replySplit,
  replySteps,
  resetAtOnce,
  startUpstream,
  type Upstream,
} from '../../../../upstream.ts'
import { testCall } from '../../provider-calls.ts'
import { fixtures, playCall } from '../openai/playback.ts'

const timeouts = { attemptMs: 100_000, firstTokenMs: 20_000, stallMs: 5_000 }
const call = testCall({ model: 'm', temperature: 1, maxTokens: 100, stream: true, timeouts })
const whole: ProviderCall = { ...call, stream: false }
const forever = new AbortController().signal
const usage = { prompt_tokens: 5, completion_tokens: 2 }

/** A streamed answer up to and including its first two texts. */
const opening = chatStream(['One ', 'two'], { finishReason: null, done: false })

let upstream: Upstream
let clock: FakeClock
let provider: Provider

beforeEach(async () => {
  upstream = await startUpstream()
  clock = createFakeClock()
  provider = openAiProvider(
    { name: 'up', baseUrl: upstream.url, apiKey: undefined, headers: {}, models: undefined },
    { clock },
  )
})

afterEach(async () => {
  await provider.close()
  await upstream.close()
})

const play = (request: ProviderCall, signal = forever) => playCall(provider.chat(request, signal))

/**
 * Starts reading and leaves the answer open: returns the parts so far, and a promise for the next batch or the
 * failure.
 */
async function startReading(signal = forever) {
  const batches = provider.chat(call, signal)[Symbol.asyncIterator]()
  const first = await batches.next()
  return {
    first: (first.value ?? []) as readonly ChatPart[],
    next: () => batches.next(),
    stop: () => batches.return?.(),
  }
}

/** Runs everything that is ready. */
async function settle(): Promise<void> {
  for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve))
}

/** Runs everything that is ready, then returns whether the promise is still pending. */
async function isOpen(promise: Promise<unknown>): Promise<boolean> {
  let open = true
  const close = () => {
    open = false
  }
  promise.then(close, close)
  await settle()
  return open
}

const texts = (parts: readonly ChatPart[]) => parts.map((part) => (part.type === 'text' ? part.text : '')).join('')

describe('answers over a real connection', () => {
  test.each(fixtures())('$file gives its documented result', async ({ bytes, stream, tools, answer, failure }) => {
    upstream.script(replyRaw(bytes, { contentType: stream ? 'text/event-stream' : 'application/json' }))
    const options = tools ? { tools: [{ name: 'any' }] } : undefined
    expect(await play({ ...call, stream, options })).toMatchObject(answer ?? failure ?? {})
    expect(clock.pending).toBe(0)
  })

  test('a stream in many small writes gives the same answer', async () => {
    const body = chatStream(['Ärger ', 'mit ', '東京 ', '🚀'], { usage })
    const offsets = Array.from({ length: Math.ceil(body.length / 7) }, (_, at) => at * 7)
    upstream.script(replySplit(body, offsets))
    expect(await play(call)).toMatchObject({ text: 'Ärger mit 東京 🚀', outcome: 'complete' })
  })

  test('a JSON body in response to a streamed request is still an answer', async () => {
    upstream.script(replyJson(chatJson('All at once.', { usage })))
    expect(await play(call)).toMatchObject({ text: 'All at once.', outcome: 'complete', usage: { inputTokens: 5 } })
  })

  test('connections are reused after complete and streamed answers', async () => {
    upstream.fallback((exchange) =>
      (exchange.request.body as { stream: boolean }).stream
        ? replySteps([chatStream(['a'])])(exchange)
        : replyJson(chatJson('a'))(exchange),
    )
    for (let count = 0; count < 5; count++) {
      expect(await play(whole)).toMatchObject({ text: 'a' })
      expect(await play(call)).toMatchObject({ text: 'a' })
    }
    // The next call may start before a stream ends whose end arrives just after its end marker.
    expect(upstream.connections()).toBeLessThanOrEqual(2)
  })
})

describe('commit point', () => {
  test('a failure before the first content yields nothing, so the chain may fail over', async () => {
    const silent = chatStream([], { finishReason: null, done: false })
    upstream.script(replySteps([silent, ': ping\n\n', 'data: {"error":{"code":"server_error"}}\n\n']))
    const batches = provider.chat(call, forever)[Symbol.asyncIterator]()
    await expect(batches.next()).rejects.toMatchObject({ reason: 'server_error' })
  })

  test('the first batch contains the first content', async () => {
    upstream.script(replySteps([opening], { ending: 'hang' }))
    const { first, stop } = await startReading()
    expect(texts(first)).toBe('One two')
    await stop()
  })
})

describe('broken connections', () => {
  test('a stream that breaks anywhere before its finish reason is truncated, with RST or FIN', async () => {
    const body = chatStream(['One ', 'two ', 'three'])
    const finish = body.indexOf('"finish_reason":"stop"')
    for (const ending of ['reset', 'close', 'end'] as const) {
      for (const at of [200, Math.floor(finish / 2), finish - 1]) {
        upstream.script(replyCut(body, at, ending))
        expect(await play(call)).toMatchObject({ reason: 'connection_error', outcome: 'truncated' })
      }
    }
  })

  test('a stream that breaks after its finish reason is complete', async () => {
    for (const ending of ['reset', 'close', 'end'] as const) {
      upstream.script(replySteps([chatStream(['All', ' here'], { done: false })], { ending }))
      expect(await play(call)).toMatchObject({ text: 'All here', outcome: 'complete' })
    }
  })

  test('a complete body that breaks off is never an answer', async () => {
    const body = JSON.stringify(chatJson('A whole answer', { usage }))
    const length = { 'content-length': String(body.length) }
    for (const at of [1, 40, body.length - 1]) {
      upstream.script(replyCut(body, at, 'close', { contentType: 'application/json', headers: length }))
      expect(await play(whole)).toMatchObject({ reason: 'connection_error', outcome: 'truncated' })
      upstream.script(replyCut(body, at, 'end', { contentType: 'application/json' }))
      expect(await play(whole)).toMatchObject({ reason: 'server_error' })
    }
  })

  test('a connection that breaks without an answer, or cannot be opened, is a connection_error', async () => {
    upstream.script(resetAtOnce)
    expect(await play(call)).toMatchObject({ reason: 'connection_error', outcome: 'error' })
    await upstream.close()
    expect(await play(call)).toMatchObject({ reason: 'connection_error', outcome: 'error' })
    expect(clock.pending).toBe(0)
    upstream = await startUpstream()
  })

  test('a body over the limit is rejected and its connection closed', async () => {
    const megabyte = Buffer.alloc(1_048_576, 32)
    upstream.script(async ({ head, write, request }) => {
      head(200, { 'content-type': 'application/json' })
      for (let sent = 0; !request.isAborted && sent <= 2 * PROVIDER_BODY_BYTES; sent += megabyte.length)
        await write(megabyte)
    })
    const played = play(whole)
    const request = await upstream.nextRequest()
    expect(await played).toMatchObject({ reason: 'server_error' })
    await request.aborted
  })
})

describe('silence', () => {
  test('an attempt ends after attemptMs, streamed or not, even while bytes keep coming', async () => {
    for (const request of [whole, { ...call, timeouts: { ...timeouts, firstTokenMs: 200_000 } }]) {
      upstream.script(hang)
      const played = play(request)
      const { aborted } = await upstream.nextRequest()
      clock.advance(99_999)
      expect(await isOpen(played)).toBe(true)
      clock.advance(1)
      expect(await played).toMatchObject({ reason: 'timeout' })
      await aborted
      expect(clock.pending).toBe(0)
    }
  })

  test('a stream without content ends after firstTokenMs, whatever else arrives', async () => {
    upstream.script(replySteps([chatStream([], { finishReason: null, done: false }), ': ping\n\n'], { ending: 'hang' }))
    const played = play(call)
    const { aborted } = await upstream.nextRequest()
    clock.advance(19_999)
    expect(await isOpen(played)).toBe(true)
    clock.advance(1)
    expect(await played).toMatchObject({ reason: 'timeout' })
    await aborted
  })

  test('firstTokenMs does not apply to a non-streamed answer', async () => {
    const goOn = gate()
    upstream.script(replySteps([goOn.opened, JSON.stringify(chatJson('late'))], { contentType: 'application/json' }))
    const played = play(whole)
    await upstream.nextRequest()
    clock.advance(50_000)
    goOn.open()
    expect(await played).toMatchObject({ text: 'late' })
  })

  test('a running stream ends after stallMs of silence, counted from its last bytes', async () => {
    const goOn = gate()
    upstream.script(
      replySteps([opening, goOn.opened, chatStream(['!'], { finishReason: null, done: false })], { ending: 'hang' }),
    )
    const { next } = await startReading()
    const second = next()
    clock.advance(4_999)
    expect(await isOpen(second)).toBe(true)
    goOn.open()
    expect(texts((await second).value ?? [])).toBe('!')
    const third = next()
    clock.advance(4_999)
    expect(await isOpen(third)).toBe(true)
    clock.advance(1)
    await expect(third).rejects.toMatchObject({ reason: 'timeout', outcome: 'error' })
    expect(clock.pending).toBe(0)
  })

  test('a slow client is not a silent provider', async () => {
    upstream.script(replySteps([opening, chatStream([' three'])]))
    const { next } = await startReading()
    clock.advance(60_000)
    const rest: ChatPart[] = []
    for (let batch = await next(); !batch.done; batch = await next()) rest.push(...batch.value)
    expect(rest.at(-1)).toMatchObject({ type: 'end', outcome: 'complete' })
  })

  test('a finished answer without its end marker is complete after a short grace, and its connection is closed', async () => {
    upstream.script(replySteps([chatStream(['Done.'], { usage, done: false })], { ending: 'hang' }))
    const { first, next } = await startReading()
    expect(texts(first)).toBe('Done.')
    const end = next()
    expect(await isOpen(end)).toBe(true)
    clock.advance(STREAM_END_GRACE_MS)
    expect((await end).value).toMatchObject([{ type: 'end', outcome: 'complete', usage: { inputTokens: 5 } }])
    expect(await next()).toMatchObject({ done: true })
    await upstream.requests[0]?.aborted
    expect(clock.pending).toBe(0)
  })

  test('an answer with its end marker is complete at once, even if the connection stays open', async () => {
    upstream.script(replySteps([chatStream(['Done.'])], { ending: 'hang' }))
    expect(await play(call)).toMatchObject({ text: 'Done.', outcome: 'complete' })
    clock.advance(STREAM_END_GRACE_MS)
    await upstream.requests[0]?.aborted
    expect(clock.pending).toBe(0)
  })
})

test('a connection that ends in time after the end marker leaves no timer behind', async () => {
  const goOn = gate()
  const ended = gate()
  upstream.script(async (exchange) => {
    await replySteps([chatStream(['Done.']), goOn.opened])(exchange)
    ended.open()
  })
  expect(await play(call)).toMatchObject({ text: 'Done.' })
  expect(clock.pending).toBe(1)
  goOn.open()
  await ended.opened
  await settle()
  expect(clock.pending).toBe(0)
  expect(upstream.requests[0]?.isAborted).toBe(false)
})

describe('aborting', () => {
  test('an abort closes the connection, before the answer and in the middle of it', async () => {
    for (const script of [hang, replySteps([opening], { ending: 'hang' as const })]) {
      upstream.script(script)
      const leave = new AbortController()
      const played = play(call, leave.signal)
      const { aborted } = await upstream.nextRequest()
      leave.abort()
      expect(await played).toMatchObject({ reason: 'aborted', outcome: 'aborted' })
      await aborted
    }
    expect(clock.pending).toBe(0)
  })

  test('an abort while the provider explains an error is an abort', async () => {
    upstream.script(replySteps(['{"error"'], { status: 500, ending: 'hang', contentType: 'application/json' }))
    const leave = new AbortController()
    const played = play(whole, leave.signal)
    await upstream.nextRequest()
    expect(await isOpen(played)).toBe(true)
    leave.abort()
    expect(await played).toMatchObject({ outcome: 'aborted' })
  })

  test('an abort while the call waits for its connection prevents sending', async () => {
    upstream.fallback(replyJson(chatJson('next')))
    const leave = new AbortController()
    const played = play({ ...whole, model: 'given-up' }, leave.signal)
    leave.abort()
    expect(await played).toMatchObject({ outcome: 'aborted' })
    expect(await play(whole)).toMatchObject({ text: 'next' })
    expect(upstream.requests.map(({ body }) => (body as { model: string }).model)).toEqual(['m'])
  })

  test('an abort in the grace after the finish reason is an abort', async () => {
    upstream.script(replySteps([chatStream(['Done.'], { done: false })], { ending: 'hang' }))
    const leave = new AbortController()
    const { next } = await startReading(leave.signal)
    const end = next()
    leave.abort()
    await expect(end).rejects.toMatchObject({ outcome: 'aborted' })
  })

  test('a call whose signal is already aborted never reaches the provider', async () => {
    expect(await play(call, AbortSignal.abort())).toMatchObject({ outcome: 'aborted' })
    expect(upstream.requests).toEqual([])
    expect(clock.pending).toBe(0)
  })

  test('ending the iteration closes the connection', async () => {
    upstream.script(replySteps([opening], { ending: 'hang' }))
    for await (const _ of provider.chat(call, forever)) break
    await upstream.requests[0]?.aborted
    expect(clock.pending).toBe(0)
  })

  test('closing the provider aborts running calls', async () => {
    upstream.script(hang)
    const played = play(call)
    await upstream.nextRequest()
    await provider.close()
    expect(await played).toMatchObject({ reason: 'connection_error' })
  })
})

function gate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}
