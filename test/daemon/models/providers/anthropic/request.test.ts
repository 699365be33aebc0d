import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { GenerationOptions, Message } from '../../../../../src/daemon/models/conversation.ts'
import { type ProviderCall, ProviderError } from '../../../../../src/daemon/models/provider.ts'
import { toAnthropicRequest } from '../../../../../src/daemon/models/providers/anthropic/request.ts'
import { testCall } from '../../provider-calls.ts'
import { fixtures, playBody } from './playback.ts'

const call = testCall({ model: 'claude-test-1', maxTokens: 4000 })

/** As sent: without undefined members. */
const sent = (more: Partial<ProviderCall>) => JSON.parse(JSON.stringify(toAnthropicRequest({ ...call, ...more })))
const withOptions = (options: GenerationOptions, more: Partial<ProviderCall> = {}) => sent({ ...more, options })
const messagesOf = (...messages: Message[]) => sent({ messages }).messages

function refusal(more: Partial<ProviderCall>): string {
  try {
    toAnthropicRequest({ ...call, ...more })
  } catch (error) {
    if (error instanceof ProviderError && error.reason === 'bad_request') return error.message
    throw error
  }
  throw new Error('the call was not refused')
}

test('a plain call is the model, the limit and the messages, and nothing else', () => {
  expect(sent({})).toEqual({
    model: 'claude-test-1',
    max_tokens: 4000,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }],
    stream: false,
  })
})

test('system prompt, sampling, stop sequences and end user have their own names', () => {
  const options = { topP: 0.9, topK: 40, stop: ['END', '\n\n'], user: 'user-7' }
  expect(withOptions(options, { system: 'Be brief.', temperature: 0, stream: true })).toMatchObject({
    system: 'Be brief.',
    temperature: 0,
    top_p: 0.9,
    top_k: 40,
    stop_sequences: ['END', '\n\n'],
    metadata: { user_id: 'user-7' },
    stream: true,
  })
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
            { id: 'call_1', name: 'find_room', arguments: '{"name": "Vienna"}' },
            { id: 'call_2', name: 'now', arguments: '' },
          ],
        },
        { role: 'tool', toolCallId: 'call_1', content: 'Third floor' },
        { role: 'tool', toolCallId: 'call_2', content: 'clock broken', isError: true },
        { role: 'user', content: 'Well?' },
      ),
    ).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'Where is Vienna, and when?' }] },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'I look.' },
          { type: 'tool_use', id: 'call_1', name: 'find_room', input: { name: 'Vienna' } },
          { type: 'tool_use', id: 'call_2', name: 'now', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'call_1', content: [{ type: 'text', text: 'Third floor' }] },
          {
            type: 'tool_result',
            tool_use_id: 'call_2',
            content: [{ type: 'text', text: 'clock broken' }],
            is_error: true,
          },
          { type: 'text', text: 'Well?' },
        ],
      },
    ])
  })

  test('images go inline, from the user and from tools', () => {
    const image = { type: 'image', mediaType: 'image/png', data: 'iVBO' } as const
    const block = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBO' } }
    expect(
      messagesOf(
        { role: 'user', content: [{ type: 'text', text: 'What is it?' }, image] },
        { role: 'assistant', content: '', toolCalls: [{ id: 'a', name: 'zoom', arguments: '{}' }] },
        { role: 'tool', toolCallId: 'a', content: [image] },
      ),
    ).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'What is it?' }, block] },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'zoom', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: [block] }] },
    ])
  })

  test('ids of other providers are converted alike in call and result', () => {
    const toolCalls = [{ id: 'functions.find:0', name: 'find', arguments: '{}' }]
    const turns = messagesOf(
      { role: 'assistant', content: '', toolCalls },
      { role: 'tool', toolCallId: 'functions.find:0', content: '' },
    )
    expect(turns).toEqual([
      { role: 'assistant', content: [{ type: 'tool_use', id: 'functions_2e_find_3a_0', name: 'find', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'functions_2e_find_3a_0' }] },
    ])
  })

  test('reasoning is sent back only to the provider that signed or encrypted it', () => {
    const reasoning = [
      { origin: 'anthropic', text: '17 + 5.', signature: 'c2ln' },
      { origin: 'anthropic', text: '', data: 'b3Bh' },
      { origin: 'anthropic', text: 'never signed' },
      { origin: 'google', text: 'elsewhere', signature: 'Z29v' },
    ]
    expect(messagesOf({ role: 'assistant', content: '22', reasoning })).toEqual([
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: '17 + 5.', signature: 'c2ln' },
          { type: 'redacted_thinking', data: 'b3Bh' },
          { type: 'text', text: '22' },
        ],
      },
    ])
  })

  test('an answer with reasoning is sent back unchanged', () => {
    const recording = fixtures().find(({ file }) => file === 'thinking.json')?.bytes ?? Buffer.alloc(0)
    const played = playBody(recording)
    if (!('text' in played)) throw new Error(played.message)
    const { text: content, reasoning, toolCalls } = played
    expect(messagesOf({ role: 'assistant', content, reasoning, toolCalls })).toEqual([
      { role: 'assistant', content: JSON.parse(recording.toString()).content },
    ])
  })

  test('turns always alternate, blank texts are dropped, and no words are lost', () => {
    const text = fc.oneof(fc.constant(''), fc.constant(' \n'), fc.string({ minLength: 1 }))
    const message = fc.oneof(
      fc.record({ role: fc.constantFrom('user', 'assistant'), content: text }),
      fc.record({ role: fc.constant('tool'), toolCallId: fc.string(), content: text }),
    ) as fc.Arbitrary<Message>
    fc.assert(
      fc.property(fc.array(message), (messages) => {
        const turns: { role: string; content: { text?: string; content?: { text: string }[] }[] }[] = messagesOf(
          ...messages,
        )
        expect(turns.every(({ role }, at) => role !== turns[at + 1]?.role)).toBe(true)
        const words = turns
          .flatMap(({ content }) => content)
          .flatMap((block) => block.text ?? block.content?.map((part) => part.text) ?? [])
        expect(words).toEqual(messages.map(({ content }) => content).filter((said) => (said as string).trim() !== ''))
      }),
    )
  })

  test('unsupported content is rejected before the call', () => {
    const withArguments = (text: string): Partial<ProviderCall> => ({
      messages: [{ role: 'assistant', content: '', toolCalls: [{ id: 'a', name: 'b', arguments: text }] }],
    })
    const image = { type: 'image', mediaType: 'image/png', data: 'iVBO' } as const
    expect(refusal(withArguments('{"a":'))).toContain('JSON')
    expect(refusal(withArguments('[1]'))).toContain('object')
    expect(refusal({ messages: [{ role: 'assistant', content: [image] }] })).toContain('images')
    expect(refusal({ messages: [{ role: 'user', content: [{ ...image, mediaType: 'image/bmp' }] }] })).toContain('JPEG')
  })
})

describe('tools', () => {
  const find = { name: 'find', description: 'Finds rooms', parameters: { type: 'object', properties: { name: {} } } }

  test('a tool has an object schema, even without parameters', () => {
    expect(
      withOptions({
        tools: [
          { ...find, strict: true },
          { name: 'now', strict: false },
        ],
      }),
    ).toMatchObject({
      tools: [
        { name: 'find', description: 'Finds rooms', input_schema: find.parameters, strict: true },
        { name: 'now', input_schema: { type: 'object' } },
      ],
    })
    expect(withOptions({ tools: [find] })).not.toHaveProperty('tool_choice')
  })

  test.each<[GenerationOptions, unknown]>([
    [{ toolChoice: 'auto' }, { type: 'auto' }],
    [{ toolChoice: 'required' }, { type: 'any' }],
    [{ toolChoice: 'none' }, { type: 'none' }],
    [{ toolChoice: { name: 'find' } }, { type: 'tool', name: 'find' }],
    [{ parallelToolCalls: true }, undefined],
    [{ parallelToolCalls: false }, { type: 'auto', disable_parallel_tool_use: true }],
    [
      { toolChoice: { name: 'find' }, parallelToolCalls: false },
      { type: 'tool', name: 'find', disable_parallel_tool_use: true },
    ],
    [{ toolChoice: 'none', parallelToolCalls: false }, { type: 'none' }],
  ])('%j is the choice %j', (choice, expected) => {
    expect(withOptions({ tools: [find], ...choice }).tool_choice).toEqual(expected)
  })

  test('without tools no choice is sent', () => {
    expect(withOptions({ tools: [], toolChoice: 'none' })).not.toHaveProperty('tool_choice')
    expect(refusal({ options: { toolChoice: 'required' } })).toContain('tools')
    expect(refusal({ options: { toolChoice: { name: 'find' } } })).toContain('tools')
  })
})

test('a schema for the answer is its output format, with its description', () => {
  const schema = { type: 'object', properties: {}, additionalProperties: false }
  const responseFormat = { type: 'json_schema', name: 'room', schema, strict: true } as const
  expect(withOptions({ responseFormat }).output_config).toEqual({ format: { type: 'json_schema', schema } })
  expect(withOptions({ responseFormat: { ...responseFormat, description: 'A room' } }).output_config).toEqual({
    format: { type: 'json_schema', schema: { description: 'A room', ...schema } },
  })
  expect(withOptions({ responseFormat: { type: 'text' } })).not.toHaveProperty('output_config')
})

describe('reasoning effort', () => {
  test.each([
    ['minimal', 1024],
    ['low', 1024],
    ['medium', 2000],
    ['high', 3000],
    ['max', 3600],
  ])('%s is a budget of %i of 4000 tokens for the models that have budgets', (reasoningEffort, budget) => {
    for (const model of [
      'claude-3-7-sonnet-20250219',
      'claude-sonnet-4-20250514',
      'claude-opus-4-5',
      'claude-haiku-4-5@20251001',
    ]) {
      const request = withOptions({ reasoningEffort }, { model })
      expect(request.thinking).toEqual({ type: 'enabled', budget_tokens: budget })
      expect(request).not.toHaveProperty('output_config')
    }
  })

  test('newer models get the effort, and return readable reasoning where possible', () => {
    for (const model of [
      'claude-opus-4-6',
      'claude-sonnet-4-6',
      'claude-opus-4-10',
      'claude-sonnet-5',
      'claude-next',
    ]) {
      expect(withOptions({ reasoningEffort: 'xhigh' }, { model })).toMatchObject({
        thinking: { type: 'adaptive', display: 'summarized' },
        output_config: { effort: 'xhigh' },
      })
    }
    const schema = { type: 'object' }
    const responseFormat = { type: 'json_schema', name: 'room', schema } as const
    expect(withOptions({ reasoningEffort: 'minimal', responseFormat }).output_config).toEqual({
      effort: 'low',
      format: { type: 'json_schema', schema },
    })
  })

  test('none disables it; an unknown effort is rejected, and so is a limit too small for any budget', () => {
    expect(withOptions({ reasoningEffort: 'none' }).thinking).toEqual({ type: 'disabled' })
    expect(refusal({ options: { reasoningEffort: 'heroic' } })).toContain('reasoning_effort')
    const tight = { model: 'claude-sonnet-4-5', maxTokens: 1024, options: { reasoningEffort: 'low' } }
    expect(refusal(tight)).toContain('max_tokens')
    expect(sent({ ...tight, maxTokens: 1025 }).thinking).toEqual({ type: 'enabled', budget_tokens: 1024 })
  })

  test('a budget always leaves room for the answer', () => {
    const efforts = fc.constantFrom('minimal', 'low', 'medium', 'high', 'xhigh', 'max')
    fc.assert(
      fc.property(fc.integer({ min: 1025, max: 200_000 }), efforts, (maxTokens, reasoningEffort) => {
        const { thinking } = withOptions({ reasoningEffort }, { model: 'claude-sonnet-4-5', maxTokens })
        expect(thinking.budget_tokens).toBeGreaterThanOrEqual(1024)
        expect(thinking.budget_tokens).toBeLessThan(maxTokens)
      }),
    )
  })
})

test.each<[string, Partial<ProviderCall>]>([
  ['frequency_penalty', { options: { frequencyPenalty: 0.1 } }],
  ['presence_penalty', { options: { presencePenalty: -1 } }],
  ['seed', { options: { seed: 0 } }],
  ['logprobs', { options: { logprobs: true } }],
  ['top_logprobs', { options: { topLogprobs: 2 } }],
  ['json_object', { options: { responseFormat: { type: 'json_object' } } }],
  ['temperature over 1', { temperature: 1.01 }],
])('%s is rejected by its name', (name, more) => {
  expect(refusal(more)).toContain(name)
})

test('options without effect are accepted', () => {
  const options = { frequencyPenalty: 0, presencePenalty: 0, logprobs: false, topLogprobs: 0, stop: [] }
  expect(withOptions(options, { temperature: 1 })).toEqual({ ...sent({}), temperature: 1 })
})

test.each([
  ['claude-opus-4-6', true],
  ['claude-opus-4-20250514', true],
  ['claude-sonnet-4-5@20250929', true],
  ['claude-3-7-sonnet-20250219', true],
  ['claude-opus-4-7', false],
  ['claude-opus-4.8', false],
  ['claude-sonnet-5', false],
  ['claude-haiku-5-20270101', false],
])("%s gets our default temperature: %s; a caller's value is sent to any", (model, isTold) => {
  const byDefault = withOptions({}, { model, temperature: 0.7, temperatureIsDefault: true })
  expect(byDefault.temperature).toBe(isTold ? 0.7 : undefined)
  expect(withOptions({}, { model, temperature: 0.7 })).toMatchObject({ temperature: 0.7 })
})
