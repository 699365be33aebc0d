import { expect, test } from 'vitest'
import { type OpenAiOptions, openAiProvider } from '../../../../../src/daemon/models/providers/openai/provider.ts'
import { createFakeClock } from '../../../../fake-clock.ts'
import { chatJson, chatStream, replyJson, replyRaw } from '../../../../upstream.ts'
import { testCall, upstreamForEach } from '../../provider-calls.ts'
import { playCall } from './playback.ts'

const call = testCall({
  model: 'vendor/small-1',
  system: 'Be brief.',
  messages: [{ role: 'user', content: 'Ünï' }],
  temperature: 0.2,
})

const upstream = upstreamForEach(replyJson(chatJson('Hello.', { usage: { prompt_tokens: 4, completion_tokens: 2 } })))

function ask(options: Partial<OpenAiOptions> = {}, request = call) {
  const defaults = { name: 'up', baseUrl: upstream.url, apiKey: 'secret', headers: {}, models: undefined }
  const provider = upstream.closeAfter(openAiProvider({ ...defaults, ...options }, { clock: createFakeClock() }))
  return playCall(provider.chat(request, new AbortController().signal))
}

test('a call is one POST with key, headers and body, and its answer comes with usage', async () => {
  const played = await ask({ headers: { 'X-Title': 'aigw' } })
  expect(played).toEqual({
    text: 'Hello.',
    reasoning: '',
    toolCalls: [],
    outcome: 'complete',
    nativeFinishReason: 'stop',
    usage: {
      inputTokens: 4,
      outputTokens: 2,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      reasoningTokens: 0,
      estimated: false,
    },
  })
  expect(upstream.requests).toMatchObject([
    {
      method: 'POST',
      path: '/v1/chat/completions',
      headers: { authorization: 'Bearer secret', 'content-type': 'application/json', 'x-title': 'aigw' },
      body: {
        model: 'vendor/small-1',
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'Ünï' },
        ],
        temperature: 0.2,
        max_tokens: 64,
        stream: false,
      },
    },
  ])
})

test('a streamed call requests usage', async () => {
  upstream.script(replyRaw(chatStream(['Hel', 'lo'])))
  expect(await ask({}, { ...call, stream: true })).toMatchObject({ text: 'Hello' })
  expect(upstream.requests[0]?.body).toMatchObject({ stream: true, stream_options: { include_usage: true } })
})

test('the base URL is used unchanged, whatever its end, and keeps its query', async () => {
  const origin = new URL(upstream.url).origin
  for (const base of [`${origin}/v1`, `${origin}/v1/`, origin, `${origin}/a/b/`]) {
    expect(await ask({ baseUrl: base })).toMatchObject({ text: 'Hello.' })
  }
  expect(upstream.requests.map(({ path }) => path)).toEqual([
    '/v1/chat/completions',
    '/v1/chat/completions',
    '/chat/completions',
    '/a/b/chat/completions',
  ])
})

test('without a key no authorization is sent, and a configured header overrides ours', async () => {
  await ask({ apiKey: undefined })
  await ask({ headers: { Authorization: 'Custom abc' } })
  expect(upstream.requests.map(({ headers }) => headers.authorization)).toEqual([undefined, 'Custom abc'])
})

test('a rejection of the provider has its reason and wait, without its body', async () => {
  const body = { error: { message: 'org-4711 sent too much', code: 'rate_limit_exceeded' } }
  upstream.script(replyJson(body, { status: 429, headers: { 'retry-after': '12' } }))
  const provider = upstream.closeAfter(
    openAiProvider(
      { name: 'up', baseUrl: upstream.url, apiKey: undefined, headers: {}, models: undefined },
      { clock: createFakeClock() },
    ),
  )
  const first = provider.chat(call, new AbortController().signal)[Symbol.asyncIterator]().next()
  await expect(first).rejects.toMatchObject({
    name: 'ProviderError',
    reason: 'rate_limit',
    upstreamStatus: 429,
    retryAfterSeconds: 12,
    message: 'The provider answered 429 (rate_limit_exceeded).',
  })
})

test('many concurrent calls each get their own answer', async () => {
  upstream.fallback((exchange) => {
    const { messages } = exchange.request.body as { messages: { content: string }[] }
    return replyRaw(chatStream(['You said ', messages.at(-1)?.content ?? '']))(exchange)
  })
  const provider = upstream.closeAfter(
    openAiProvider(
      { name: 'up', baseUrl: upstream.url, apiKey: undefined, headers: {}, models: undefined },
      { clock: createFakeClock() },
    ),
  )
  const asked = Array.from({ length: 40 }, (_, number) => `number ${number}`)
  const played = await Promise.all(
    asked.map((content) =>
      playCall(
        provider.chat({ ...call, stream: true, messages: [{ role: 'user', content }] }, new AbortController().signal),
      ),
    ),
  )
  expect(played.map((answer) => ('text' in answer ? answer.text : answer.message))).toEqual(
    asked.map((content) => `You said ${content}`),
  )
})
