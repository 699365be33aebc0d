import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { GenerationOptions, Message } from '../../../../../src/daemon/models/conversation.ts'
import { type ProviderCall, ProviderError } from '../../../../../src/daemon/models/provider.ts'
import { toBedrockRequest } from '../../../../../src/daemon/models/providers/bedrock/request.ts'
import { testCall } from '../../provider-calls.ts'

const call = testCall({ model: 'us.anthropic.claude-sonnet-4-6', maxTokens: 4000 })

/** As sent: without undefined members. */
const sent = (more: Partial<ProviderCall>) => JSON.parse(JSON.stringify(toBedrockRequest({ ...call, ...more })))
const withOptions = (options: GenerationOptions, more: Partial<ProviderCall> = {}) => sent({ ...more, options })
const messagesOf = (...messages: Message[]) => sent({ messages }).messages

function refusal(options: GenerationOptions, more: Partial<ProviderCall> = {}): string {
  try {
    toBedrockRequest({ ...call, options, ...more })
  } catch (error) {
    if (error instanceof ProviderError && error.reason === 'bad_request') return error.message
    throw error
  }
  throw new Error('the call was not refused')
}

test('a plain call is the limit and the messages, and nothing else', () => {
  expect(sent({})).toEqual({
    messages: [{ role: 'user', content: [{ text: 'Hi' }] }],
    inferenceConfig: { maxTokens: 4000 },
  })
})

test('system prompt, sampling and stop sequences have their own names', () => {
  const options = { topP: 0.9, stop: ['END', '\n\n'], user: 'user-7' }
  expect(withOptions(options, { system: 'Be brief.', temperature: 0 })).toEqual({
    system: [{ text: 'Be brief.' }],
    messages: [{ role: 'user', content: [{ text: 'Hi' }] }],
    inferenceConfig: { maxTokens: 4000, temperature: 0, topP: 0.9, stopSequences: ['END', '\n\n'] },
  })
  expect(withOptions({ stop: [] }).inferenceConfig).toEqual({ maxTokens: 4000 })
})

describe('messages', () => {
  test('tool calls and their results alternate, and user text joins the results', () => {
    expect(
      messagesOf(
        { role: 'user', content: 'Where is Vienna, and when?' },
        {
          role: 'assistant',
          content: 'I look.',
          toolCalls: [
            { id: 'tooluse_1', name: 'find_room', arguments: '{"name": "Vienna"}' },
            { id: 'tooluse_2', name: 'now', arguments: '' },
          ],
        },
        { role: 'tool', toolCallId: 'tooluse_1', content: 'Third floor' },
        { role: 'tool', toolCallId: 'tooluse_2', content: '', isError: true },
        { role: 'user', content: 'Well?' },
      ),
    ).toEqual([
      { role: 'user', content: [{ text: 'Where is Vienna, and when?' }] },
      {
        role: 'assistant',
        content: [
          { text: 'I look.' },
          { toolUse: { toolUseId: 'tooluse_1', name: 'find_room', input: { name: 'Vienna' } } },
          { toolUse: { toolUseId: 'tooluse_2', name: 'now', input: {} } },
        ],
      },
      {
        role: 'user',
        content: [
          { toolResult: { toolUseId: 'tooluse_1', content: [{ text: 'Third floor' }], status: 'success' } },
          { toolResult: { toolUseId: 'tooluse_2', content: [], status: 'error' } },
          { text: 'Well?' },
        ],
      },
    ])
  })

  test('adjacent messages of one role are merged, and empty ones are dropped', () => {
    expect(
      messagesOf(
        { role: 'user', content: 'One' },
        { role: 'assistant', content: ' \n' },
        { role: 'user', content: [{ type: 'text', text: 'two' }] },
      ),
    ).toEqual([{ role: 'user', content: [{ text: 'One' }, { text: 'two' }] }])
  })

  test('images are inline, from the user and from tools', () => {
    const image = { type: 'image' as const, mediaType: 'image/jpeg', data: 'QUJD' }
    const block = { image: { format: 'jpeg', source: { bytes: 'QUJD' } } }
    expect(
      messagesOf(
        { role: 'user', content: [{ type: 'text', text: 'What is it?' }, image] },
        { role: 'assistant', content: '', toolCalls: [{ id: 'a', name: 'look', arguments: '{}' }] },
        { role: 'tool', toolCallId: 'a', content: [image] },
      ),
    ).toEqual([
      { role: 'user', content: [{ text: 'What is it?' }, block] },
      { role: 'assistant', content: [{ toolUse: { toolUseId: 'a', name: 'look', input: {} } }] },
      { role: 'user', content: [{ toolResult: { toolUseId: 'a', content: [block], status: 'success' } }] },
    ])
    const messages = [{ role: 'assistant' as const, content: [image] }]
    expect(refusal({}, { messages })).toContain('only in user messages and tool results')
    const tiff: Message[] = [{ role: 'user', content: [{ ...image, mediaType: 'image/tiff' }] }]
    expect(refusal({}, { messages: tiff })).toContain('only JPEG, PNG, GIF and WebP images')
  })

  test('files are inline, with a name that their content determines', () => {
    const pdf = { type: 'file' as const, mediaType: 'application/pdf', data: 'QUJD', name: 'a secret: name' }
    const sheet = { ...pdf, mediaType: 'text/csv', data: 'QUJE' }
    const [{ content }] = messagesOf({ role: 'user', content: [{ type: 'text', text: 'Read' }, pdf, sheet, pdf] })
    const names = content.slice(1).map(({ document }: { document: { name: string } }) => document.name)
    expect(names).toEqual([expect.stringMatching(/^document-[0-9a-f]{16}$/), expect.any(String), names[0]])
    expect(names[1]).not.toBe(names[0])
    expect(content[1].document).toEqual({ format: 'pdf', name: names[0], source: { bytes: 'QUJD' } })
    expect(content[2].document.format).toBe('csv')
    for (const part of [
      { ...pdf, mediaType: 'audio/wav' },
      { type: 'file_url' as const, url: 'https://a.b/c.pdf' },
    ]) {
      expect(refusal({}, { messages: [{ role: 'user', content: [part] }] })).toContain('does not support files')
    }
  })

  test('reasoning is sent back only to Bedrock, first in its turn, signed or encrypted', () => {
    const content = messagesOf({
      role: 'assistant',
      content: 'Left.',
      reasoning: [
        { origin: 'bedrock', text: 'Hm.', signature: 'c2ln' },
        { origin: 'bedrock', text: '', data: 'QUJD' },
        { origin: 'bedrock', text: 'unsigned' },
        { origin: 'anthropic', text: 'of another', signature: 'c2ln' },
      ],
    })[0].content
    expect(content).toEqual([
      { reasoningContent: { reasoningText: { text: 'Hm.', signature: 'c2ln' } } },
      { reasoningContent: { redactedContent: 'QUJD' } },
      { text: 'Left.' },
    ])
  })

  test('any call id is converted to one that Bedrock accepts, the same for call and result, without collisions', () => {
    const idOf = (id: string) => {
      const [assistant, user] = messagesOf(
        { role: 'assistant', content: '', toolCalls: [{ id, name: 'a', arguments: '' }] },
        { role: 'tool', toolCallId: id, content: 'b' },
      )
      const { toolUseId } = assistant.content[0].toolUse
      expect(user.content[0].toolResult.toolUseId).toBe(toolUseId)
      return toolUseId
    }
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string(), (left, right) => {
        expect(idOf(left)).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
        expect(idOf(left) === idOf(right)).toBe(left === right)
      }),
    )
    expect(idOf('call_1-a')).toBe('call_1-a')
  })

  test.each(['{"a":', '7', '[]', 'null'])('arguments %s are rejected before the call', (text) => {
    const messages: Message[] = [
      { role: 'assistant', content: '', toolCalls: [{ id: 'a', name: 'b', arguments: text }] },
    ]
    expect(refusal({}, { messages })).toContain('accepts only a JSON object')
  })

  test('turns always alternate, and no text is lost or blank', () => {
    const message = fc.record({
      role: fc.constantFrom('user' as const, 'assistant' as const),
      content: fc.string({ unit: 'binary' }),
    })
    fc.assert(
      fc.property(fc.array(message), (messages) => {
        const turns: { role: string; content: { text: string }[] }[] = messagesOf(...messages)
        expect(turns.every(({ role }, at) => role !== turns[at - 1]?.role)).toBe(true)
        expect(turns.flatMap(({ content }) => content.map(({ text }) => text))).toEqual(
          messages.map(({ content }) => content).filter((text) => text.trim() !== ''),
        )
      }),
    )
  })
})

describe('tools', () => {
  const parameters = { type: 'object', properties: { name: { type: 'string' } } }
  const tools = [
    { name: 'find', description: 'Finds', parameters, strict: true },
    { name: 'now', description: '' },
  ]

  test("are sent with their schemas, and chosen by Converse's options", () => {
    expect(withOptions({ tools }).toolConfig).toEqual({
      tools: [
        { toolSpec: { name: 'find', description: 'Finds', inputSchema: { json: parameters }, strict: true } },
        { toolSpec: { name: 'now', inputSchema: { json: { type: 'object' } } } },
      ],
    })
    expect(withOptions({ tools, toolChoice: 'required' }).toolConfig.toolChoice).toEqual({ any: {} })
    expect(withOptions({ tools, toolChoice: { name: 'now' } }).toolConfig.toolChoice).toEqual({ tool: { name: 'now' } })
    expect(withOptions({ tools, parallelToolCalls: true }).toolConfig.toolChoice).toBeUndefined()
  })

  test('are omitted if none may be called, unless the conversation has calls', () => {
    expect(withOptions({ tools, toolChoice: 'none' })).not.toHaveProperty('toolConfig')
    const messages: Message[] = [
      { role: 'assistant', content: '', toolCalls: [{ id: 'a', name: 'now', arguments: '' }] },
      { role: 'tool', toolCallId: 'a', content: 'noon' },
    ]
    expect(refusal({ tools, toolChoice: 'none' }, { messages })).toContain('tool_choice none')
  })

  test('cannot be required without any', () => {
    expect(refusal({ toolChoice: 'required' })).toContain('without tools')
    expect(refusal({ toolChoice: { name: 'a' }, tools: [] })).toContain('without tools')
    expect(withOptions({ parallelToolCalls: false, toolChoice: 'auto' })).not.toHaveProperty('toolConfig')
  })
})

test('an answer schema is JSON inside JSON; without one there is no JSON mode', () => {
  const schema = { type: 'object', properties: { city: { type: 'string' } } }
  expect(
    withOptions({ responseFormat: { type: 'json_schema', name: 'City', schema, strict: true } }).outputConfig,
  ).toEqual({
    textFormat: { type: 'json_schema', structure: { jsonSchema: { name: 'City', schema: JSON.stringify(schema) } } },
  })
  expect(withOptions({ responseFormat: { type: 'text' } })).not.toHaveProperty('outputConfig')
  expect(refusal({ responseFormat: { type: 'json_object' } })).toContain('json_object')
})

describe('options that Converse leaves to the model family', () => {
  const fields = (model: string, options: GenerationOptions) =>
    withOptions(options, { model }).additionalModelRequestFields

  test("are sent in the family's format, also for a profile", () => {
    const claude = 'us.anthropic.claude-sonnet-4-6'
    const profile = `arn:aws:bedrock:eu-west-1:1234:inference-profile/${claude}`
    expect(fields(profile, { topK: 40 })).toEqual({ top_k: 40 })
    expect(fields('amazon.nova-lite-v1:0', { topK: 10 })).toEqual({ inferenceConfig: { topK: 10 } })
    expect(fields(claude, { reasoningEffort: 'high' })).toMatchObject({
      thinking: { type: 'adaptive' },
      output_config: { effort: 'high' },
    })
    expect(fields('us.anthropic.claude-sonnet-4-5-20250929-v1:0', { reasoningEffort: 'medium' })).toEqual({
      thinking: { type: 'enabled', budget_tokens: 2000 },
    })
    expect(fields(claude, { reasoningEffort: 'none' })).toEqual({ thinking: { type: 'disabled' } })
    expect(fields('openai.gpt-oss-120b-1:0', { reasoningEffort: 'medium' })).toEqual({ reasoning_effort: 'medium' })
    const nova = 'us.amazon.nova-2-lite-v1:0'
    expect(fields(nova, { reasoningEffort: 'low' })).toEqual({
      reasoningConfig: { type: 'enabled', maxReasoningEffort: 'low' },
    })
    expect(fields(nova, { reasoningEffort: 'none' })).toEqual({ reasoningConfig: { type: 'disabled' } })
  })

  test.each([
    ['meta.llama3-3-70b-instruct-v1:0', { topK: 4 }],
    ['meta.llama3-3-70b-instruct-v1:0', { reasoningEffort: 'low' }],
    ['openai.gpt-oss-120b-1:0', { reasoningEffort: 'none' }],
    ['us.amazon.nova-2-lite-v1:0', { reasoningEffort: 'high' }],
    ['amazon.nova-lite-v1:0', { reasoningEffort: 'low' }],
    ['us.anthropic.claude-sonnet-4-6', { reasoningEffort: 'utmost' }],
  ])('%s rejects %o', (model, options) => {
    expect(refusal(options, { model })).toContain('The provider ')
  })
})

test('unsupported options are rejected by name, and options without effect are accepted', () => {
  expect(
    refusal(
      { seed: 0, logprobs: true, topLogprobs: 2, frequencyPenalty: 1, presencePenalty: -1 },
      { temperature: 1.5 },
    ),
  ).toBe(
    'The provider does not support frequency_penalty, presence_penalty, seed, logprobs, top_logprobs, temperature over 1.',
  )
  expect(withOptions({ frequencyPenalty: 0, presencePenalty: 0, logprobs: false })).toEqual(sent({}))
})

test('Claude models that reject a temperature do not get our default here either', () => {
  const sentTo = (model: string, more: object = {}) =>
    sent({ model, temperature: 0.7, temperatureIsDefault: true, ...more }) as {
      inferenceConfig: { temperature?: number }
    }
  expect(sentTo('us.anthropic.claude-opus-4-7-v1:0').inferenceConfig.temperature).toBeUndefined()
  expect(sentTo('us.anthropic.claude-sonnet-4-6').inferenceConfig.temperature).toBe(0.7)
  expect(sentTo('us.anthropic.claude-opus-4-7-v1:0', { temperatureIsDefault: false }).inferenceConfig.temperature).toBe(
    0.7,
  )
})

describe('cache breakpoints', () => {
  const cache = { type: 'ephemeral' }
  const point = { cachePoint: { type: 'default' } }
  const hour = { cachePoint: { type: 'default', ttl: '1h' } }
  const marked = {
    system: [
      { type: 'text' as const, text: 'a', cache: { ...cache, ttl: '1h' } },
      { type: 'text' as const, text: 'b' },
    ],
    messages: [
      { role: 'user' as const, content: [{ type: 'text' as const, text: 'c', cache }] },
      { role: 'assistant' as const, content: '', toolCalls: [{ id: 'c1', name: 'look', arguments: '{}', cache }] },
      { role: 'tool' as const, toolCallId: 'c1', content: [{ type: 'text' as const, text: 'd', cache }], cache },
    ],
    options: { tools: [{ name: 'look', cache }] },
  }

  test('become cache points after what they cache', () => {
    expect(sent(marked)).toMatchObject({
      system: [{ text: 'a' }, hour, { text: 'b' }],
      messages: [
        { content: [{ text: 'c' }, point] },
        { content: [{ toolUse: { toolUseId: 'c1' } }, point] },
        { content: [{ toolResult: { content: [{ text: 'd' }] } }, point] },
      ],
      toolConfig: { tools: [{ toolSpec: { name: 'look' } }, point] },
    })
  })

  test('of the whole request become a cache point at its end', () => {
    const native = { origin: 'anthropic', fields: { cache_control: cache }, headers: {}, marks: ['cache_control'] }
    expect(withOptions({ native }).messages).toEqual([{ role: 'user', content: [{ text: 'Hi' }, point] }])
  })

  test('are left out for models that do not cache', () => {
    expect(JSON.stringify(sent({ ...marked, model: 'meta.llama3-3-70b-instruct-v1:0' }))).not.toContain('cache')
  })
})

test('thinking options of Anthropic are sent unchanged to Claude', () => {
  const config = { type: 'enabled', budget_tokens: 1_234 }
  const native = { origin: 'anthropic', fields: {}, headers: {}, marks: [], thinking: { config, effort: 'low' } }
  expect(withOptions({ native, reasoningEffort: 'high' }).additionalModelRequestFields).toEqual({
    thinking: config,
    output_config: { effort: 'low' },
  })
})
