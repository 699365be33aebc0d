import { describe, expect, test } from 'vitest'
import { sharedGateway } from '../../../harness.ts'

/** Both compatibility surfaces, each with its required fields. */
const SURFACES = [
  ['/v1/chat/completions', {}],
  ['/v1/messages', { max_tokens: 16_000 }],
] as const
const EMBEDDINGS = '/v1/embeddings'
const COUNT_TOKENS = '/v1/messages/count_tokens'

const user = (content: unknown) => ({ role: 'user', content })
/** `count` turns, alternating, the last one the user's. */
const turns = (count: number) =>
  Array.from({ length: count }, (_, at) => ({
    role: (count - at) % 2 === 1 ? 'user' : 'assistant',
    content: `Turn ${at}.`,
  }))
/** Prose of `bytes` ASCII characters. */
const prose = (bytes: number) => 'The quick brown fox jumps over the lazy dog. '.repeat(bytes / 45 + 1).slice(0, bytes)
const image = (bytes: number) => Buffer.alloc(bytes, 7).toString('base64')
const nested = (levels: number): object => (levels === 1 ? {} : { a: nested(levels - 1) })

const imagePart = (path: string, data: string) =>
  path === '/v1/messages'
    ? { type: 'image', source: { type: 'base64', media_type: 'image/png', data } }
    : { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } }
const tool = (path: string, schema: object) =>
  path === '/v1/messages'
    ? { name: 'look', input_schema: schema }
    : { type: 'function', function: { name: 'look', parameters: schema } }

describe('by default', () => {
  const shared = sharedGateway()
  const post = (path: string, body: object) => shared.current.call('POST', path, { model: 'test/any', ...body })
  // biome-ignore lint/suspicious/noExplicitAny: what the upstream was sent has any shape
  const sent = () => shared.current.upstream.requests.at(-1)?.body as any

  describe.each(SURFACES)('%s accepts', (path, required) => {
    test('300 messages', async () => {
      const { status } = await post(path, { ...required, messages: turns(300) })
      expect([status, sent().messages.length]).toEqual([200, 300])
    })

    test('600 KB of text', async () => {
      const text = prose(600 * 1024)
      const { status } = await post(path, { ...required, messages: [user(text)] })
      expect([status, sent().messages[0].content === text]).toEqual([200, true])
    })

    test.each([4, 20])('an image of %i MB', async (megabytes) => {
      const data = image(megabytes * 1024 * 1024)
      const { status, body } = await post(path, { ...required, messages: [user([imagePart(path, data)])] })
      expect([status, body.error]).toEqual([200, undefined])
      expect([status, sent().messages[0].content[0].image_url.url.length]).toEqual([200, data.length + 22])
    })

    test('16,000 tokens for its answer', async () => {
      const { status } = await post(path, { ...required, max_tokens: 16_000, messages: turns(1) })
      expect([status, sent().max_tokens]).toEqual([200, 16_000])
    })

    test('JSON of 128 levels, and rejects more', async () => {
      // The body, its tools and the tool; OpenAI nests its function one level deeper.
      const left = 128 - (path === '/v1/messages' ? 3 : 4)
      const withTool = (levels: number) =>
        post(path, { ...required, messages: turns(1), tools: [tool(path, nested(levels))] })
      expect((await withTool(left)).status).toBe(200)
      const { status, body } = await withTool(left + 1)
      expect([status, body.error.message]).toEqual([400, 'The JSON body may be nested at most 128 levels deep.'])
    })

    test('a body of 32 MB, and rejects more', async () => {
      const message = JSON.stringify({ model: 'test/any', ...required, messages: turns(1) })
      const padded = (bytes: number) => message.replace('{', `{${' '.repeat(bytes - message.length)}`)
      expect((await shared.current.call('POST', path, padded(32 * 1024 * 1024))).status).toBe(200)
      expect((await shared.current.call('POST', path, padded(32 * 1024 * 1024 + 1))).status).toBe(413)
    })
  })

  test('counts a text of 600 KB and embeds it', async () => {
    const text = prose(600 * 1024)
    expect((await post(COUNT_TOKENS, { messages: [user(text)] })).body.input_tokens).toBeGreaterThan(100_000)
    expect((await post(EMBEDDINGS, { input: text })).status).toBe(200)
  })

  test('POST /chat/completions keeps its own limits', async () => {
    const asked = (given: object) => shared.current.chat({ ...given })
    expect((await asked({ messages: turns(101) })).status).toBe(400)
    expect((await asked({ prompt: prose(262_145) })).status).toBe(400)
    expect((await asked({ prompt: prose(1024 * 1024) })).status).toBe(413)
    await asked({ prompt: 'Hi', max_tokens: 16_000 })
    expect(sent().max_tokens).toBe(4000)
  })
})

describe('as configured by the operator', () => {
  const shared = sharedGateway({ requestLimits: { bodyBytes: 100_000, jsonDepth: 16, messages: 5 } })

  test.each([...SURFACES, [COUNT_TOKENS, {}] as const])('the limits apply to %s', async (path, required) => {
    const post = (body: object) => shared.current.call('POST', path, { model: 'test/any', ...required, ...body })
    expect((await post({ messages: turns(5) })).status).toBe(200)
    const { status, body } = await post({ messages: turns(6) })
    expect([status, body.error.message]).toEqual([
      400,
      'The request has 6 messages; the operator allows at most 5. Send fewer.',
    ])
    expect((await post({ messages: turns(1), tools: [tool(path, nested(16))] })).body.error.message).toContain(
      'at most 16 levels deep',
    )
    expect((await post({ messages: [user(prose(100_000))] })).status).toBe(413)
  })
})
