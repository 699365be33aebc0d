import fc from 'fast-check'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { EmbedCall, Provider } from '../../../../../src/daemon/models/provider.ts'
import { toEmbeddings } from '../../../../../src/daemon/models/providers/openai/embeddings.ts'
import { openAiProvider } from '../../../../../src/daemon/models/providers/openai/provider.ts'
import { runToEnd } from '../../../../../src/daemon/platform/pacing.ts'
import { createFakeClock, type FakeClock } from '../../../../fake-clock.ts'
import { hang, replyJson, startUpstream, type Upstream } from '../../../../upstream.ts'

let upstream: Upstream
let clock: FakeClock
const opened: Provider[] = []
const ATTEMPT_MS = 20_000

beforeEach(async () => {
  upstream = await startUpstream()
  clock = createFakeClock()
})

afterEach(async () => {
  await Promise.all(opened.splice(0).map((provider) => provider.close()))
  await upstream.close()
})

function embed(call: Omit<EmbedCall, 'attemptMs'>, { name = 'up', signal = new AbortController().signal } = {}) {
  const options = { name, baseUrl: upstream.url, apiKey: 'secret', headers: {}, models: undefined }
  const provider = openAiProvider(options, { clock })
  opened.push(provider)
  return provider.embed?.({ ...call, attemptMs: ATTEMPT_MS }, signal)
}

const base64 = (...values: number[]) => Buffer.from(Float32Array.from(values).buffer).toString('base64')
const answer = (...embeddings: unknown[]) => ({
  data: embeddings.map((embedding, index) => ({ object: 'embedding', index, embedding })),
  usage: { prompt_tokens: 6, total_tokens: 6 },
})

test('texts become vectors in order, read from base64', async () => {
  const { data, usage } = answer(base64(0.5, -1), base64(0.25, 2))
  upstream.script(replyJson({ data: data.reverse(), usage }))
  expect(await embed({ model: 'small', input: ['a', 'b'], dimensions: 2, user: 'u' })).toEqual({
    vectors: [Float32Array.of(0.5, -1), Float32Array.of(0.25, 2)],
    usage: {
      inputTokens: 6,
      outputTokens: 0,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      reasoningTokens: 0,
      estimated: false,
    },
  })
  expect(upstream.requests).toMatchObject([
    {
      method: 'POST',
      path: '/v1/embeddings',
      headers: { authorization: 'Bearer secret' },
      body: { model: 'small', input: ['a', 'b'], encoding_format: 'base64', dimensions: 2, user: 'u' },
    },
  ])
  expect(clock.pending).toBe(0)
})

test('a server without base64 is supported, and Mistral has its own name for dimensions', async () => {
  upstream.script(replyJson(answer([1, 2])))
  expect(await embed({ model: 'm', input: ['a'], dimensions: 2, user: 'u' }, { name: 'mistral' })).toMatchObject({
    vectors: [[1, 2]],
  })
  const [request] = upstream.requests
  expect(request?.body).toEqual({ model: 'm', input: ['a'], encoding_format: 'base64', output_dimension: 2 })
})

test('any vectors survive base64 unchanged', () => {
  const float = fc.float({ noNaN: true, noDefaultInfinity: true })
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 8 }),
      fc.array(fc.array(float, { minLength: 8, maxLength: 8 })),
      (size, all) => {
        const vectors = all.map((values) => values.slice(0, size))
        const body = answer(...vectors.map((values) => base64(...values)))
        const read = runToEnd(toEmbeddings(body, vectors.length)).vectors
        expect(read.map((vector) => Array.from(vector))).toEqual(vectors)
      },
    ),
  )
})

test('many vectors are read and checked in steps, so that other work runs in between', () => {
  const count = 100
  const work = toEmbeddings(answer(...Array.from({ length: count }, () => base64(0.5, -1))), count)
  let steps = 0
  while (!work.next().done) steps += 1
  expect(steps).toBeGreaterThanOrEqual(2 * count)
})

test.each([
  ['a vector too few', answer(base64(1)), 2],
  ['a vector too many', answer(base64(1), base64(2)), 1],
  [
    'one twice',
    {
      data: [
        { index: 0, embedding: [1] },
        { index: 0, embedding: [2] },
      ],
    },
    2,
  ],
  ['vectors of two lengths', answer([1], [1, 2]), 2],
  ['an empty vector', answer([]), 1],
  ['half a number', answer('AAAA'), 1],
  ['no number', answer([Number.NaN]), 1],
  ['words', answer(['a']), 1],
  ['no list', { data: {} }, 1],
  ['an error', { error: { message: 'no', code: 'boom' } }, 1],
])('%s is a failure', (_, body, count) => {
  expect(() => runToEnd(toEmbeddings(body, count))).toThrow(expect.objectContaining({ name: 'ProviderError' }))
})

test('a rejection has its reason, and a silent server is a timeout', async () => {
  upstream.script(
    replyJson({ error: { code: 'rate_limit_exceeded' } }, { status: 429, headers: { 'retry-after': '3' } }),
  )
  await expect(embed({ model: 'm', input: ['a'] })).rejects.toMatchObject({
    reason: 'rate_limit',
    retryAfterSeconds: 3,
  })
  upstream.script(hang)
  const silent = embed({ model: 'm', input: ['a'] })
  await upstream.nextRequest()
  await upstream.nextRequest()
  clock.advance(ATTEMPT_MS)
  await expect(silent).rejects.toMatchObject({ reason: 'timeout' })
})

test('a disconnect of the caller ends the call', async () => {
  upstream.script(hang)
  const leaving = new AbortController()
  const running = embed({ model: 'm', input: ['a'] }, { signal: leaving.signal })
  const request = await upstream.nextRequest()
  leaving.abort()
  await expect(running).rejects.toMatchObject({ reason: 'aborted' })
  await request.aborted
})
