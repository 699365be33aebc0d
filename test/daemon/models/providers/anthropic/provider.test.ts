import { expect, test } from 'vitest'
import type { Provider } from '../../../../../src/daemon/models/provider.ts'
import {
  type AnthropicOptions,
  anthropicProvider,
} from '../../../../../src/daemon/models/providers/anthropic/provider.ts'
import { createFakeClock } from '../../../../fake-clock.ts'
import { replyCut, replyJson, replyRaw, replySplit } from '../../../../upstream.ts'
import { testCall, upstreamForEach } from '../../provider-calls.ts'
import { anthropicStream } from './anthropic-stream.ts'
import { playCall } from './playback.ts'

const call = testCall({
  model: 'claude-test-1',
  system: 'Be brief.',
  messages: [{ role: 'user', content: 'Ünï' }],
  temperature: 0.2,
})

const message = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-test-1',
  content: [{ type: 'text', text: 'Hello.' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 4, cache_read_input_tokens: 3, output_tokens: 2 },
}

const upstream = upstreamForEach(replyJson(message))

function open(options: Partial<AnthropicOptions> = {}): Provider {
  const defaults = { name: 'up', baseUrl: upstream.url, apiKey: 'secret', headers: {}, models: ['claude-test-1'] }
  return upstream.closeAfter(anthropicProvider({ ...defaults, ...options }, { clock: createFakeClock() }))
}

const ask = (options: Partial<AnthropicOptions> = {}, request = call) =>
  playCall(open(options).chat(request, new AbortController().signal))

test('a call is one POST with key, version and body, and its answer has inclusive usage', async () => {
  const played = await ask({ headers: { 'Anthropic-Beta': 'weather-2026-01-01' } })
  expect(played).toMatchObject({
    text: 'Hello.',
    outcome: 'complete',
    nativeFinishReason: 'end_turn',
    usage: { inputTokens: 7, outputTokens: 2, cacheReadTokens: 3, cacheWriteTokens: 0, estimated: false },
  })
  expect(upstream.requests).toMatchObject([
    {
      method: 'POST',
      path: '/v1/messages',
      headers: {
        'x-api-key': 'secret',
        'anthropic-version': '2023-06-01',
        'anthropic-beta': 'weather-2026-01-01',
        'content-type': 'application/json',
      },
      body: {
        model: 'claude-test-1',
        max_tokens: 64,
        system: 'Be brief.',
        messages: [{ role: 'user', content: [{ type: 'text', text: 'Ünï' }] }],
        temperature: 0.2,
        stream: false,
      },
    },
  ])
  expect(upstream.requests[0]?.headers).not.toHaveProperty('authorization')
})

test('a streamed call gives its text, reasoning and tool calls, in any pieces', async () => {
  const body = anthropicStream({
    thoughts: ['I loök ', 'it up.'],
    texts: ['One ', 'moment.'],
    toolCalls: [['{"a"', ':1}']],
  })
  upstream.script(replySplit(body, [7, 300, 301, 302, 640, 900, body.length - 3]))
  expect(await ask({}, { ...call, stream: true })).toMatchObject({
    text: 'One moment.',
    reasoning: [{ text: 'I loök it up.', origin: 'anthropic', signature: 'c2lnbmVk' }],
    toolCalls: [{ id: 'toolu_0', name: 'tool_0', arguments: '{"a":1}' }],
    outcome: 'complete',
    nativeFinishReason: 'tool_use',
    usage: { inputTokens: 12, outputTokens: 5 },
  })
  expect(upstream.requests[0]?.body).toMatchObject({ stream: true })
})

test('a stream that breaks before its stop reason is truncated, and after it is complete', async () => {
  const body = anthropicStream({ texts: ['The first half, ', 'the second.'] })
  const stopEnd = body.indexOf('\n\n', body.indexOf('"end_turn"')) + 2
  for (const ending of ['reset', 'close', 'end'] as const) {
    upstream.script(replyCut(body, body.indexOf('event: message_delta'), ending), replyCut(body, stopEnd, ending))
    expect(await ask({}, { ...call, stream: true })).toMatchObject({ reason: 'connection_error', outcome: 'truncated' })
    expect(await ask({}, { ...call, stream: true })).toMatchObject({ outcome: 'complete' })
  }
})

test('a stream may also be answered by one JSON body, and by an error in it', async () => {
  upstream.script(replyJson(message), replyJson({ type: 'error', error: { type: 'rate_limit_error', message: 'no' } }))
  expect(await ask({}, { ...call, stream: true })).toMatchObject({ text: 'Hello.' })
  expect(await ask({}, { ...call, stream: true })).toMatchObject({ reason: 'rate_limit', outcome: 'error' })
})

test('the base URL may end in /v1 or not, and keeps its path', async () => {
  const origin = new URL(upstream.url).origin
  for (const baseUrl of [origin, `${origin}/`, `${origin}/v1`, `${origin}/v1/`, `${origin}/team/anthropic`]) {
    await ask({ baseUrl })
  }
  const paths = upstream.requests.map(({ path }) => path)
  expect(paths).toEqual([...Array.from({ length: 4 }, () => '/v1/messages'), '/team/anthropic/v1/messages'])
})

test('without a key none is sent, and a configured header overrides ours', async () => {
  await ask({ apiKey: undefined, headers: { Authorization: 'Bearer abc', 'Anthropic-Version': '2099-01-01' } })
  const headers = upstream.requests[0]?.headers
  expect(headers).toMatchObject({ authorization: 'Bearer abc', 'anthropic-version': '2099-01-01' })
  expect(headers).not.toHaveProperty('x-api-key')
})

test.each([
  [400, 'invalid_request_error', 'max_tokens: must be positive', 'bad_request', false],
  [400, 'invalid_request_error', 'prompt is too long: 210000 tokens > 200000 maximum', 'context_length', false],
  [
    400,
    'invalid_request_error',
    'input length and `max_tokens` exceed context limit: 199 + 9 > 200',
    'context_length',
    false,
  ],
  [400, 'invalid_request_error', 'Output blocked by content filtering policy', 'content_filter', false],
  [400, 'invalid_request_error', 'Your credit balance is too low to access the API', 'quota_exhausted', true],
  [401, 'authentication_error', 'invalid x-api-key', 'auth_failed', true],
  [403, 'permission_error', 'not yours', 'auth_failed', true],
  [404, 'not_found_error', 'model: claude-test-1', 'model_not_found', true],
  [413, 'request_too_large', 'Request exceeds the maximum size', 'bad_request', false],
  [429, 'rate_limit_error', 'too fast', 'rate_limit', false],
  [500, 'api_error', 'Internal server error', 'server_error', false],
  [504, 'timeout_error', 'took too long', 'server_error', false],
  [529, 'overloaded_error', 'Overloaded', 'server_error', false],
])('%i %s "%s" is %s', async (status, type, words, reason, alarm) => {
  const body = { type: 'error', error: { type, message: words }, request_id: 'req_1' }
  upstream.script(replyJson(body, { status, headers: { 'retry-after': '12' } }))
  await expect(open().chat(call, new AbortController().signal)[Symbol.asyncIterator]().next()).rejects.toMatchObject({
    name: 'ProviderError',
    reason,
    alarm,
    upstreamStatus: status,
    retryAfterSeconds: 12,
    message: `The provider answered ${status} (${type}).`,
  })
})

test('unsupported requests are rejected without a call', async () => {
  const request = { ...call, options: { logprobs: true } }
  expect(() => open().chat(request, new AbortController().signal)).toThrowError(/logprobs/)
  expect(upstream.requests).toEqual([])
})

test('many concurrent calls each get their own answer', async () => {
  upstream.fallback((exchange) => {
    const { messages } = exchange.request.body as { messages: { content: { text: string }[] }[] }
    return replyRaw(anthropicStream({ texts: ['You said ', messages[0]?.content[0]?.text ?? ''] }))(exchange)
  })
  const provider = open()
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
