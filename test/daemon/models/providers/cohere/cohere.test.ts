import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { GenerationOptions, Message } from '../../../../../src/daemon/models/conversation.ts'
import type { ChatPart, ProviderCall } from '../../../../../src/daemon/models/provider.ts'
import { cohereFormat } from '../../../../../src/daemon/models/providers/cohere/answer.ts'
import { toCohereRequest } from '../../../../../src/daemon/models/providers/cohere/request.ts'
import { droppedByCohere } from '../../../../../src/daemon/models/providers/cohere/supported.ts'
import { createPlayback, endOf, toToolCalls, wordsOf } from '../../playback.ts'
import { testCall } from '../../provider-calls.ts'

const playback = createPlayback(cohereFormat, (parts: readonly ChatPart[]) => ({
  text: wordsOf(parts, 'text'),
  reasoning: wordsOf(parts, 'reasoning'),
  toolCalls: toToolCalls(parts),
  ...endOf(parts),
}))

const event = (data: object) => Buffer.from(`event: x\ndata: ${JSON.stringify(data)}\n\n`)
const play = (...events: object[]) => playback.stream(events.map(event))
const START = { type: 'message-start', id: 'a', delta: { message: { role: 'assistant', content: [] } } }
const text = (content: string) => ({
  type: 'content-delta',
  index: 0,
  delta: { message: { content: { text: content } } },
})
const end = (reason: string, more: object = {}) => ({ type: 'message-end', delta: { finish_reason: reason, ...more } })
const usage = { billed_units: { input_tokens: 3, output_tokens: 2 }, tokens: { input_tokens: 90, output_tokens: 8 } }
const counted = { inputTokens: 3, outputTokens: 2, cacheReadTokens: 0, estimated: false }

const bodyOf = (more: Partial<ProviderCall> = {}) =>
  JSON.parse(JSON.stringify(toCohereRequest(testCall({ model: 'command-a-03-2025', maxTokens: 50, ...more }))))
const withOptions = (options: GenerationOptions, model = 'command-a-03-2025') => bodyOf({ options, model })
const weather = {
  name: 'weather',
  description: 'The weather',
  parameters: { properties: { city: { type: 'string' } } },
}
const clock = { name: 'clock' }

describe('requests', () => {
  test('contain the system prompt as the first message, and the options under the names of the API', () => {
    const options = { topP: 0.5, topK: 3, stop: ['x'], seed: 7, frequencyPenalty: 0.1, presencePenalty: 0.2 }
    expect(bodyOf({ system: 'Be brief.', temperature: 0.3, stream: true, options })).toEqual({
      model: 'command-a-03-2025',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hi' },
      ],
      ...{ stream: true, temperature: 0.3, max_tokens: 50, p: 0.5, k: 3, stop_sequences: ['x'], seed: 7 },
      ...{ frequency_penalty: 0.1, presence_penalty: 0.2 },
    })
  })

  test('contain images, calls with their plan, and results', () => {
    const messages: Message[] = [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look' },
          { type: 'image', mediaType: 'image/png', data: 'iVBORw0', detail: 'low' },
          { type: 'image_url', url: 'https://example.com/a.png' },
        ],
      },
      {
        role: 'assistant',
        content: 'I ask.',
        reasoning: [
          { origin: 'cohere', text: 'Hm' },
          { origin: 'google', text: 'not this' },
        ],
        toolCalls: [{ id: 'w1', name: 'weather', arguments: '' }],
      },
      { role: 'tool', toolCallId: 'w1', content: 'Sun' },
      { role: 'assistant', content: '' },
      { role: 'assistant', content: 'Sunny.', reasoning: [{ origin: 'cohere', text: 'So' }] },
    ]
    expect(bodyOf({ messages }).messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0', detail: 'low' } },
          { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
        ],
      },
      {
        role: 'assistant',
        content: [{ type: 'thinking', thinking: 'Hm' }],
        tool_plan: 'I ask.',
        tool_calls: [{ id: 'w1', type: 'function', function: { name: 'weather', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'w1', content: 'Sun' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'So' },
          { type: 'text', text: 'Sunny.' },
        ],
      },
    ])
  })

  test.each<[GenerationOptions['toolChoice'], string[], string | undefined]>([
    [undefined, ['weather', 'clock'], undefined],
    ['auto', ['weather', 'clock'], undefined],
    ['none', ['weather', 'clock'], 'NONE'],
    ['required', ['weather', 'clock'], 'REQUIRED'],
    [{ name: 'clock' }, ['clock'], 'REQUIRED'],
  ])('with tool_choice %j offer %j', (toolChoice, names, choice) => {
    const body = withOptions({ tools: [weather, clock], toolChoice })
    expect(body.tools.map((tool: { function: { name: string } }) => tool.function.name)).toEqual(names)
    expect([body.tool_choice, body.strict_tools]).toEqual([choice, undefined])
    expect(body.tools[0].function.parameters.type).toBe('object')
  })

  test('contain a schema, strict tools and thinking in the form of the API', () => {
    const schema = { type: 'object', properties: { a: { type: 'string' } } }
    expect(withOptions({ responseFormat: { type: 'json_schema', name: 'n', schema, description: 'd' } })).toMatchObject(
      {
        response_format: { type: 'json_object', json_schema: { description: 'd', ...schema } },
      },
    )
    expect(withOptions({ responseFormat: { type: 'json_object' } }).response_format).toEqual({ type: 'json_object' })
    expect(withOptions({ tools: [{ ...weather, strict: true }] }).strict_tools).toBe(true)
    expect(withOptions({ reasoningEffort: 'high' }).thinking).toEqual({ type: 'enabled' })
    expect(withOptions({ reasoningEffort: 'none' }).thinking).toEqual({ type: 'disabled' })
    expect(withOptions({ noReasoning: true }, 'command-a-reasoning-08-2025').thinking).toEqual({ type: 'disabled' })
    expect(withOptions({ noReasoning: true })).not.toHaveProperty('thinking')
  })

  test.each<[Partial<ProviderCall>, string]>([
    [{ options: { logprobs: true } }, 'does not support logprobs'],
    [{ options: { reasoningEffort: 'low' } }, 'accepts as reasoning_effort only none and high'],
    [{ options: { tools: [weather], toolChoice: { name: 'other' } } }, 'cannot apply tool_choice without the tool'],
    [{ options: { toolChoice: 'required' } }, 'cannot apply tool_choice without the tool'],
    [
      { options: { tools: [{ ...weather, native: { origin: 'anthropic', definition: { type: 'bash_20250124' } } }] } },
      'does not support tools of type bash_20250124',
    ],
    [
      { messages: [{ role: 'user', content: [{ type: 'file', mediaType: 'application/pdf', data: 'JVBE' }] }] },
      'does not support files',
    ],
    [
      {
        messages: [
          { role: 'tool', toolCallId: 'a', content: [{ type: 'image', mediaType: 'image/png', data: 'iVBORw0' }] },
        ],
      },
      'accepts only text in tool results',
    ],
  ])('%j is rejected before the call', (call, message) => {
    expect(() => bodyOf(call)).toThrow(`The provider ${message}.`)
  })

  test('the name of the user and thinking are dropped if the API or the model does not have them', () => {
    expect(droppedByCohere({ user: 'u', noReasoning: true }, 'command-a-03-2025')).toEqual(['user', 'thinking'])
    expect(droppedByCohere({ noReasoning: true }, 'command-a-reasoning-08-2025')).toEqual([])
  })
})

describe('streams', () => {
  test('consist of thinking, text and the billed tokens', () => {
    const thinking = { type: 'content-delta', index: 0, delta: { message: { content: { thinking: 'Hm' } } } }
    expect(play(START, thinking, text('Hel'), text('lo'), end('COMPLETE', { usage }))).toMatchObject({
      text: 'Hello',
      reasoning: 'Hm',
      outcome: 'complete',
      usage: counted,
    })
  })

  test('have a plan as text before calls, whose arguments arrive in pieces', () => {
    const call = (index: number, name: string) => ({
      type: 'tool-call-start',
      index,
      delta: { message: { tool_calls: { id: `${name}_1`, type: 'function', function: { name, arguments: '' } } } },
    })
    const piece = (index: number, json: string) => ({
      type: 'tool-call-delta',
      index,
      delta: { message: { tool_calls: { function: { arguments: json } } } },
    })
    const plan = { type: 'tool-plan-delta', delta: { message: { tool_plan: 'I ask.' } } }
    const events = [
      START,
      plan,
      call(0, 'weather'),
      piece(0, '{"city":'),
      piece(0, '"Bonn","at":'),
      piece(0, 'null'),
      piece(0, '}'),
      call(1, 'clock'),
      piece(1, 'null'),
    ]
    expect(play(...events, { type: 'tool-call-end', index: 1 }, end('TOOL_CALL', { usage }))).toMatchObject({
      text: 'I ask.',
      toolCalls: [
        { id: 'weather_1', name: 'weather', arguments: '{"city":"Bonn","at":null}' },
        { id: 'clock_1', name: 'clock', arguments: '' },
      ],
      outcome: 'complete',
    })
  })

  test.each([
    ['without their end', [START, text('Hel')], { outcome: 'truncated' }],
    ['without a reason', [START, text('Hel'), { type: 'message-end', delta: {} }], { outcome: 'truncated' }],
    ['that end with ERROR', [START, text('Hel'), end('ERROR')], { reason: 'server_error', outcome: 'error' }],
    ['that end with TIMEOUT', [START, end('TIMEOUT')], { reason: 'server_error' }],
    ['that end with an error', [START, end('ERROR', { error: 'too many tokens' })], { reason: 'context_length' }],
    ['with an error instead of an event', [START, { message: 'rate limit exceeded' }], { reason: 'rate_limit' }],
    ['with a second start', [START, START], { reason: 'server_error' }],
    [
      'with a call that has no name',
      [START, { type: 'tool-call-start', index: 0, delta: {} }],
      { reason: 'server_error' },
    ],
    ['with a piece of an unknown call', [START, { type: 'tool-call-delta', index: 4 }], { reason: 'server_error' }],
    ['with the end of a call but no call', [START, end('TOOL_CALL')], { reason: 'server_error' }],
    ['at the limit', [START, text('Hel'), end('MAX_TOKENS')], { outcome: 'length', text: 'Hel' }],
    ['that are filtered', [START, end('ERROR_TOXIC')], { outcome: 'filtered' }],
  ])('%s', (_, events, expected) => {
    expect(play(...events)).toMatchObject(expected)
  })

  test('are never complete if they break off, wherever they break off', () => {
    const whole = Buffer.concat([START, text('Hel'), text('lo'), end('COMPLETE', { usage })].map(event))
    for (let length = 0; length < whole.length - 2; length++) {
      expect(playback.stream([whole.subarray(0, length)]), `${length} bytes`).toMatchObject({ outcome: 'truncated' })
    }
  })

  test('need no [DONE], and ignore citations and unknown events', () => {
    const citation = { type: 'citation-start', index: 0, delta: { message: { citations: { text: 'Hello' } } } }
    const events = [START, text('Hello'), citation, { type: 'new-thing' }, end('COMPLETE')]
    expect(play(...events)).toMatchObject({ text: 'Hello', outcome: 'complete', usage: null })
  })
})

test.each([
  [{ message: 'no tokens left' }, { reason: 'server_error' }],
  [
    { message: { content: null }, finish_reason: 'COMPLETE' },
    { outcome: 'complete', text: '' },
  ],
  [{ message: { content: [{ type: 'video' }] }, finish_reason: 'COMPLETE' }, { reason: 'server_error' }],
  [{ message: { content: [] } }, { outcome: 'truncated' }],
  [
    { message: {}, finish_reason: 'COMPLETE', usage: { tokens: { input_tokens: 4, output_tokens: 1 } } },
    { usage: { inputTokens: 4 } },
  ],
])('a body %j', (body, expected) => {
  expect(playback.body(body)).toMatchObject(expected)
})

/** Recordings of the real API. They are not part of the project; without the folder nothing is played. */
const evalDir = process.env.AIGW_EVAL_DIR ?? join(import.meta.dirname, '../../../../../../shared/eval')

type Recording = { id: string; api: string; stream: boolean; file: string; bytes: Buffer }

function recordings(): Recording[] {
  const manifest = join(evalDir, 'wire/manifest.jsonl')
  if (!existsSync(manifest)) return []
  return readFileSync(manifest, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Recording)
    .filter(({ api }) => api === 'cohere.chat')
    .map((row) => ({ ...row, bytes: readFileSync(join(evalDir, row.file)) }))
}

/** The answer in the recording, read in the simplest way. The manifest has no expectations for these. */
function expected({ stream, bytes }: Recording): object {
  const events = stream
    ? [...bytes.toString().matchAll(/^data: (\{.*\})$/gm)].map(([, json = '']) => JSON.parse(json))
    : []
  const body = stream ? undefined : JSON.parse(bytes.toString())
  const pieces = stream ? events.map(({ delta }) => delta?.message).filter(Boolean) : [body.message]
  const contents = pieces.flatMap(({ content = [] }) => content)
  const calls = pieces.flatMap(({ tool_calls: found = [] }) => found)
  const last = stream ? events.find(({ type }) => type === 'message-end').delta : body
  return {
    text: pieces.map((piece) => piece.tool_plan ?? '').join('') + contents.map((one) => one.text ?? '').join(''),
    reasoning: contents.map((one) => one.thinking ?? '').join(''),
    toolCalls: calls.map((call) => ({ id: call.id, name: call.function.name, arguments: call.function.arguments })),
    nativeFinishReason: last.finish_reason,
    usage: {
      inputTokens: last.usage.billed_units.input_tokens,
      outputTokens: last.usage.billed_units.output_tokens,
    },
  }
}

test('every recorded answer gives its text, reasoning, tool calls, reason and billed tokens, in any pieces', () => {
  for (const recording of recordings()) {
    const { id, stream, bytes } = recording
    const played = stream ? playback.stream([bytes]) : playback.body(JSON.parse(bytes.toString()))
    expect(played, id).toMatchObject(expected(recording))
    if (stream) expect(playback.stream([...bytes].map((byte) => Buffer.of(byte))), id).toEqual(played)
  }
})
