import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { GenerationOptions, Message } from '../../../../../src/daemon/models/conversation.ts'
import type { ProviderCall } from '../../../../../src/daemon/models/provider.ts'
import { googleFormat } from '../../../../../src/daemon/models/providers/google/answer.ts'
import { toGoogleRequest } from '../../../../../src/daemon/models/providers/google/request.ts'
import { testCall } from '../../provider-calls.ts'

const call = testCall({ model: 'gemini-3-flash', system: 'Be brief.', maxTokens: 50, stream: true })

/** The body on the wire, where undefined members are absent. */
const sent = (more: Partial<ProviderCall>) =>
  JSON.parse(JSON.stringify(toGoogleRequest({ ...call, ...more }))) as Record<string, unknown>
const contents = (messages: readonly Message[], model = call.model) => sent({ messages, model }).contents
const config = (options: GenerationOptions, model = call.model) => sent({ options, model }).generationConfig
const toolConfig = (options: GenerationOptions) => sent({ options }).toolConfig

const asksWeather: Message = {
  role: 'assistant',
  content: '',
  toolCalls: [
    { id: 'call_0_resp-1', name: 'weather', arguments: '{"city":"Bern"}' },
    { id: 'call_1_resp-1', name: 'weather', arguments: '{"city":"Genève"}' },
  ],
}

test('a plain call is system instruction, contents and a limit, and nothing else', () => {
  expect(sent({})).toEqual({
    systemInstruction: { parts: [{ text: 'Be brief.' }] },
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    generationConfig: { maxOutputTokens: 50 },
  })
  expect(sent({ system: '', temperature: 0 })).toEqual({
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    generationConfig: { maxOutputTokens: 50, temperature: 0 },
  })
})

test("options in Gemini's own form do not replace the gateway's options", () => {
  const fields = { 'generationConfig.maxOutputTokens': 9, 'generationConfig.topK': 3, 'generationConfig.topP.x': 1 }
  expect(config({ native: { origin: 'google', fields, headers: {}, marks: [] } })).toEqual({
    maxOutputTokens: 50,
    topK: 3,
    'topP.x': 1,
  })
})

describe('messages', () => {
  test('roles alternate: adjacent messages of one role are merged, and empty ones are dropped', () => {
    const messages: Message[] = [
      { role: 'user', content: 'One' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'two' },
          { type: 'text', text: '' },
        ],
      },
      { role: 'assistant', content: '' },
      { role: 'assistant', content: 'Three' },
      { role: 'user', content: 'Four' },
    ]
    expect(contents(messages)).toEqual([
      { role: 'user', parts: [{ text: 'One' }, { text: 'two' }] },
      { role: 'model', parts: [{ text: 'Three' }] },
      { role: 'user', parts: [{ text: 'Four' }] },
    ])
  })

  test('any conversation keeps its words in order, with alternating roles', () => {
    const message = fc.record({ role: fc.constantFrom('user' as const, 'assistant' as const), content: fc.string() })
    fc.assert(
      fc.property(fc.array(message, { minLength: 1 }), (drawn) => {
        const messages = [...drawn, { role: 'user' as const, content: 'End' }]
        const turns = contents(messages) as { role: string; parts: { text: string }[] }[]
        const words = turns.flatMap(({ parts }) => parts.map(({ text }) => text))
        expect(words).toEqual(messages.map(({ content }) => content).filter((content) => content !== ''))
        expect(turns.some(({ role }, at) => role === turns[at + 1]?.role)).toBe(false)
      }),
    )
  })

  test('each tool result is matched without a search through all calls', () => {
    let reads = 0
    const ids = Array.from({ length: 1_000 }, (_, at) => `c${at}`)
    const toolCalls = ids.map((id) => ({
      get id() {
        reads++
        return id
      },
      name: 'weather',
      arguments: '{}',
    }))
    const results = ids.toReversed().map((id): Message => ({ role: 'tool', toolCallId: id, content: 'Sun' }))
    const [, turn] = contents([{ role: 'assistant', content: '', toolCalls }, ...results]) as {
      parts: { functionResponse: { id: string } }[]
    }[]
    expect(turn?.parts.map(({ functionResponse }) => functionResponse.id)).toEqual(ids)
    expect(reads).toBeLessThan(10 * ids.length)
  })

  test('an image is inline data', () => {
    const content = [{ type: 'image', mediaType: 'image/png', data: 'iVBOR' } as const]
    expect(contents([{ role: 'user', content }])).toEqual([
      { role: 'user', parts: [{ inlineData: { mimeType: 'image/png', data: 'iVBOR' } }] },
    ])
  })

  test('tool results are one turn in the order of their calls, with names, and our own ids are omitted', () => {
    const messages: Message[] = [
      { role: 'user', content: 'Weather?' },
      asksWeather,
      { role: 'tool', toolCallId: 'call_1_resp-1', content: 'rain' },
      { role: 'tool', toolCallId: 'call_0_resp-1', content: 'no data', isError: true },
    ]
    expect(contents(messages, 'gemini-2.5-flash')).toEqual([
      { role: 'user', parts: [{ text: 'Weather?' }] },
      {
        role: 'model',
        parts: [
          { functionCall: { name: 'weather', args: { city: 'Bern' } } },
          { functionCall: { name: 'weather', args: { city: 'Genève' } } },
        ],
      },
      {
        role: 'user',
        parts: [
          { functionResponse: { name: 'weather', response: { error: 'no data' } } },
          { functionResponse: { name: 'weather', response: { output: 'rain' } } },
        ],
      },
    ])
  })

  test('provider ids are sent, and images of a result follow it', () => {
    const messages: Message[] = [
      { role: 'assistant', content: '', toolCalls: [{ id: 'toolu_1', name: 'look', arguments: '' }] },
      {
        role: 'tool',
        toolCallId: 'toolu_1',
        content: [
          { type: 'text', text: 'seen' },
          { type: 'image', mediaType: 'image/png', data: 'iVBOR' },
        ],
      },
    ]
    expect(contents(messages, 'gemini-2.5-flash')).toEqual([
      { role: 'model', parts: [{ functionCall: { id: 'toolu_1', name: 'look', args: {} } }] },
      {
        role: 'user',
        parts: [
          { functionResponse: { id: 'toolu_1', name: 'look', response: { output: 'seen' } } },
          { inlineData: { mimeType: 'image/png', data: 'iVBOR' } },
        ],
      },
    ])
  })

  test('a repeated id belongs to the latest call', () => {
    const turn = (name: string): Message[] => [
      { role: 'assistant', content: '', toolCalls: [{ id: 'call_0', name, arguments: '{}' }] },
      { role: 'tool', toolCallId: 'call_0', content: name },
    ]
    const text = JSON.stringify(contents([...turn('first'), ...turn('second')]))
    expect(text).toContain('{"name":"first","response":{"output":"first"}}')
    expect(text).toContain('{"name":"second","response":{"output":"second"}}')
  })

  test('only the first call of a turn needs a signature, and only from Gemini 3 on', () => {
    const unsigned = contents([asksWeather])
    expect(unsigned).toMatchObject([{ parts: [{ thoughtSignature: 'skip_thought_signature_validator' }, {}] }])
    expect(JSON.stringify(unsigned).match(/thoughtSignature/g)).toHaveLength(1)
    expect(JSON.stringify(contents([asksWeather], 'gemini-2.5-pro'))).not.toContain('thoughtSignature')
  })

  test('signatures are sent back on the same parts', () => {
    const parts = [
      { text: 'Hm.', thought: true, thoughtSignature: 'VEhU' },
      { text: 'I look.', thoughtSignature: 'VEVYVA==' },
      { functionCall: { name: 'now', args: { zone: 'CET' } }, thoughtSignature: 'Q0FMTA==' },
      { functionCall: { id: 'a:b', name: 'now', args: {} }, thoughtSignature: 'TU9SRQ==' },
      { functionCall: { name: 'now', args: {} } },
    ]
    const answer = googleFormat.decodeBody({
      responseId: 'r1',
      candidates: [{ content: { parts }, finishReason: 'STOP' }],
    })
    const message: Message = {
      role: 'assistant',
      content: answer.map((part) => (part.type === 'text' ? part.text : '')).join(''),
      toolCalls: answer.flatMap((part) =>
        part.type === 'tool_call' ? [{ id: part.id ?? '', name: part.name ?? '', arguments: part.arguments }] : [],
      ),
      reasoning: answer.flatMap((part) => (part.type === 'reasoning' ? [{ ...part, origin: part.origin ?? '' }] : [])),
    }
    expect(contents([message])).toEqual([{ role: 'model', parts }])
  })

  test('foreign reasoning and unsigned thoughts are omitted; a signature without text gets its own part', () => {
    const reasoning = [
      { origin: 'anthropic', text: 'Secret', signature: 'QUJD' },
      { origin: 'anthropic', text: '', data: ':QUJD' },
      { origin: 'google', text: 'Summary' },
    ]
    const said: Message = { role: 'assistant', content: 'Yes', reasoning }
    expect(contents([said])).toEqual([{ role: 'model', parts: [{ text: 'Yes' }] }])
    const silent: Message = {
      role: 'assistant',
      content: '',
      reasoning: [{ origin: 'google', text: '', data: ':REVG' }],
    }
    expect(contents([silent])).toEqual([{ role: 'model', parts: [{ text: '', thoughtSignature: 'REVG' }] }])
  })

  test.each<[string, Message[]]>([
    ['a result without its call', [{ role: 'tool', toolCallId: 'call_0', content: 'x' }]],
    ['a conversation that says nothing', [{ role: 'user', content: '' }]],
    [
      'arguments that are not JSON',
      [{ role: 'assistant', content: '', toolCalls: [{ id: 'a', name: 'f', arguments: '{' }] }],
    ],
    [
      'arguments that are no object',
      [{ role: 'assistant', content: '', toolCalls: [{ id: 'a', name: 'f', arguments: '[]' }] }],
    ],
  ])('%s is a bad request', (_, messages) => {
    expect(() => contents(messages)).toThrow(expect.objectContaining({ name: 'ProviderError', reason: 'bad_request' }))
  })
})

describe('options', () => {
  const tools = [
    { name: 'now', description: 'The time', parameters: { type: 'object', properties: {} } },
    { name: 'f' },
  ]

  test('sampling, stop sequences, seed and logprobs are converted', () => {
    const options = {
      stop: ['END'],
      topP: 0.5,
      topK: 3,
      frequencyPenalty: 0.1,
      presencePenalty: 0.2,
      seed: 7,
      logprobs: true,
      topLogprobs: 4,
      user: 'u-1',
    }
    expect(config(options)).toEqual({
      maxOutputTokens: 50,
      stopSequences: ['END'],
      topP: 0.5,
      topK: 3,
      frequencyPenalty: 0.1,
      presencePenalty: 0.2,
      seed: 7,
      responseLogprobs: true,
      logprobs: 4,
    })
  })

  test('tools are declarations with their JSON Schema', () => {
    expect(sent({ options: { tools } }).tools).toEqual([
      {
        functionDeclarations: [
          { name: 'now', description: 'The time', parametersJsonSchema: { type: 'object', properties: {} } },
          { name: 'f' },
        ],
      },
    ])
    expect(sent({ options: { tools: [] } })).not.toHaveProperty('tools')
  })

  test('every tool choice has its mode, and strict tools are validated', () => {
    const mode = (toolChoice: GenerationOptions['toolChoice']) => toolConfig({ tools, toolChoice })
    expect(mode(undefined)).toEqual({ functionCallingConfig: { mode: 'AUTO' } })
    expect(mode('auto')).toEqual({ functionCallingConfig: { mode: 'AUTO' } })
    expect(mode('none')).toEqual({ functionCallingConfig: { mode: 'NONE' } })
    expect(mode('required')).toEqual({ functionCallingConfig: { mode: 'ANY' } })
    expect(mode({ name: 'f' })).toEqual({ functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['f'] } })
    expect(toolConfig({ tools: [{ name: 'f', strict: true }] })).toEqual({
      functionCallingConfig: { mode: 'VALIDATED' },
    })
  })

  test('structured output is a media type and a schema', () => {
    const schema = { type: 'object', properties: { a: { type: 'integer' } } }
    const format = (responseFormat: GenerationOptions['responseFormat']) => config({ responseFormat })
    expect(format({ type: 'text' })).toEqual({ maxOutputTokens: 50 })
    expect(format({ type: 'json_object' })).toEqual({ maxOutputTokens: 50, responseMimeType: 'application/json' })
    expect(format({ type: 'json_schema', name: 'n', schema, strict: true })).toEqual({
      maxOutputTokens: 50,
      responseMimeType: 'application/json',
      responseJsonSchema: schema,
    })
    expect(format({ type: 'json_schema', name: 'n', schema, description: 'd' })).toMatchObject({
      responseJsonSchema: { description: 'd', ...schema },
    })
  })

  test.each([
    ['gemini-3-flash', 'minimal', { thinkingLevel: 'minimal', includeThoughts: true }],
    ['gemini-3-pro-preview', 'high', { thinkingLevel: 'high', includeThoughts: true }],
    ['gemini-flash-latest', 'low', { thinkingLevel: 'low', includeThoughts: true }],
    ['gemini-2.5-flash', 'medium', { thinkingBudget: 8192, includeThoughts: true }],
    ['gemini-2.5-flash', 'none', { thinkingBudget: 0, includeThoughts: false }],
  ])('%s thinks with effort %s if it can', (model, reasoningEffort, thinkingConfig) => {
    expect(config({ reasoningEffort }, model)).toEqual({ maxOutputTokens: 50, thinkingConfig })
  })

  test.each<[string, GenerationOptions]>([
    ['a required tool without tools', { toolChoice: 'required' }],
    ['a named tool without tools', { tools: [], toolChoice: { name: 'f' } }],
    ['no thinking at all', { reasoningEffort: 'none' }],
    ['an effort nobody knows', { reasoningEffort: 'xhigh' }],
  ])('%s is a bad request instead of being ignored', (_, options) => {
    expect(() => sent({ options })).toThrow(expect.objectContaining({ name: 'ProviderError', reason: 'bad_request' }))
  })
})
