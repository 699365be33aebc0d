import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../src/daemon/models/config.ts'
import { type Gateway, startGateway, upstreamProvider } from '../../../harness.ts'
import { sharedResources } from '../../../shared-resources.ts'
import { chatJson, replyJson, replyRaw, startUpstream, type Upstream } from '../../../upstream.ts'
import { anthropicStream } from '../../models/providers/anthropic/anthropic-stream.ts'

const OPENAI = '/v1/chat/completions'
const ANTHROPIC = '/v1/messages'
const SIGNATURE = 'c2lnbmVkIHRob3VnaHRz'
const SEALED = 'c2VhbGVkIHRob3VnaHRz'

let gateway: Gateway
let claude: Upstream
let gemini: Upstream
let deepseek: Upstream

beforeAll(async () => {
  claude = await startUpstream()
  gemini = await startUpstream()
  deepseek = await startUpstream()
  const secret = { apiKey: 'sk-upstream-secret', headers: {}, models: undefined }
  const providers: ProviderConfig[] = [
    { name: 'anthropic', kind: 'anthropic', baseUrl: claude.url, ...secret },
    { name: 'google', kind: 'google', baseUrl: gemini.url.replace(/\/v1$/, ''), ...secret },
    upstreamProvider('deepseek', deepseek.url),
  ]
  gateway = await startGateway({ providers })
  sharedResources.add(gateway)
  claude.fallback(
    replyJson({
      type: 'message',
      content: [
        { type: 'thinking', thinking: 'Two and two.', signature: SIGNATURE },
        { type: 'redacted_thinking', data: SEALED },
        { type: 'tool_use', id: 'toolu_1', name: 'add', input: { a: 2 } },
      ],
      stop_reason: 'tool_use',
      usage: { input_tokens: 9, output_tokens: 9 },
    }),
  )
  gemini.fallback(
    replyJson({
      candidates: [
        {
          content: {
            role: 'model',
            parts: [{ functionCall: { id: 'g1', name: 'add', args: { a: 2 } }, thoughtSignature: SIGNATURE }],
          },
          finishReason: 'STOP',
          index: 0,
        },
      ],
      usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 9 },
    }),
  )
  const calls = [{ id: 'call_1', type: 'function', function: { name: 'add', arguments: '{"a":2}' } }]
  deepseek.fallback(
    replyJson(chatJson(null, { finishReason: 'tool_calls', message: { reasoning_content: 'Hm.', tool_calls: calls } })),
  )
})

afterAll(async () => {
  sharedResources.delete(gateway)
  await gateway.close()
  for (const upstream of [claude, gemini, deepseek]) await upstream.close()
})

const upstreams = {
  'anthropic/claude-opus-4-5': () => claude,
  'google/gemini-3-pro': () => gemini,
  'deepseek/chat': () => deepseek,
}
type Model = keyof typeof upstreams
const MODELS = Object.keys(upstreams) as Model[]

/** The part of another model's turn that a model receives on this surface. */
const TURNS: Record<string, (maker: Model, reader: Model) => Promise<string>> = {
  async [OPENAI](maker, reader) {
    const question = { role: 'user', content: 'Add two and two.' }
    const tools = [{ type: 'function', function: { name: 'add', parameters: { type: 'object' } } }]
    const { status, body } = await gateway.call('POST', OPENAI, { model: maker, messages: [question], tools })
    expect([status, body.choices?.[0]?.finish_reason]).toEqual([200, 'tool_calls'])
    const { message } = body.choices[0]
    const result = { role: 'tool', tool_call_id: message.tool_calls[0].id, content: '4' }
    const messages = [question, message, result]
    expect((await gateway.call('POST', OPENAI, { model: reader, messages, tools })).status).toBe(200)
    return upstreams[reader]().requests.at(-1)?.rawBody ?? ''
  },
  async [ANTHROPIC](maker, reader) {
    const question = { role: 'user', content: 'Add two and two.' }
    const tools = [{ name: 'add', input_schema: { type: 'object' } }]
    const first = { model: maker, max_tokens: 100, messages: [question], tools }
    const { status, body } = await gateway.call('POST', ANTHROPIC, first)
    expect([status, body.stop_reason]).toEqual([200, 'tool_use'])
    const call = body.content.find(({ type }: { type: string }) => type === 'tool_use')
    const messages = [
      question,
      { role: 'assistant', content: body.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: '4' }] },
    ]
    expect((await gateway.call('POST', ANTHROPIC, { ...first, model: reader, messages })).status).toBe(200)
    return upstreams[reader]().requests.at(-1)?.rawBody ?? ''
  },
}

describe.each(Object.keys(TURNS))('reasoning that is sent back by %s', (surface) => {
  const turn = TURNS[surface] as (maker: Model, reader: Model) => Promise<string>

  test('reaches its provider unchanged: signed, sealed, or as text', async () => {
    const backAtClaude = JSON.parse(await turn('anthropic/claude-opus-4-5', 'anthropic/claude-opus-4-5'))
    expect(backAtClaude.messages[1].content).toEqual([
      { type: 'thinking', thinking: 'Two and two.', signature: SIGNATURE },
      { type: 'redacted_thinking', data: SEALED },
      { type: 'tool_use', id: 'toolu_1', name: 'add', input: { a: 2 } },
    ])
    const backAtGemini = JSON.parse(await turn('google/gemini-3-pro', 'google/gemini-3-pro'))
    expect(backAtGemini.contents[1].parts).toEqual([
      { functionCall: { id: 'g1', name: 'add', args: { a: 2 } }, thoughtSignature: SIGNATURE },
    ])
    const backAtDeepSeek = JSON.parse(await turn('deepseek/chat', 'deepseek/chat'))
    expect(backAtDeepSeek.messages[1]).toMatchObject({ role: 'assistant', reasoning_content: 'Hm.' })
  })

  const others = MODELS.flatMap((maker) =>
    MODELS.filter((model) => model !== maker).map((reader) => [maker, reader] as const),
  )
  test.each(others)('of %s is not sent to %s', async (maker, reader) => {
    const body = await turn(maker, reader)
    for (const secret of [SIGNATURE, SEALED, 'Two and two.', 'Hm.', 'aigw.']) expect(body).not.toContain(secret)
    // The turn itself is still included.
    expect(body).toContain('"add"')
  })
})

test('streamed steps include their signature, and unsigned steps of others only our marker', async () => {
  claude.script(replyRaw(anthropicStream({ thoughts: ['Two ', 'and two.'], texts: ['Four.'] })))
  const asked = { model: 'anthropic/claude-opus-4-5', messages: [{ role: 'user', content: 'hi' }], stream: true }
  const chunks = (await gateway.call('POST', OPENAI, asked)).text
  expect(chunks).toContain('"reasoning_content":"and two."')
  expect(chunks).toContain('"reasoning_details":[{"origin":"anthropic","text":"Two and two.","signature":"c2lnbmVk"}]')
  claude.script(replyRaw(anthropicStream({ thoughts: ['Two ', 'and two.'], texts: ['Four.'] })))
  const events = (await gateway.call('POST', ANTHROPIC, { ...asked, max_tokens: 50 })).text
  expect(events).toContain('"delta":{"type":"thinking_delta","thinking":"and two."}')
  expect(events).toContain('"delta":{"type":"signature_delta","signature":"c2lnbmVk"}')
})
