import { describe, expect, test } from 'vitest'
import type { EmbedCall } from '../../../../../src/daemon/models/provider.ts'
import { type BedrockOptions, bedrockProvider } from '../../../../../src/daemon/models/providers/bedrock/provider.ts'
import { createFakeClock } from '../../../../fake-clock.ts'
import { replyJson } from '../../../../upstream.ts'
import { upstreamForEach } from '../../provider-calls.ts'

const TITAN = 'amazon.titan-embed-text-v2:0'
const COHERE = 'eu.cohere.embed-v4:0'

const upstream = upstreamForEach()

function embed(call: Pick<EmbedCall, 'model' | 'input'> & Partial<EmbedCall>, options: Partial<BedrockOptions> = {}) {
  const baseUrl = new URL(upstream.url).origin
  const defaults = {
    name: 'bedrock',
    region: 'eu-central-1',
    baseUrl,
    apiKey: 'secret',
    headers: {},
    models: undefined,
  }
  const provider = upstream.closeAfter(bedrockProvider({ ...defaults, ...options }, { clock: createFakeClock() }))
  return provider.embed({ attemptMs: 20_000, ...call }, new AbortController().signal)
}

describe('Titan', () => {
  test('embeds one text, and counts it', async () => {
    upstream.script(replyJson({ embedding: [0.5, -1], embeddingsByType: { float: [0.5, -1] }, inputTextTokenCount: 3 }))
    expect(await embed({ model: TITAN, input: ['one'], dimensions: 256, user: 'u' })).toEqual({
      vectors: [[0.5, -1]],
      usage: expect.objectContaining({ inputTokens: 3, outputTokens: 0, estimated: false }),
    })
    expect(upstream.requests).toMatchObject([
      {
        path: '/model/amazon.titan-embed-text-v2%3A0/invoke',
        headers: { authorization: 'Bearer secret', 'content-type': 'application/json' },
      },
    ])
    expect(upstream.requests[0]?.body).toEqual({ inputText: 'one', dimensions: 256 })
  })

  test('rejects a second text, and sends nothing', async () => {
    await expect(embed({ model: TITAN, input: ['one', 'two'] })).rejects.toMatchObject({ reason: 'bad_request' })
    expect(upstream.requests).toEqual([])
  })
})

describe('Cohere', () => {
  test.each([
    [
      'by type',
      {
        embeddings: {
          float: [
            [1, 2],
            [3, 4],
          ],
        },
        response_type: 'embeddings_by_type',
        id: 'i',
        texts: [],
      },
    ],
    [
      'without types',
      {
        embeddings: [
          [1, 2],
          [3, 4],
        ],
        response_type: 'embeddings_floats',
        id: 'i',
        texts: [],
      },
    ],
  ])('embeds texts in order, and reads the answer %s', async (_, body) => {
    upstream.script(replyJson(body))
    expect(await embed({ model: COHERE, input: ['one', 'two'], dimensions: 512 })).toEqual({
      vectors: [
        [1, 2],
        [3, 4],
      ],
      usage: undefined,
    })
    expect(upstream.requests[0]).toMatchObject({ path: '/model/eu.cohere.embed-v4%3A0/invoke' })
    expect(upstream.requests[0]?.body).toEqual({
      texts: ['one', 'two'],
      input_type: 'search_document',
      embedding_types: ['float'],
      output_dimension: 512,
    })
  })

  test('accepts at most 96 texts', async () => {
    const many = Array<string>(96).fill('x')
    upstream.script(replyJson({ embeddings: { float: many.map(() => [1]) } }))
    expect((await embed({ model: COHERE, input: many })).vectors).toHaveLength(96)
    await expect(embed({ model: COHERE, input: [...many, 'x'] })).rejects.toMatchObject({ reason: 'bad_request' })
  })
})

test('without an API key a call is signed', async () => {
  upstream.script(replyJson({ embedding: [1], inputTextTokenCount: 1 }))
  const credentials = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'not a secret' }
  await embed({ model: TITAN, input: ['one'] }, { apiKey: undefined, credentials })
  expect(upstream.requests[0]?.headers).toMatchObject({
    authorization: expect.stringMatching(/^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/.*eu-central-1\/bedrock/),
  })
})

test('a model of another family is rejected, and nothing is sent', async () => {
  const refused = { reason: 'bad_request', message: expect.stringContaining('cohere.embed') }
  await expect(embed({ model: 'anthropic.claude-haiku-4-5', input: ['one'] })).rejects.toMatchObject(refused)
  expect(upstream.requests).toEqual([])
})

test.each([
  ['no vector', TITAN, { inputTextTokenCount: 3 }],
  ['an empty vector', TITAN, { embedding: [] }],
  ['words', TITAN, { embedding: 'AAAA' }],
  ['no object', TITAN, [1]],
  ['another number of vectors', COHERE, { embeddings: { float: [[1], [2]] } }],
  ['vectors of another type', COHERE, { embeddings: { int8: [[1]] } }],
])('an answer with %s is a failure', async (_, model, body) => {
  upstream.script(replyJson(body))
  await expect(embed({ model, input: ['one'] })).rejects.toMatchObject({ reason: 'server_error' })
})

test("a failure has its reason, without the provider's text", async () => {
  upstream.script(
    replyJson({ message: 'secret' }, { status: 429, headers: { 'x-amzn-errortype': 'ThrottlingException' } }),
  )
  const failure = { reason: 'rate_limit', message: expect.not.stringContaining('secret') }
  await expect(embed({ model: TITAN, input: ['one'] })).rejects.toMatchObject(failure)
})
