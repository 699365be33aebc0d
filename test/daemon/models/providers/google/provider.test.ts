import { expect, test } from 'vitest'
import type { ProviderCall } from '../../../../../src/daemon/models/provider.ts'
import { type GoogleOptions, googleProvider } from '../../../../../src/daemon/models/providers/google/provider.ts'
import { createFakeClock } from '../../../../fake-clock.ts'
import { replyJson, replyRaw, replySplit } from '../../../../upstream.ts'
import { testCall, upstreamForEach } from '../../provider-calls.ts'
import { googleStream, playCall } from './playback.ts'

const call = testCall({
  model: 'gemini-3-flash',
  system: 'Be brief.',
  messages: [{ role: 'user', content: 'Ünï' }],
  temperature: 0.2,
})
const body = {
  candidates: [{ content: { role: 'model', parts: [{ text: 'Hello.' }] }, finishReason: 'STOP', index: 0 }],
  usageMetadata: { promptTokenCount: 4, candidatesTokenCount: 2, totalTokenCount: 6 },
}
const usage = {
  inputTokens: 4,
  outputTokens: 2,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  estimated: false,
}

const upstream = upstreamForEach(replyJson(body))

function ask(more: Partial<ProviderCall> = {}, options: Partial<GoogleOptions> = {}) {
  const defaults = { name: 'google', baseUrl: upstream.origin, apiKey: 'secret', headers: {}, models: undefined }
  const provider = upstream.closeAfter(googleProvider({ ...defaults, ...options }, { clock: createFakeClock() }))
  return playCall(provider.chat({ ...call, ...more }, new AbortController().signal))
}

test('a call is one POST with key, headers and body, and its answer comes with usage', async () => {
  expect(await ask({}, { headers: { 'X-Title': 'aigw' } })).toMatchObject({
    text: 'Hello.',
    outcome: 'complete',
    usage,
  })
  expect(upstream.requests).toMatchObject([
    {
      method: 'POST',
      path: '/v1beta/models/gemini-3-flash:generateContent',
      headers: { 'x-goog-api-key': 'secret', 'content-type': 'application/json', 'x-title': 'aigw' },
      body: {
        systemInstruction: { parts: [{ text: 'Be brief.' }] },
        contents: [{ role: 'user', parts: [{ text: 'Ünï' }] }],
        generationConfig: { temperature: 0.2, maxOutputTokens: 64 },
      },
    },
  ])
})

test('a streamed call requests server-sent events and accepts them in any pieces', async () => {
  const stream = googleStream([[{ text: 'Hel' }], [{ text: 'lö' }]], { usage: body.usageMetadata })
  upstream.script(replySplit(stream, [1, 40, Buffer.byteLength(stream) - 3]))
  expect(await ask({ stream: true })).toMatchObject({ text: 'Hellö', outcome: 'complete', usage })
  expect(upstream.requests[0]?.path).toBe('/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse')
})

test('a stream that ends with a FIN but without a finish reason is truncated', async () => {
  upstream.script(replyRaw(`${googleStream([[{ text: 'Hel' }], [{ text: 'lo' }]]).split('\n\n')[0]}\n\n`))
  expect(await ask({ stream: true })).toMatchObject({ reason: 'connection_error', outcome: 'truncated' })
})

test('a version in the base URL is kept, and a model name stays in its path segment', async () => {
  for (const baseUrl of [`${upstream.origin}/v1`, `${upstream.origin}/proxy/v1beta/`, `${upstream.origin}/proxy`])
    await ask({}, { baseUrl })
  for (const model of ['tunedModels/mine-1', '../files?x=1#', 'models/..']) await ask({ model })
  expect(upstream.requests.map(({ path }) => path)).toEqual([
    '/v1/models/gemini-3-flash:generateContent',
    '/proxy/v1beta/models/gemini-3-flash:generateContent',
    '/proxy/v1beta/models/gemini-3-flash:generateContent',
    '/v1beta/tunedModels/mine-1:generateContent',
    '/v1beta/models/..%2Ffiles%3Fx%3D1%23:generateContent',
    '/v1beta/models/models%2F..:generateContent',
  ])
})

test('without a key none is sent, and a configured header overrides ours', async () => {
  await ask({}, { apiKey: undefined })
  await ask({}, { headers: { 'X-Goog-Api-Key': 'other' } })
  expect(upstream.requests.map(({ headers }) => headers['x-goog-api-key'])).toEqual([undefined, 'other'])
})

test('a rejection has its reason and wait, without its body; also as a JSON answer to a streamed call', async () => {
  const details = [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '12s' }]
  const error = { code: 429, status: 'RESOURCE_EXHAUSTED', message: 'project 4711 is over its quota', details }
  upstream.script(replyJson([{ error }], { status: 429 }), replyJson({ error }))
  expect(await ask({ stream: true })).toEqual({
    reason: 'rate_limit',
    outcome: 'error',
    message: 'The provider answered 429 (RESOURCE_EXHAUSTED).',
  })
  expect(await ask({ stream: true })).toMatchObject({ reason: 'rate_limit', outcome: 'error' })
})

test('unsupported requests are rejected before anything is sent', () => {
  expect(() => ask({ options: { toolChoice: 'required' } })).toThrow(expect.objectContaining({ reason: 'bad_request' }))
  expect(upstream.requests).toEqual([])
})
