import { hash } from 'node:crypto'
import { expect, test } from 'vitest'
import { sharedGateway } from '../../../harness.ts'
import { chatJson, replyJson } from '../../../upstream.ts'

const PROSE = 'The “quick” brown fox said "jump"\nover the lazy dog 😀. '
const BYTES = 31_000_000
const repeated = (bytes: number) => PROSE.repeat(Math.floor(bytes / Buffer.byteLength(JSON.stringify(PROSE))))

const shared = sharedGateway()
const call = (path: string, body: object | string) => shared.current.call('POST', path, body)
const lastRequest = () => shared.current.upstream.requests.at(-1)

const one = [{ role: 'user', content: repeated(BYTES) }]
const many = Array.from({ length: 20_000 }, (_, at) => ({ role: 'user', content: `${at} ${repeated(1_300)}` }))
const tools = Array.from({ length: 10_000 }, (_, at) => ({
  type: 'function',
  function: {
    name: `tool_${at}`,
    description: PROSE,
    parameters: { type: 'object', properties: { one: { type: 'string', description: PROSE } }, required: ['one'] },
  },
}))

test.each([
  ['one text of 31 MB', { messages: one }],
  ['20,000 texts', { messages: many }],
  ['10,000 tools', { messages: [{ role: 'user', content: 'Hi' }], tools }],
])(
  'POST /v1/chat/completions with %s reaches the provider unchanged, with a receipt for its bytes',
  async (_, given) => {
    shared.current.upstream.script(replyJson(chatJson('Hello.')))
    const text = JSON.stringify({ model: 'test/any', ...given })
    const { status, body, headers } = await call('/v1/chat/completions', text)
    expect([status, body.choices?.[0].message.content]).toEqual([200, 'Hello.'])
    const sent = lastRequest()
    expect(JSON.parse(sent?.rawBody ?? '')).toEqual({ model: 'any', stream: false, ...given })
    expect(sent?.headers['content-length']).toBe(String(Buffer.byteLength(sent?.rawBody ?? '')))
    const receipt = await shared.current.call('GET', `/api/external/receipts/${headers['x-smltp-bundle-id']}`)
    expect(receipt.text).toContain(hash('sha256', text, 'hex'))
    expect(receipt.text).toContain(hash('sha256', sent?.rawBody ?? '', 'hex'))
  },
)

test('POST /v1/messages with 31 MB reaches the provider', async () => {
  shared.current.upstream.script(replyJson(chatJson('Hello.')))
  const { status, body } = await call('/v1/messages', { model: 'test/any', max_tokens: 10, messages: one })
  expect([status, body.content]).toEqual([200, [{ type: 'text', text: 'Hello.' }]])
  expect(lastRequest()?.body).toMatchObject({ messages: one })
})

test('POST /v1/embeddings with 31 MB returns one vector per text, and large answers are returned whole', async () => {
  const input = Array.from({ length: 2_048 }, (_, at) => `${at} ${repeated(15_000)}`)
  const embedding = Array.from({ length: 256 }, (_, at) => at / 8)
  const data = input.map((_, index) => ({ object: 'embedding', index, embedding: [index, ...embedding] }))
  shared.current.upstream.script(replyJson({ data, usage: { prompt_tokens: 6, total_tokens: 6 } }))
  const { status, body } = await call('/v1/embeddings', { model: 'test/small', input })
  expect([status, body.data?.length]).toEqual([200, data.length])
  expect(body.data).toEqual(data)
  expect(lastRequest()?.body).toMatchObject({ input })
})

test.each(['/v1/chat/completions', '/v1/messages'])('%s returns a large answer whole', async (path) => {
  const text = repeated(20_000_000)
  shared.current.upstream.script(replyJson(chatJson(text)))
  const messages = [{ role: 'user', content: 'Hi' }]
  const { status, body } = await call(path, { model: 'test/any', max_tokens: 10, messages })
  expect(status).toBe(200)
  expect((body.choices?.[0].message.content ?? body.content?.[0].text) === text).toBe(true)
})

const filler = `"user":"${'x'.repeat(300_000)}"`

test.each([
  [
    `{${filler},"model":"test/any","messages":[{"role":"user"},]}`,
    'The body must be a JSON object: invalid JSON near byte',
  ],
  [`{${filler},"a":${'['.repeat(200)}${']'.repeat(200)}}`, 'The JSON body may be nested at most 128 levels deep.'],
  [`{${filler},"a":[${'0,'.repeat(1_000_001)}0]}`, 'The JSON body may contain at most 1000000 values.'],
  [`{${filler},"seed":1${'0'.repeat(1_100_000)}}`, 'may have at most 1048576 bytes'],
  [`{${filler},"${'k'.repeat(1_100_000)}":1}`, 'may have at most 1048576 bytes'],
  [`\u{feff}{${filler}}`, 'The body must be a JSON object: invalid JSON near byte 0'],
  [`[${filler.slice(7)}]`, 'the body must be a JSON object'],
  [`{${filler},"model":"test/any","messages":[{"role":"user","content":1}]}`, 'messages.0.content'],
])('a large body that is invalid gets 400 in the documented shape', async (text, message) => {
  const { status, body } = await call('/v1/chat/completions', text)
  expect([status, body.error.type]).toEqual([400, 'invalid_request_error'])
  expect(body.error.message).toContain(message)
})
