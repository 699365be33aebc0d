// Vertex AI behind the gateway: Gemini and Claude with the key of a service account.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { VertexConfig } from '../../../../src/daemon/models/config.ts'
import { sharedGateway } from '../../../harness.ts'
import { secretWatch } from '../../../secret-watch.ts'
import { replyCut, replyJson, replyRaw, type Script, startUpstream, type Upstream } from '../../../upstream.ts'
import { accountAt, token } from '../../models/providers/vertex/account.ts'

const TOKEN = 'ya29.c.an-access-token-of-the-house'

let google: Upstream
let tokens: Upstream
beforeAll(async () => {
  google = await startUpstream()
  tokens = await startUpstream()
  tokens.fallback(token(TOKEN))
  secretWatch.addSecret('an access token', TOKEN)
})
afterAll(() => Promise.all([google.close(), tokens.close()]))

const shared = sharedGateway(() => {
  const vertex = (name: string, publisher: VertexConfig['publisher']): VertexConfig => ({
    name,
    kind: 'vertex',
    publisher,
    project: 'house-123',
    location: 'europe-west4',
    baseUrl: new URL(google.url).origin,
    credentials: accountAt(`${tokens.url}/token`),
    headers: {},
    models: undefined,
  })
  return { providers: [vertex('vertex', 'google'), vertex('claude', 'anthropic')] }
})

const AT = '/projects/house-123/locations/europe-west4/publishers'
const usageMetadata = { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 }
const gemini = (parts: object[], finishReason?: string) => ({
  candidates: [{ content: { role: 'model', parts }, ...(finishReason && { finishReason }) }],
  usageMetadata,
})
const line = (data: object) => `data: ${JSON.stringify(data)}\r\n\r\n`
const claude = (content: object[], reason = 'end_turn') =>
  replyJson({
    ...{ id: 'msg_1', type: 'message', role: 'assistant', stop_reason: reason, content },
    usage: { input_tokens: 3, output_tokens: 2 },
  })
const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }]
const ask = (body: object = {}, path = '/v1/chat/completions') =>
  shared.current.call('POST', path, {
    model: 'vertex/gemini-2.5-flash',
    messages: [{ role: 'user', content: 'Good morning' }],
    ...body,
  })

test('Gemini answers, with the token of the account and its own prices', async () => {
  google.script(replyJson(gemini([{ text: 'Hello from Gemini.' }], 'STOP')))
  const { status, body } = await ask()
  expect([status, body.choices[0].message.content]).toEqual([200, 'Hello from Gemini.'])
  expect(google.requests.at(-1)).toMatchObject({
    path: `/v1beta1${AT}/google/models/gemini-2.5-flash:generateContent`,
    headers: { authorization: `Bearer ${TOKEN}` },
  })
  // The price of gemini-2.5-flash: 0.3 and 2.5 dollars per million tokens.
  expect((await shared.current.usage()).at(-1)).toMatchObject({ input_tokens: 3, output_tokens: 2 })
  expect(shared.current.log.filter(({ level }) => level === 'error')).toEqual([])
})

test('a stream of Gemini ends with [DONE] only after its finish reason', async () => {
  const whole = line(gemini([{ text: 'Hello ' }])) + line(gemini([{ text: 'from Gemini.' }], 'STOP'))
  google.script(replyRaw(whole))
  const streamed = await ask({ stream: true })
  expect(streamed.text).toContain('from Gemini.')
  expect(streamed.text.trimEnd().endsWith('data: [DONE]')).toBe(true)
  expect(google.requests.at(-1)?.path).toMatch(/:streamGenerateContent\?alt=sse$/)

  for (const ending of ['reset', 'end'] as const) {
    google.script(replyCut(whole, line(gemini([{ text: 'Hello ' }])).length, ending))
    const { text } = await ask({ stream: true })
    expect([text.includes('[DONE]'), text.includes('"error"')]).toEqual([false, true])
  }
})

test('tools work with both publishers', async () => {
  google.script(replyJson(gemini([{ functionCall: { name: 'weather', args: { city: 'Bonn' } } }], 'STOP')))
  const called = await ask({ tools })
  expect(called.body.choices[0].message.tool_calls[0].function).toEqual({
    name: 'weather',
    arguments: '{"city":"Bonn"}',
  })
  google.script(claude([{ type: 'tool_use', id: 't1', name: 'weather', input: { city: 'Bonn' } }], 'tool_use'))
  const { body } = await ask({ model: 'claude/claude-sonnet-4-5@20250929', tools })
  expect(body.choices[0]).toMatchObject({
    finish_reason: 'tool_calls',
    message: { tool_calls: [{ id: 't1', function: { name: 'weather', arguments: '{"city":"Bonn"}' } }] },
  })
})

test('Claude gets the features of its own interface', async () => {
  google.script(claude([{ type: 'text', text: 'Hello from Claude.' }]))
  const system = [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }]
  const { status, body } = await shared.current.call(
    'POST',
    '/v1/messages',
    {
      model: 'claude/claude-sonnet-4-5@20250929',
      max_tokens: 50,
      system,
      messages: [{ role: 'user', content: 'Good morning' }],
    },
    { headers: { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'context-1m-2025-08-07' } },
  )
  expect([status, body.content]).toMatchObject([200, [{ type: 'text', text: 'Hello from Claude.' }]])
  expect(google.requests.at(-1)).toMatchObject({
    path: `/v1${AT}/anthropic/models/claude-sonnet-4-5@20250929:rawPredict`,
    headers: { authorization: `Bearer ${TOKEN}`, 'anthropic-beta': 'context-1m-2025-08-07' },
    body: { anthropic_version: 'vertex-2023-10-16', max_tokens: 50, system },
  })
  expect(google.requests.at(-1)?.body).not.toHaveProperty('model')
})

test('embeddings are predictions, one text at a time for Gemini models', async () => {
  google.script(replyJson({ predictions: [{ embeddings: { values: [0.5, 1], statistics: { token_count: 2 } } }] }))
  const model = 'vertex/gemini-embedding-001'
  const { body } = await ask({ model, input: 'a' }, '/v1/embeddings')
  expect([body.data[0].embedding, body.usage.prompt_tokens]).toEqual([[0.5, 1], 2])
  expect(google.requests.at(-1)?.path).toBe(`/v1beta1${AT}/google/models/gemini-embedding-001:predict`)
  expect(await ask({ model, input: ['a', 'b'] }, '/v1/embeddings')).toMatchObject({ status: 400 })
  expect(await ask({ model: 'claude/x', input: 'a' }, '/v1/embeddings')).toMatchObject({ status: 400 })
})

const google401 = { error: { code: 401, status: 'UNAUTHENTICATED', message: `Bad token ${TOKEN}` } }
const denied = {
  error: {
    ...{ code: 403, status: 'PERMISSION_DENIED' },
    message: "Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/x'.",
  },
}
const exhausted = { error: { code: 429, status: 'RESOURCE_EXHAUSTED', message: 'Resource exhausted.' } }

test.each<[string, Script, string, number]>([
  ['401', replyJson(google401, { status: 401 }), 'auth_failed', 502],
  ['403', replyJson(denied, { status: 403 }), 'auth_failed', 502],
  ['429', replyJson(exhausted, { status: 429 }), 'rate_limit', 429],
  [
    '503',
    replyJson({ error: { code: 503, status: 'UNAVAILABLE', message: 'x' } }, { status: 503 }),
    'server_error',
    502,
  ],
])('%s of the provider has its reason', async (_, script, reason, answered) => {
  google.script(script)
  const { status, body } = await ask()
  expect([status, body.attempts[0].reason]).toEqual([answered, reason])
})

test('an account that Google rejects is the operator’s fault, and no secret is shown', async () => {
  google.script(replyJson(google401, { status: 401 }))
  await ask()
  const before = google.requests.length
  tokens.script(replyJson({ error: 'invalid_grant', error_description: 'Invalid JWT Signature.' }, { status: 400 }))
  const { status, body, text } = await ask()
  expect([status, body.attempts[0].reason]).toEqual([502, 'auth_failed'])
  expect(text).not.toContain('PRIVATE KEY')
  expect(google.requests).toHaveLength(before)
  expect(shared.current.log.at(-1)).toMatchObject({ level: 'error' })
  expect(JSON.stringify(shared.current.log)).not.toContain(TOKEN)
})
