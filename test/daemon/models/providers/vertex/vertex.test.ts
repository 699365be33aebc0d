import { expect, test } from 'vitest'
import type { Provider, ProviderCall } from '../../../../../src/daemon/models/provider.ts'
import {
  claudeOnVertex,
  geminiOnVertex,
  type VertexOptions,
} from '../../../../../src/daemon/models/providers/vertex/provider.ts'
import { createFakeClock, type FakeClock } from '../../../../fake-clock.ts'
import { hang, replyJson, replyRaw, type Script } from '../../../../upstream.ts'
import { testCall, upstreamForEach } from '../../provider-calls.ts'
import { playCall as playMessages } from '../anthropic/playback.ts'
import { playCall } from '../google/playback.ts'
import { accountAt, assertionIn, token } from './account.ts'

const GEMINI = {
  candidates: [{ content: { role: 'model', parts: [{ text: 'Hello.' }] }, finishReason: 'STOP' }],
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 },
}
const CLAUDE = {
  ...{ id: 'msg_1', type: 'message', role: 'assistant', stop_reason: 'end_turn' },
  content: [{ type: 'text', text: 'Hello.' }],
  usage: { input_tokens: 3, output_tokens: 2 },
}
const hello = replyJson(GEMINI)
const TOKEN_PATH = '/token?x=1'

const upstream = upstreamForEach(replyJson({ error: { message: 'no script' } }, { status: 500 }))

type Made = { provider: Provider & Required<Pick<Provider, 'countTokens'>>; clock: FakeClock }
const options = (given: Partial<VertexOptions> = {}): VertexOptions => ({
  name: 'vertex',
  project: 'house-123',
  location: 'europe-west4',
  baseUrl: upstream.origin,
  headers: {},
  models: undefined,
  credentials: accountAt(upstream.origin + TOKEN_PATH),
  ...given,
})
function gemini(given: Partial<VertexOptions> = {}): Made & { provider: ReturnType<typeof geminiOnVertex> } {
  const clock = createFakeClock()
  return { provider: upstream.closeAfter(geminiOnVertex(options(given), { clock })), clock }
}
function claude(given: Partial<VertexOptions> = {}): Made {
  const clock = createFakeClock()
  return { provider: upstream.closeAfter(claudeOnVertex(options(given), { clock })), clock }
}

const signal = () => new AbortController().signal
const ask = (provider: Provider, more: Partial<ProviderCall> = {}) =>
  playCall(provider.chat(testCall({ model: 'gemini-2.5-pro', ...more }), signal()))
const paths = () => upstream.requests.map(({ path }) => path)
const CHAT =
  '/v1beta1/projects/house-123/locations/europe-west4/publishers/google/models/gemini-2.5-pro:generateContent'

test('a service account signs an assertion, and its token authorises the call', async () => {
  upstream.script(token('ya29.one'), hello)
  const { provider, clock } = gemini()
  expect(await ask(provider)).toMatchObject({ text: 'Hello.', outcome: 'complete', usage: { inputTokens: 3 } })
  const [first, second] = upstream.requests
  const seconds = clock.now() / 1_000
  expect(first).toMatchObject({
    method: 'POST',
    path: TOKEN_PATH,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  })
  expect(assertionIn(first?.rawBody ?? '')).toEqual({
    grantType: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    header: { alg: 'RS256', typ: 'JWT', kid: 'key-1' },
    claims: {
      iss: 'gateway@house-123.iam.gserviceaccount.com',
      scope: 'https://www.googleapis.com/auth/cloud-platform',
      aud: upstream.origin + TOKEN_PATH,
      iat: seconds,
      exp: seconds + 3_600,
    },
  })
  expect(second).toMatchObject({
    path: CHAT,
    headers: { authorization: 'Bearer ya29.one' },
    body: { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] },
  })
})

test('calls at the same time wait for one token, and later calls use it', async () => {
  let answer = () => {}
  const held = new Promise<void>((resolve) => {
    answer = resolve
  })
  const slow: Script = async (exchange) => {
    await held
    await token('ya29.one')(exchange)
  }
  upstream.script(slow, hello, hello, hello)
  const { provider } = gemini()
  const both = Promise.all([ask(provider), ask(provider)])
  await upstream.nextRequest()
  answer()
  expect(await both).toMatchObject([{ text: 'Hello.' }, { text: 'Hello.' }])
  expect(await ask(provider)).toMatchObject({ text: 'Hello.' })
  expect(paths()).toEqual([TOKEN_PATH, CHAT, CHAT, CHAT])
})

test('a token is refreshed in the background before its end, and is not used at its end', async () => {
  upstream.script(token('ya29.one'), hello)
  const { provider, clock } = gemini()
  await ask(provider)
  const authorization = () => upstream.requests.findLast(({ path }) => path === CHAT)?.headers.authorization

  clock.advance(3_300_001)
  // Both requests run at the same time, so the answers depend on the path.
  upstream.fallback((exchange) => (exchange.request.path === CHAT ? hello(exchange) : token('ya29.two')(exchange)))
  await ask(provider)
  expect(authorization()).toBe('Bearer ya29.one')
  await expect.poll(() => paths().filter((path) => path === TOKEN_PATH).length).toBe(2)
  await expect
    .poll(async () => {
      await ask(provider)
      return authorization()
    })
    .toBe('Bearer ya29.two')

  clock.advance(3_541_000)
  upstream.fallback((exchange) => (exchange.request.path === CHAT ? hello(exchange) : token('ya29.three')(exchange)))
  await ask(provider)
  expect(authorization()).toBe('Bearer ya29.three')
})

test('after 401, the next call fetches a new token', async () => {
  const revoked = replyJson({ error: { code: 401, status: 'UNAUTHENTICATED', message: 'Invalid' } }, { status: 401 })
  upstream.script(token('ya29.one'), revoked, token('ya29.two'), hello)
  const { provider } = gemini()
  expect(await ask(provider)).toMatchObject({ reason: 'auth_failed' })
  expect(await ask(provider)).toMatchObject({ text: 'Hello.' })
  expect(upstream.requests.at(-1)?.headers.authorization).toBe('Bearer ya29.two')
})

test.each<[string, Script, object]>([
  [
    'a rejected account',
    replyJson({ error: 'invalid_grant', error_description: 'Invalid JWT Signature.' }, { status: 400 }),
    {
      reason: 'auth_failed',
      message: 'There is no access token for the service account. The provider answered 400.',
    },
  ],
  ['too many requests', replyJson({ error: 'rate' }, { status: 429 }), { reason: 'rate_limit' }],
  ['a failure of the server', replyJson({}, { status: 503 }), { reason: 'server_error' }],
  ['an answer without a token', replyJson({ expires_in: 3_600 }), { reason: 'server_error' }],
  ['a token that no header may contain', token('a\r\nb'), { reason: 'server_error' }],
  ['a closed connection', ({ reset }) => reset(), { reason: 'connection_error', outcome: 'error' }],
])('%s is a failure before the call, and the next call asks again', async (_, script, failure) => {
  upstream.script(script, token('ya29.two'), hello)
  const { provider } = gemini()
  expect(await ask(provider)).toMatchObject(failure)
  expect(paths()).toEqual([TOKEN_PATH])
  expect(await ask(provider)).toMatchObject({ text: 'Hello.' })
})

test('a token that does not arrive ends the attempt after ten seconds', async () => {
  upstream.script(hang)
  const { provider, clock } = gemini()
  const asked = ask(provider)
  await upstream.nextRequest()
  clock.advance(10_000)
  expect(await asked).toMatchObject({ reason: 'timeout' })
})

test('a configured authorization header replaces the account, and a proxy may need neither', async () => {
  upstream.script(hello, hello)
  await ask(gemini({ headers: { Authorization: 'Bearer own' } }).provider)
  await ask(gemini({ credentials: undefined, baseUrl: `${upstream.origin}/gcp/v1` }).provider)
  expect(upstream.requests.map(({ path, headers }) => [path, headers.authorization])).toEqual([
    [CHAT, 'Bearer own'],
    [`/gcp${CHAT.replace('v1beta1', 'v1')}`, undefined],
  ])
})

test('Gemini on Vertex counts tokens and embeds texts in the forms of Vertex AI', async () => {
  const vector = (...values: number[]) => ({ embeddings: { values, statistics: { token_count: 2, truncated: false } } })
  upstream.script(
    token('ya29.one'),
    replyJson({ totalTokens: 31 }),
    replyJson({ predictions: [vector(0.5, 1), vector(2, 3)] }),
  )
  const { provider } = gemini()
  const tools = [{ name: 'weather', parameters: { type: 'object' } }]
  const counted = testCall({ model: 'gemini-2.5-pro', system: 'Be brief.', options: { tools, toolChoice: 'required' } })
  expect(await provider.countTokens(counted, signal())).toBe(31)
  expect(upstream.requests.at(-1)?.path).toBe(CHAT.replace('generateContent', 'countTokens'))
  expect(Object.keys(upstream.requests.at(-1)?.body as object).toSorted()).toEqual([
    ...['contents', 'generationConfig', 'systemInstruction', 'tools'],
  ])

  const native = { origin: 'google', fields: { taskType: 'RETRIEVAL_QUERY' } }
  const call = { model: 'text-embedding-005', input: ['a', 'b'], dimensions: 2, native, attemptMs: 5_000 }
  expect(await provider.embed(call, signal())).toMatchObject({
    vectors: [
      [0.5, 1],
      [2, 3],
    ],
    usage: { inputTokens: 4 },
  })
  expect(upstream.requests.at(-1)).toMatchObject({
    path: CHAT.replace('gemini-2.5-pro:generateContent', 'text-embedding-005:predict'),
    body: {
      instances: [
        { content: 'a', task_type: 'RETRIEVAL_QUERY' },
        { content: 'b', task_type: 'RETRIEVAL_QUERY' },
      ],
      parameters: { outputDimensionality: 2, autoTruncate: false },
    },
  })
  await expect(provider.embed({ ...call, model: 'gemini-embedding-001' }, signal())).rejects.toThrow(
    'at most 1 texts per request for this model, not 2',
  )
})

test('Claude on Vertex has the model in the path and the version in the body', async () => {
  const at = '/v1/projects/house-123/locations/europe-west4/publishers/anthropic/models'
  const stream = [
    { type: 'message_start', message: { usage: { input_tokens: 3 } } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello.' } },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } },
    { type: 'message_stop' },
  ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  const broken = stream.slice(0, 3).join('')
  upstream.script(token('ya29.one'), replyJson(CLAUDE), replyRaw(stream.join('')), replyRaw(broken))
  const { provider } = claude()
  const call = testCall({ model: 'claude-sonnet-4-5@20250929' })
  expect(await playMessages(provider.chat(call, signal()))).toMatchObject({ text: 'Hello.', usage: { inputTokens: 3 } })
  expect(upstream.requests.at(-1)).toMatchObject({
    path: `${at}/claude-sonnet-4-5@20250929:rawPredict`,
    headers: { authorization: 'Bearer ya29.one' },
  })
  expect(upstream.requests.at(-1)?.body).toEqual({
    anthropic_version: 'vertex-2023-10-16',
    max_tokens: 64,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }],
    stream: false,
  })

  expect(await playMessages(provider.chat({ ...call, stream: true }, signal()))).toMatchObject({ text: 'Hello.' })
  expect(upstream.requests.at(-1)?.path).toBe(`${at}/claude-sonnet-4-5@20250929:streamRawPredict`)
  expect(await playMessages(provider.chat({ ...call, stream: true }, signal()))).toMatchObject({ outcome: 'truncated' })

  upstream.script(replyJson({ input_tokens: 12 }))
  expect(await provider.countTokens(call, signal())).toBe(12)
  expect(upstream.requests.at(-1)).toMatchObject({
    path: `${at}/count-tokens:rawPredict`,
    body: { anthropic_version: 'vertex-2023-10-16', model: 'claude-sonnet-4-5@20250929' },
  })
})
