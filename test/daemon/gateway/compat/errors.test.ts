import { once } from 'node:events'
import { connect } from 'node:net'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { newApiKey } from '../../../../src/shared/ids.ts'
import { addKey, addUser } from '../../../accounts.ts'
import { type CallOptions, sharedGateway } from '../../../harness.ts'
import { chatStream, replyJson, replySteps } from '../../../upstream.ts'

const shared = sharedGateway({ requestLimits: { bodyBytes: 65_536 } })
const hello = { model: 'test/any', max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hi' }] }
const ROUTES = ['/v1/chat/completions', '/v1/messages', '/v1/responses'] as const
const bodyOf = (path: string, more: object = {}) =>
  path === '/v1/responses' ? { model: 'test/any', input: 'Hi', ...more } : { ...hello, ...more }

async function keyWith(settings: object): Promise<string> {
  const { db } = shared.current.app
  const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
  return (await addKey(db, await addUser(db, { tenant_id }), { settings })).secret
}

type Refused = [status: number, code: string, retryable: boolean]

describe.each(ROUTES)('%s: `error` is an object with a message, a type and a code', (path) => {
  const refused = async (
    [status, code, retryable]: Refused,
    body: unknown,
    { method = 'POST', ...options }: CallOptions & { method?: string } = {},
  ) => {
    const answer = await shared.current.call(method, path, body, options)
    expect([answer.status, answer.body]).toEqual([
      status,
      expect.objectContaining({
        success: false,
        error: expect.objectContaining({ message: expect.any(String), type: expect.stringMatching(/^[a-z_]+$/), code }),
        retryable,
        request_id: answer.headers['x-request-id'],
        ...(path === '/v1/messages' && { type: 'error' }),
      }),
    ])
    expect(answer.headers['x-should-retry']).toBe(String(retryable))
  }

  test('before the handler: key, method, body and rate', async () => {
    await refused([401, 'invalid_api_key', false], bodyOf(path), { key: newApiKey() })
    await refused([401, 'invalid_api_key', false], bodyOf(path), { key: null })
    await refused([405, 'method_not_allowed', false], undefined, { method: 'PUT' })
    await refused([400, 'invalid_json', false], '{')
    await refused([400, 'validation_error', false], { messages: 7 })
    await refused([413, 'payload_too_large', false], 'x'.repeat(65_537))
    await refused([415, 'unsupported_media_type', false], 'x', { headers: { 'content-type': 'text/plain' } })
    const key = await keyWith({ rateLimit: { requestsPerMinute: 0, requestsPerHour: null } })
    await refused([429, 'rate_limit_exceeded', true], bodyOf(path), { key })
  })

  test('of the handler: rights, models and providers', async () => {
    const key = await keyWith({ allowedModels: ['local/extract'] })
    await refused([403, 'insufficient_permissions', false], bodyOf(path), { key })
    await refused([400, 'validation_error', false], bodyOf(path, { model: 'nowhere/x' }))
    const failures: [number, Refused][] = [
      [500, [502, 'all_models_failed', true]],
      [429, [429, 'all_models_failed', true]],
      [401, [502, 'all_models_failed', false]],
      [400, [400, 'provider_rejected', false]],
    ]
    for (const [status, expected] of failures) {
      shared.current.upstream.script(replyJson({ error: { message: 'no' } }, { status }))
      await refused(expected, bodyOf(path))
    }
  })

  test('for an unknown path below it, and an unknown path of /v1', async () => {
    for (const unknown of [`${path}/nowhere/at/all`, '/v1/nowhere', '/v1', '/api/external/v1/nowhere']) {
      const { status, body, headers } = await shared.current.call('POST', unknown, {})
      expect([status, body]).toMatchObject([
        404,
        { success: false, error: { code: 'not_found' }, request_id: headers['x-request-id'] },
      ])
    }
  })

  test('for a malformed HTTP request', async () => {
    const { hostname, port } = new URL(shared.current.url)
    for (const head of [
      'Host: x\r\nContent-Length: nine',
      'Host: x\r\nHost: y',
      `Host: x\r\nA: ${'x'.repeat(20_000)}`,
    ]) {
      const socket = connect(Number(port), hostname)
      await once(socket, 'connect')
      socket.write(`POST ${path}?a=b HTTP/1.1\r\n${head}\r\n\r\n`)
      let text = ''
      for await (const piece of socket) text += piece
      const [top = '', body = ''] = text.split('\r\n\r\n')
      expect(top).toMatch(/^HTTP\/1\.1 4\d\d /)
      expect(top.toLowerCase()).toContain('x-request-id: req-')
      expect(JSON.parse(body)).toMatchObject({ success: false, error: { message: expect.any(String) } })
    }
  })
})

test('other routes keep their shapes, and say whether a retry helps in a header', async () => {
  const flat = await shared.current.call('GET', '/api/external/nowhere')
  expect([flat.body.error, flat.headers['x-should-retry']]).toEqual(['Not found', 'false'])
  const structured = await shared.current.call('POST', '/api/external/groups', {})
  expect([structured.body.error.code, structured.headers['x-should-retry']]).toEqual(['VALIDATION_ERROR', 'false'])
})

describe('the SDKs show the message of the gateway', () => {
  const failed = (promise: PromiseLike<unknown>) =>
    Promise.resolve(promise).then(
      () => undefined,
      (error) => error,
    )
  const openai = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${shared.current.url}/v1` })
  const anthropic = (apiKey: string) => new Anthropic({ apiKey, baseURL: shared.current.url })

  test.each([
    ['401', () => newApiKey(), { message: 'API key' }],
    ['403', () => keyWith({ allowedModels: ['local/extract'] }), { message: 'may not use the model' }],
    [
      '429',
      () => keyWith({ limits: {}, dailyLimit: null, rateLimit: { requestsPerMinute: null, requestsPerHour: null } }),
      { message: 'attempt' },
    ],
  ])('%s', async (status, keyOf, { message }) => {
    const key = await keyOf()
    // SDKs retry a 429 twice, unless the gateway says that a retry is pointless.
    const busy = replyJson({ error: { message: 'busy' } }, { status: 429 })
    if (status === '429') shared.current.upstream.script(busy, busy, busy, busy)
    for (const error of [
      await failed(openai(key).chat.completions.create({ ...hello }, { maxRetries: 0 })),
      await failed(openai(key).responses.create({ model: 'test/any', input: 'Hi' }, { maxRetries: 0 })),
      await failed(openai(key).chat.completions.create({ ...hello, stream: true }, { maxRetries: 0 })),
      await failed(anthropic(key).messages.create({ ...hello }, { maxRetries: 0 })),
    ]) {
      expect(String(error.status)).toBe(status)
      expect(error.message).toContain(message)
    }
  })

  test('also for an error in a stream', async () => {
    const broken = replySteps([chatStream(['Hel'], { finishReason: null, done: false })], { ending: 'reset' })
    shared.current.upstream.script(broken, broken)
    const key = shared.current.adminKey
    const read = async () => {
      const stream = await openai(key).chat.completions.create({ ...hello, stream: true })
      for await (const _ of stream);
    }
    expect((await failed(read())).message).toContain('The answer is incomplete')
    expect((await failed(anthropic(key).messages.stream(hello).finalMessage())).message).toContain('incomplete')
  })

  test('and they do not retry what cannot succeed', async () => {
    shared.current.upstream.script(replyJson({ error: { message: 'no' } }, { status: 401 }))
    const before = shared.current.upstream.requests.length
    const error = await failed(openai(shared.current.adminKey).chat.completions.create(hello))
    expect([error.status, shared.current.upstream.requests.length - before]).toEqual([502, 1])
  })
})
