import { createHash, createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import type { Provider, ProviderCall } from '../../../../../src/daemon/models/provider.ts'
import { bedrockBaseUrl } from '../../../../../src/daemon/models/providers/bedrock/address.ts'
import { type BedrockOptions, bedrockProvider } from '../../../../../src/daemon/models/providers/bedrock/provider.ts'
import { createFakeClock } from '../../../../fake-clock.ts'
import { type ReceivedRequest, replyJson, replyRaw, replySplit } from '../../../../upstream.ts'
import { testCall, upstreamForEach } from '../../provider-calls.ts'
import { answerEvents, encodeAll, playCall } from './playback.ts'

const call = testCall({
  model: 'eu.anthropic.claude-haiku-4-5-20251001-v1:0',
  system: 'Be brief.',
  messages: [{ role: 'user', content: 'Ünï' }],
  temperature: 0.2,
})
const usage = { inputTokens: 4, outputTokens: 2, totalTokens: 6 }
const body = {
  output: { message: { role: 'assistant', content: [{ text: 'Hello.' }] } },
  stopReason: 'end_turn',
  usage,
}
const credentials = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'not a secret' }
const eventStream = { contentType: 'application/vnd.amazon.eventstream' }

const upstream = upstreamForEach(replyJson(body))

function open(options: Partial<BedrockOptions> = {}): Provider {
  const defaults = { name: 'bedrock', region: 'eu-central-1', baseUrl: upstream.origin, headers: {}, models: undefined }
  return upstream.closeAfter(
    bedrockProvider({ ...defaults, apiKey: undefined, ...options }, { clock: createFakeClock() }),
  )
}

const ask = (more: Partial<ProviderCall> = {}, options: Partial<BedrockOptions> = {}) =>
  playCall(open(options).chat({ ...call, ...more }, new AbortController().signal))

const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

/** The expected signature of a request, computed from the received data as the server does (SigV4, bedrock). */
function expectedSignature({ method, path, headers, rawBody }: ReceivedRequest, secret: string): string {
  const authorization = String(headers.authorization)
  const [, scope = '', names = ''] = /Credential=[^/]+\/([^,]+), SignedHeaders=([^,]+),/.exec(authorization) ?? []
  const escaped = path
    .split('/')
    .map((segment) => encodeURIComponent(segment))
    .join('/')
  const canonical = [
    method,
    escaped,
    '',
    ...names.split(';').map((name) => `${name}:${headers[name]}`),
    '',
    names,
    sha256(rawBody),
  ].join('\n')
  const key = scope.split('/').reduce<string | Buffer>((last, part) => hmac(last, part), `AWS4${secret}`)
  const toSign = ['AWS4-HMAC-SHA256', headers['x-amz-date'], scope, sha256(canonical)].join('\n')
  return hmac(key, toSign).toString('hex')
}

test('a call is one POST with key, headers and body, and its answer comes with usage', async () => {
  expect(await ask({}, { apiKey: 'secret', headers: { 'X-Title': 'aigw' } })).toMatchObject({
    text: 'Hello.',
    outcome: 'complete',
    usage: { inputTokens: 4, outputTokens: 2, estimated: false },
  })
  expect(upstream.requests).toMatchObject([
    {
      method: 'POST',
      path: '/model/eu.anthropic.claude-haiku-4-5-20251001-v1%3A0/converse',
      headers: { authorization: 'Bearer secret', 'content-type': 'application/json', 'x-title': 'aigw' },
      body: {
        system: [{ text: 'Be brief.' }],
        messages: [{ role: 'user', content: [{ text: 'Ünï' }] }],
        inferenceConfig: { temperature: 0.2, maxTokens: 64 },
      },
    },
  ])
})

test('a streamed call accepts its events in any pieces', async () => {
  const stream = encodeAll(answerEvents(['Hel', 'lö'], { usage }))
  upstream.script(replySplit(stream, [1, 40, stream.length - 3], eventStream))
  expect(await ask({ stream: true })).toMatchObject({
    text: 'Hellö',
    outcome: 'complete',
    usage: { inputTokens: 4, outputTokens: 2 },
  })
  expect(upstream.requests[0]?.path).toBe('/model/eu.anthropic.claude-haiku-4-5-20251001-v1%3A0/converse-stream')
})

test('a stream that ends with a FIN but without its stop is truncated', async () => {
  upstream.script(replyRaw(encodeAll(answerEvents(['Hel', 'lo']).slice(0, 3)), eventStream))
  expect(await ask({ stream: true })).toMatchObject({ reason: 'connection_error', outcome: 'truncated' })
})

test("an exception in a stream has its reason, without the provider's text", async () => {
  const events = [{ exception: 'throttlingException', data: { message: 'account 4711 is over its quota' } }]
  upstream.script(replyRaw(encodeAll(events), eventStream))
  expect(await ask({ stream: true })).toEqual({
    reason: 'rate_limit',
    outcome: 'error',
    message: 'The provider reported an error in its answer (throttlingException).',
  })
})

test('with credentials a call has the signature that the server computes', async () => {
  const arn = 'arn:aws:bedrock:eu-central-1:1234:inference-profile/eu.anthropic.claude'
  for (const model of [call.model, arn, 'ünï model']) {
    await ask({ model }, { credentials, headers: { 'X-Trace': 'one  two' } })
  }
  expect(upstream.requests[1]?.path).toContain('inference-profile%2Feu.anthropic.claude/converse')
  for (const request of upstream.requests) {
    const { headers } = request
    expect(headers.authorization).toContain('Credential=AKIDEXAMPLE/20260101/eu-central-1/bedrock/aws4_request,')
    expect(headers.authorization).toMatch(
      /SignedHeaders=accept-encoding;content-type;host;x-amz-content-sha256;x-amz-date;x-trace,/,
    )
    expect(headers.authorization).toContain(
      `Signature=${expectedSignature({ ...request, headers: { ...headers, 'x-trace': 'one two' } }, credentials.secretAccessKey)}`,
    )
    expect(headers).toMatchObject({ host: new URL(upstream.origin).host, 'x-amz-date': '20260101T000000Z' })
    expect(headers).not.toHaveProperty('x-amz-security-token')
  }
})

test('a session token is sent and signed', async () => {
  await ask({}, { credentials: { ...credentials, sessionToken: 'token' } })
  const [request] = upstream.requests as [ReceivedRequest]
  expect(request.headers['x-amz-security-token']).toBe('token')
  expect(request.headers.authorization).toMatch(/SignedHeaders=[^,]*x-amz-security-token/)
  expect(request.headers.authorization).toContain(expectedSignature(request, credentials.secretAccessKey))
})

test('an API key takes precedence over credentials, a configured authorization over both; without any none is sent', async () => {
  await ask({}, { apiKey: 'key', credentials })
  await ask({}, { apiKey: 'key', credentials, headers: { Authorization: 'Bearer other' } })
  await ask()
  expect(upstream.requests.map(({ headers }) => headers.authorization)).toEqual([
    'Bearer key',
    'Bearer other',
    undefined,
  ])
})

test('a call that is aborted while it is signed is never sent', async () => {
  const batches = open({ credentials }).chat(call, new AbortController().signal)[Symbol.asyncIterator]()
  const first = batches.next()
  await batches.return?.()
  await expect(first).rejects.toThrow('not read further')
  await ask()
  expect(upstream.requests).toHaveLength(1)
})

test('the region determines the address, a base URL may have a path, and model names stay in their path segment', async () => {
  expect(bedrockBaseUrl('eu-central-1')).toBe('https://bedrock-runtime.eu-central-1.amazonaws.com')
  expect(bedrockBaseUrl('cn-north-1')).toBe('https://bedrock-runtime.cn-north-1.amazonaws.com.cn')
  await ask({ model: '../x?y#' }, { baseUrl: `${upstream.origin}/proxy/` })
  expect(upstream.requests[0]?.path).toBe('/proxy/model/..%2Fx%3Fy%23/converse')
  expect(() => ask({ model: '..' })).toThrow(expect.objectContaining({ reason: 'bad_request' }))
})

test('a rejection has its reason, without its body', async () => {
  const headers = { 'x-amzn-errortype': 'ThrottlingException:http://internal.amazon.com/' }
  upstream.script(replyJson({ message: 'account 4711 is over its quota' }, { status: 429, headers }))
  expect(await ask({ stream: true })).toEqual({
    reason: 'rate_limit',
    outcome: 'error',
    message: 'The provider answered 429 (ThrottlingException).',
  })
})

test('unsupported requests are rejected before anything is sent', () => {
  expect(() => ask({ options: { seed: 7 } })).toThrow(expect.objectContaining({ reason: 'bad_request' }))
  expect(upstream.requests).toEqual([])
})
