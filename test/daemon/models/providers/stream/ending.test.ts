import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Provider } from '../../../../../src/daemon/models/provider.ts'
import { googleProvider } from '../../../../../src/daemon/models/providers/google/provider.ts'
import { openAiProvider } from '../../../../../src/daemon/models/providers/openai/provider.ts'
import { STREAM_END_GRACE_MS } from '../../../../../src/shared/spec-limits.ts'
import { createFakeClock, type FakeClock } from '../../../../fake-clock.ts'
import { replyRaw, replySteps, startUpstream, type Upstream } from '../../../../upstream.ts'
import { testCall } from '../../provider-calls.ts'
import { playCall as playGoogle, playStream as playGoogleStream } from '../google/playback.ts'
import { playCall as playOpenAi } from '../openai/playback.ts'

const STALL_MS = 5_000
const call = testCall({
  model: 'm',
  temperature: 1,
  maxTokens: 100,
  stream: true,
  timeouts: { attemptMs: 100_000, firstTokenMs: 20_000, stallMs: STALL_MS },
})
const forever = new AbortController().signal

/** The gateway cannot know the length of the pause. */
const PAUSE_MS = STREAM_END_GRACE_MS + 100

const google = (text: string, finishReason?: string) =>
  `data: ${JSON.stringify({ candidates: [{ index: 0, content: { parts: [{ text }] }, finishReason }] })}\n\n`
const openAi = (content: string | undefined, finish_reason: string | null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: content === undefined ? {} : { content }, finish_reason }] })}\n\n`
const DONE = 'data: [DONE]\n\n'

const ALL_STOP = ['One ', 'two ', 'three'].map((text) => openAi(text, 'stop'))
const GOOGLE_ALL_STOP = ['One ', 'two ', 'three'].map((text) => google(text, 'STOP'))
const truncated = { reason: 'connection_error', outcome: 'truncated' }
const answered = { text: 'One two three', outcome: 'complete' }

let upstream: Upstream
let clock: FakeClock
let openAiServer: Provider
let googleServer: Provider

beforeEach(async () => {
  upstream = await startUpstream()
  clock = createFakeClock()
  const options = { name: 'up', apiKey: undefined, headers: {}, models: undefined }
  openAiServer = openAiProvider({ ...options, baseUrl: upstream.url }, { clock })
  googleServer = googleProvider({ ...options, baseUrl: new URL(upstream.url).origin }, { clock })
})

afterEach(async () => {
  await openAiServer.close()
  await googleServer.close()
  await upstream.close()
})

const PROVIDERS = {
  openai: () => playOpenAi(openAiServer.chat(call, forever)),
  google: () => playGoogle(googleServer.chat(call, forever)),
}
type Dialect = keyof typeof PROVIDERS

/** Runs everything that is ready. */
async function settle(): Promise<void> {
  for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve))
}

/** The result of a stream that pauses for `pauseMs` after its first part. */
async function playPaused(dialect: Dialect, before: string, after: string, pauseMs = PAUSE_MS) {
  let goOn = () => {}
  const resumed = new Promise<void>((resolve) => {
    goOn = resolve
  })
  upstream.script(replySteps([before, resumed, after]))
  const played = PROVIDERS[dialect]()
  await upstream.nextRequest()
  await settle()
  clock.advance(pauseMs)
  await settle()
  goOn()
  return played
}

const DIALECTS: [Dialect, string[], string][] = [
  ['openai', ALL_STOP, DONE],
  ['google', GOOGLE_ALL_STOP, ''],
]

describe.each(DIALECTS)('%s, with a finish reason on every piece', (dialect, events, end) => {
  test('a pause between any two parts is not the end', async () => {
    for (const at of events.keys()) {
      const played = await playPaused(dialect, events.slice(0, at).join(''), events.slice(at).join('') + end)
      expect(played).toMatchObject(answered)
    }
  })

  test('a connection that breaks after any part leaves a truncated answer', async () => {
    for (const ending of ['reset', 'close'] as const) {
      for (let count = 1; count <= events.length; count++) {
        upstream.script(replySteps(events.slice(0, count), { ending }))
        expect(await PROVIDERS[dialect]()).toMatchObject(truncated)
      }
    }
  })

  test('a silence above the limit is a timeout', async () => {
    expect(await playPaused(dialect, events[0] as string, '', STALL_MS)).toMatchObject({ reason: 'timeout' })
  })

  test('a body that ends with a FIN is the end', async () => {
    upstream.script(replySteps(events))
    expect(await PROVIDERS[dialect]()).toMatchObject(answered)
  })
})

test('a reason alone does not end an answer whose earlier reasons were revoked', async () => {
  const before = `${ALL_STOP.slice(0, 2).join('')}${openAi(undefined, 'stop')}`
  expect(await playPaused('openai', before, `${ALL_STOP[2]}${DONE}`)).toMatchObject(answered)
  expect(await playPaused('openai', openAi('', 'stop'), `${ALL_STOP.join('')}${DONE}`)).toMatchObject(answered)
})

test('a stream labelled as JSON, and JSON labelled as a stream, are read by their content', async () => {
  upstream.script(replyRaw([...ALL_STOP, DONE].join(''), { contentType: 'application/json' }))
  expect(await PROVIDERS.openai()).toMatchObject(answered)
  const error = { error: { message: 'x', code: 429 } }
  for (const body of [
    JSON.stringify(error),
    `\n \r\n${JSON.stringify(error, undefined, 2)}\n`,
    JSON.stringify([error]),
  ]) {
    upstream.script(replyRaw(body, { contentType: 'text/event-stream' }))
    expect(await PROVIDERS.openai()).toMatchObject({ reason: 'rate_limit', outcome: 'error' })
  }
})

/** Recordings of the real API. They are not part of the project; without the folder only our own are played. */
const recordings = join(
  process.env.AIGW_EVAL_DIR ?? join(import.meta.dirname, '../../../../../../shared/eval'),
  'wire/gemini',
)

/** Streams with several finish reasons, where only the end of the body marks the end. */
function ofSeveralEnds(): { name: string; events: string[] }[] {
  if (!existsSync(recordings)) return []
  return readdirSync(recordings, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.includes('sse'))
    .map((name) => ({ name, body: readFileSync(join(recordings, name), 'utf8') }))
    .filter(({ body }) => (body.match(/"finishReason"/g) ?? []).length > 1)
    .map(({ name, body }) => ({ name, events: body.split(/(?<=\r?\n\r?\n)/) }))
}

test('recorded streams of Google with several finish reasons survive a pause after any event, but not a break', async () => {
  for (const { events } of ofSeveralEnds()) {
    const whole = playGoogleStream([Buffer.from(events.join(''))])
    for (let at = 1; at < events.length; at++) {
      const before = events.slice(0, at).join('')
      expect(await playPaused('google', before, events.slice(at).join(''))).toEqual(whole)
      upstream.script(replySteps([before], { ending: 'reset' }))
      expect(await PROVIDERS.google()).not.toMatchObject({ outcome: 'complete' })
    }
  }
})
