import { afterEach, beforeEach, expect, test } from 'vitest'
import type { EmbedCall } from '../../../../../src/daemon/models/provider.ts'
import { toGoogleEmbeddings } from '../../../../../src/daemon/models/providers/google/embeddings.ts'
import { type GoogleProvider, googleProvider } from '../../../../../src/daemon/models/providers/google/provider.ts'
import { createFakeClock, type FakeClock } from '../../../../fake-clock.ts'
import { hang, replyJson, startUpstream, type Upstream } from '../../../../upstream.ts'

const ATTEMPT_MS = 20_000
const answer = (...values: unknown[]) => ({ embeddings: values.map((one) => ({ values: one })) })

let upstream: Upstream
let clock: FakeClock
let provider: GoogleProvider

beforeEach(async () => {
  upstream = await startUpstream()
  upstream.fallback(replyJson(answer([0.5, -1])))
  clock = createFakeClock()
  const baseUrl = new URL(upstream.url).origin
  provider = googleProvider({ name: 'google', baseUrl, apiKey: 'secret', headers: {}, models: undefined }, { clock })
})
afterEach(async () => {
  await provider.close()
  await upstream.close()
})

const embed = (more: Partial<EmbedCall> = {}, signal = new AbortController().signal) =>
  provider.embed({ model: 'gemini-embedding-001', input: ['one'], attemptMs: ATTEMPT_MS, ...more }, signal)

test('texts become vectors in one batch, in their order', async () => {
  upstream.script(replyJson({ ...answer([0.5, -1], [2, 3e-7]), usageMetadata: { promptTokenCount: 6 } }))
  expect(await embed({ input: ['one', 'zwö'], dimensions: 2, user: 'u', noTraining: true })).toEqual({
    vectors: [
      [0.5, -1],
      [2, 3e-7],
    ],
    usage: {
      inputTokens: 6,
      outputTokens: 0,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      reasoningTokens: 0,
      estimated: false,
    },
  })
  const asked = (text: string) => ({
    model: 'models/gemini-embedding-001',
    content: { parts: [{ text }] },
    outputDimensionality: 2,
  })
  expect(upstream.requests).toMatchObject([
    { path: '/v1beta/models/gemini-embedding-001:batchEmbedContents', headers: { 'x-goog-api-key': 'secret' } },
  ])
  expect(upstream.requests[0]?.body).toEqual({ requests: [asked('one'), asked('zwö')] })
  expect(clock.pending).toBe(0)
})

test('an answer without a count is counted by us', async () => {
  expect(await embed()).toEqual({ vectors: [[0.5, -1]], usage: undefined })
})

test('more texts than a batch may have are rejected, and nothing is sent', async () => {
  const refused = { reason: 'bad_request', message: expect.stringContaining('100') }
  await expect(embed({ input: Array(101).fill('x') })).rejects.toMatchObject(refused)
  expect(upstream.requests).toEqual([])
})

test.each([
  ['another number of vectors', answer([1], [2])],
  ['none', { embeddings: [] }],
  ['no list', { embeddings: { values: [1] } }],
  ['no vectors', answer('AAAA')],
  ['an empty one', answer([])],
  ['one with a hole', answer([1, null])],
  ['no object', [1]],
])('an answer with %s is a failure', (_, body) => {
  expect(() => toGoogleEmbeddings(body, 1)).toThrow(expect.objectContaining({ reason: 'server_error' }))
})

test('vectors of different lengths are a failure', () => {
  expect(() => toGoogleEmbeddings(answer([1], [1, 2]), 2)).toThrow(expect.objectContaining({ reason: 'server_error' }))
})

test("failures have the same reasons as those of chats, without the provider's text", async () => {
  const error = (code: number, status: string) =>
    replyJson({ error: { code, status, message: 'secret' } }, { status: code })
  upstream.script(error(429, 'RESOURCE_EXHAUSTED'), error(503, 'UNAVAILABLE'), error(400, 'INVALID_ARGUMENT'))
  for (const reason of ['rate_limit', 'server_error', 'bad_request']) {
    await expect(embed()).rejects.toMatchObject({ reason, message: expect.not.stringContaining('secret') })
  }
})

test('a late answer, or one whose caller has disconnected, is aborted', async () => {
  upstream.script(hang, hang)
  const late = expect(embed()).rejects.toMatchObject({ reason: 'timeout' })
  const first = await upstream.nextRequest()
  clock.advance(ATTEMPT_MS)
  await late
  await first.aborted
  const leave = new AbortController()
  const left = expect(embed({}, leave.signal)).rejects.toMatchObject({ reason: 'aborted' })
  const second = await upstream.nextRequest()
  leave.abort()
  await left
  await second.aborted
})
