import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { GenerationOptions, Message } from '../../../../../src/daemon/models/conversation.ts'
import { type ProviderCall, ProviderError } from '../../../../../src/daemon/models/provider.ts'
import { profilesOf } from '../../../../../src/daemon/models/providers/openai/profiles.ts'
import { toOpenAiFields, toOpenAiRequest } from '../../../../../src/daemon/models/providers/openai/request.ts'
import { testCall } from '../../provider-calls.ts'

const plain = testCall({ model: 'vendor/small-1', system: 'Be brief.', temperature: 0.3, maxTokens: 50 })

/** The body as the named server receives it. A large call has the same body. */
function sent(call: Partial<ProviderCall>, name = 'house', model = 'vendor/small-1') {
  const profile = profilesOf(name, 'http://127.0.0.1:1/v1')(model)
  const body = toOpenAiRequest({ ...plain, model, ...call }, profile)
  expect(JSON.stringify(toOpenAiFields({ ...plain, model, ...call }, profile))).toBe(body)
  return JSON.parse(body)
}

const withOptions = (options: GenerationOptions, name?: string, model?: string) => sent({ options }, name, model)
const messagesOf = (messages: Message[], name?: string) => sent({ system: '', messages }, name).messages

const weather = { name: 'weather', description: 'of a city', parameters: { type: 'object' }, strict: true }
const image = { type: 'image', mediaType: 'image/png', data: 'iVBORw0' } as const
const toolTurn: Message = {
  role: 'assistant',
  content: '',
  toolCalls: [{ id: 'call_abc', name: 'weather', arguments: '{"city": "Bern" }' }],
  reasoning: [
    { origin: 'deepseek', text: 'Ask ' },
    { origin: 'anthropic', text: 'not this', signature: 's' },
    { origin: 'deepseek', text: 'the tool.' },
  ],
}

describe('a plain call', () => {
  test('has the system prompt first and requests usage only when streamed', () => {
    const body = {
      model: 'vendor/small-1',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hi' },
      ],
      temperature: 0.3,
      max_tokens: 50,
    }
    expect(sent({})).toEqual({ ...body, stream: false })
    expect(sent({ stream: true })).toEqual({ ...body, stream: true, stream_options: { include_usage: true } })
    expect(sent({ system: '' }).messages).toEqual([{ role: 'user', content: 'Hi' }])
  })

  test('has a system prompt of several blocks as one text', () => {
    const block = (text: string) => ({ type: 'text', text }) as const
    expect(sent({ system: [block('Be brief.'), block('Be kind.')] }).messages).toEqual([
      { role: 'system', content: 'Be brief.\n\nBe kind.' },
      { role: 'user', content: 'Hi' },
    ])
    expect(sent({ system: [] }).messages).toEqual([{ role: 'user', content: 'Hi' }])
  })

  test('omits everything that was not requested', () => {
    expect(Object.keys(sent({ temperature: undefined, options: {} })).sort()).toEqual([
      'max_tokens',
      'messages',
      'model',
      'stream',
    ])
  })
})

describe('options', () => {
  test('are converted to the fields of the interface', () => {
    const options: GenerationOptions = {
      tools: [weather],
      toolChoice: { name: 'weather' },
      parallelToolCalls: false,
      responseFormat: { type: 'json_schema', name: 'reply', schema: { type: 'object' }, strict: true },
      stop: ['\n', 'END'],
      topP: 0.9,
      topK: 40,
      frequencyPenalty: 0.1,
      presencePenalty: -0.2,
      seed: 7,
      logprobs: true,
      topLogprobs: 3,
      user: 'u-1',
      reasoningEffort: 'low',
    }
    expect(withOptions(options)).toMatchObject({
      tools: [{ type: 'function', function: weather }],
      tool_choice: { type: 'function', function: { name: 'weather' } },
      parallel_tool_calls: false,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'reply', schema: { type: 'object' }, strict: true },
      },
      stop: ['\n', 'END'],
      top_p: 0.9,
      top_k: 40,
      frequency_penalty: 0.1,
      presence_penalty: -0.2,
      seed: 7,
      logprobs: true,
      top_logprobs: 3,
      user: 'u-1',
      reasoning_effort: 'low',
    })
  })

  test.each(['auto', 'none', 'required'] as const)('tool choice %s is sent unchanged', (toolChoice) => {
    expect(withOptions({ tools: [weather], toolChoice }).tool_choice).toBe(toolChoice)
  })

  test('without tools no tool fields are sent, and an empty list of stops is omitted', () => {
    const body = withOptions({ tools: [], toolChoice: 'auto', parallelToolCalls: true, stop: [] })
    for (const field of ['tools', 'tool_choice', 'parallel_tool_calls', 'stop']) expect(body).not.toHaveProperty(field)
  })

  test('JSON mode is sent unchanged', () => {
    expect(withOptions({ responseFormat: { type: 'json_object' } }).response_format).toEqual({ type: 'json_object' })
  })
})

describe('messages', () => {
  test('tool calls and their results keep ids and arguments unchanged', () => {
    const result: Message = { role: 'tool', toolCallId: 'call_abc', content: [{ type: 'text', text: 'Sun' }] }
    expect(messagesOf([{ role: 'user', content: 'Weather?' }, toolTurn, result])).toEqual([
      { role: 'user', content: 'Weather?' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'call_abc', type: 'function', function: { name: 'weather', arguments: '{"city": "Bern" }' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call_abc', content: 'Sun' },
    ])
  })

  test('images are sent inline, and text parts without an image as one text', () => {
    const text = { type: 'text', text: 'What is it?' } as const
    expect(messagesOf([{ role: 'user', content: [text, image] }])).toEqual([
      {
        role: 'user',
        content: [text, { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0' } }],
      },
    ])
    expect(messagesOf([{ role: 'user', content: [text, text] }])[0].content).toBe('What is it?What is it?')
  })

  test('any text is sent unchanged and in order', () => {
    const message = fc.record({ role: fc.constantFrom('user', 'assistant'), content: fc.string({ unit: 'binary' }) })
    fc.assert(
      fc.property(fc.array(message as fc.Arbitrary<Message>), (messages) => {
        expect(messagesOf(messages)).toEqual(JSON.parse(JSON.stringify(messages)))
      }),
    )
  })
})

describe('reasoning', () => {
  test('is sent back only to its provider, and only if it accepts it', () => {
    expect(messagesOf([toolTurn], 'deepseek')[0]).toMatchObject({ reasoning_content: 'Ask the tool.' })
    expect(messagesOf([toolTurn], 'moonshot')[0]).toMatchObject({ reasoning_content: '' })
    for (const name of ['house', 'openai', 'groq', 'openrouter']) {
      expect(JSON.stringify(messagesOf([toolTurn], name))).not.toContain('reasoning')
    }
    const answer: Message = { role: 'assistant', content: 'Sun.', reasoning: [{ origin: 'deepseek', text: 'Hm' }] }
    expect(messagesOf([answer], 'deepseek')).toEqual([{ role: 'assistant', content: 'Sun.' }])
  })

  test('of unknown origin is sent to a server that requires it', () => {
    const turn = { ...toolTurn, reasoning: [{ origin: '', text: 'Ask.' }] } as Message
    expect(messagesOf([turn], 'deepseek')[0]).toMatchObject({ reasoning_content: 'Ask.' })
    for (const name of ['openai', 'openrouter']) {
      expect(JSON.stringify(messagesOf([turn], name))).not.toContain('reasoning')
    }
  })

  test('that was sealed is sent back unchanged, with its text in its field', () => {
    const signed = { type: 'reasoning.text', signature: 'c2ln', format: 'anthropic-claude-v1', index: 0 }
    const encrypted = { type: 'reasoning.encrypted', data: 'c2VjcmV0', id: 'rs_1', format: 'openai-responses-v1' }
    const origin = 'openrouter'
    const reasoning = [
      { origin, text: 'Two and two', data: JSON.stringify(signed) },
      { origin, text: 'Counting.', data: JSON.stringify(encrypted) },
      { origin, text: 'open' },
      { origin, text: '', data: 'not JSON' },
      { origin, text: '', data: JSON.stringify({ type: 'reasoning.text', content: 'readable' }) },
      { origin, text: '', data: JSON.stringify({ type: 'reasoning.encrypted', data: 'plain words' }) },
      { origin: 'google', text: 'not this', signature: 's' },
    ]
    const [message] = messagesOf([{ role: 'assistant', content: '4', reasoning }], 'openrouter')
    expect(message.reasoning_details).toEqual([
      { ...signed, text: 'Two and two' },
      { type: 'reasoning.text', format: 'openai-responses-v1', text: 'Counting.' },
      encrypted,
      { type: 'reasoning.text', text: 'open' },
    ])
  })
})

describe('profiles', () => {
  test.each(['o3', 'o4-mini', 'gpt-5', 'gpt-5.1-codex', 'openai/gpt-5-mini'])('%s of OpenAI thinks', (model) => {
    for (const name of ['openai', 'azure']) {
      const body = sent({ temperatureIsDefault: true }, name, model)
      expect(body).toMatchObject({ max_completion_tokens: 50, messages: [{ role: 'developer' }, {}] })
      expect(body).not.toHaveProperty('max_tokens')
      expect(body).not.toHaveProperty('temperature')
    }
    // A caller who requests one gets the error from the model itself.
    expect(sent({}, 'openai', model)).toMatchObject({ temperature: 0.3 })
    expect(() => withOptions({ topP: 0.5 }, 'openai', model)).toThrow('openai does not support top_p for this model.')
    expect(withOptions({ topP: 1, frequencyPenalty: 0 }, 'openai', model)).not.toHaveProperty('top_p')
  })

  test.each(['gpt-4o', 'gpt-4.1', 'gpt-5-chat-latest', 'omni-moderation'])('%s of OpenAI does not think', (model) => {
    expect(sent({ temperatureIsDefault: true }, 'openai', model)).toMatchObject({
      max_tokens: 50,
      temperature: 0.3,
      messages: [{ role: 'system' }, {}],
    })
  })

  test('the same name elsewhere is an ordinary model', () => {
    expect(sent({}, 'house', 'gpt-5')).toMatchObject({ max_tokens: 50, temperature: 0.3 })
  })

  test.each([
    ['groq', { max_completion_tokens: 50 }],
    ['cerebras', { max_completion_tokens: 50 }],
    ['xai', { max_completion_tokens: 50 }],
    ['openrouter', { max_tokens: 50, reasoning: { effort: 'low' } }],
    ['mistral', { max_tokens: 50, random_seed: 7 }],
  ])('%s has its own field names', (name, fields) => {
    const { seed, ...others } = { seed: 7, reasoningEffort: 'low' }
    expect(withOptions(name === 'mistral' ? { seed } : others, name)).toMatchObject(fields)
  })

  test('Mistral gets only fields that it knows, and matching ids of nine letters and digits', () => {
    const result: Message = { role: 'tool', toolCallId: 'call_abc', content: 'Sun' }
    const kept: Message = { role: 'tool', toolCallId: 'gSIMJiOk1', content: 'Rain' }
    const options = { tools: [weather], user: 'u-1', logprobs: false }
    const body = sent({ stream: true, messages: [toolTurn, result, kept], options }, 'mistral')
    for (const field of ['stream_options', 'user', 'logprobs']) expect(body).not.toHaveProperty(field)
    const [, call, answer, last] = body.messages
    expect(call.tool_calls[0].id).toMatch(/^[a-zA-Z0-9]{9}$/)
    expect(answer.tool_call_id).toBe(call.tool_calls[0].id)
    expect(last.tool_call_id).toBe('gSIMJiOk1')
  })

  test('Perplexity gets alternating turns', () => {
    const said = (role: 'user' | 'assistant', content: Message['content']): Message => ({ role, content })
    const messages = [
      said('user', 'a'),
      said('user', 'b'),
      said('assistant', 'c'),
      said('user', 'd'),
      said('user', [image]),
    ]
    expect(messagesOf(messages, 'perplexity')).toEqual([
      { role: 'user', content: 'a\n\nb' },
      { role: 'assistant', content: 'c' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'd' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0' } },
        ],
      },
    ])
  })

  test.each<[string, Partial<ProviderCall>, string]>([
    ['groq', { options: { logprobs: true } }, 'logprobs'],
    ['perplexity', { options: { tools: [weather] } }, 'tools'],
    ['perplexity', { messages: [toolTurn] }, 'tools'],
    ['zai', { options: { tools: [weather], toolChoice: 'required' } }, 'tool_choice'],
    ['ollama', { options: { tools: [weather], toolChoice: { name: 'weather' } } }, 'tool_choice'],
    ['deepseek', { options: { responseFormat: { type: 'json_schema', name: 'a', schema: {} } } }, 'json_schema'],
    ['deepseek', { messages: [{ role: 'user', content: [image] }], options: { seed: 1 } }, 'images, seed'],
    ['openai', { options: { topK: 3 } }, 'top_k'],
  ])('options that %s would silently ignore are rejected before the call', (name, call, missing) => {
    const refused = expect(() => sent(call, name))
    refused.toThrow(ProviderError)
    refused.toThrow(`${name} does not support ${missing} for this model.`)
  })

  test('a host takes precedence over a name, and a known name selects its provider at any address', () => {
    const tokensField = (name: string, url: string) => profilesOf(name, url)('any').tokensField
    expect(tokensField('fast', 'https://api.groq.com/openai/v1')).toBe('max_completion_tokens')
    expect(tokensField('openai', 'https://api.groq.com/openai/v1')).toBe('max_completion_tokens')
    expect(tokensField('groq', 'http://127.0.0.1:9/v1')).toBe('max_completion_tokens')
    expect(tokensField('fast', 'https://notapi.groq.com.example/v1')).toBe('max_tokens')
    expect(profilesOf('mine', 'https://mine.openai.azure.com')('gpt-5').origin).toBe('azure')
    expect(profilesOf('toString', 'http://h/v1')('any').origin).toBe('openai')
  })
})
