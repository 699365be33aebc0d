import { expect, test } from 'vitest'
import { toOpenAiInput } from '../../../../../src/daemon/gateway/surfaces/openai/input.ts'
import { OpenAiChatRequest } from '../../../../../src/shared/wire/openai.ts'

const input = (body: object) =>
  toOpenAiInput(
    OpenAiChatRequest.parse({ model: 'deepseek/chat', messages: [{ role: 'user', content: 'Hi' }], ...body }),
  ).input

test('instructions precede everything else in order; messages stay unchanged', () => {
  const { conversation } = input({
    messages: [
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
      {
        role: 'system',
        content: [
          { type: 'text', text: 'Be ' },
          { type: 'text', text: 'kind.' },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'Hello' },
          { type: 'refusal', refusal: '.' },
        ],
      },
    ],
  })
  expect(conversation).toEqual({
    system: 'Be brief.\n\nBe kind.',
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Hello.' },
    ],
  })
})

test('an image is taken from a data: URL', () => {
  const url = 'data:image/PNG;charset=utf-8;base64,iVBORw0KGgo='
  const { conversation } = input({
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What?' },
          { type: 'image_url', image_url: { url, detail: 'low' } },
        ],
      },
    ],
  })
  expect(conversation.messages[0]?.content).toEqual([
    { type: 'text', text: 'What?' },
    { type: 'image', mediaType: 'image/png', data: 'iVBORw0KGgo=', detail: 'low' },
  ])
})

test.each([
  'http://10.0.0.1/a.png',
  'file:///etc/passwd',
  'data:text/html;base64,aaaa',
  'data:image/png,raw',
  'data:image/png;base64,',
  'data:image/png;base64,a b',
])('an image at %s is rejected', (url) => {
  const content = [{ type: 'image_url', image_url: { url } }]
  expect(() => input({ messages: [{ role: 'user', content }] })).toThrow(/data: URL/)
})

test('every option is converted, and a plain chat has none', () => {
  expect(input({})).toMatchObject({ options: undefined, temperature: undefined, maxTokens: undefined, stream: false })
  const schema = { type: 'object' }
  expect(
    input({
      tools: [{ type: 'function', function: { name: 'find', description: 'Finds', parameters: schema, strict: true } }],
      tool_choice: { type: 'function', function: { name: 'find' } },
      parallel_tool_calls: false,
      response_format: { type: 'json_schema', json_schema: { name: 'a', schema, strict: true } },
      stop: 'END',
      top_p: 0.5,
      frequency_penalty: 0.1,
      presence_penalty: -0.1,
      seed: 7,
      logprobs: true,
      top_logprobs: 3,
      user: 'u-1',
      reasoning_effort: 'low',
    }).options,
  ).toEqual({
    tools: [{ name: 'find', description: 'Finds', parameters: schema, strict: true }],
    toolChoice: { name: 'find' },
    parallelToolCalls: false,
    responseFormat: { type: 'json_schema', name: 'a', schema, strict: true },
    stop: ['END'],
    topP: 0.5,
    frequencyPenalty: 0.1,
    presencePenalty: -0.1,
    seed: 7,
    logprobs: true,
    topLogprobs: 3,
    user: 'u-1',
    reasoningEffort: 'low',
  })
})

test('tool calls, results and sealed reasoning are restored; foreign data is omitted', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'find', arguments: '{"q":1}' } }
  const details = [
    { origin: 'anthropic', text: 'Hm.', signature: 'c2ln' },
    { origin: 'google', data: 'c1:c2ln' },
    { type: 'reasoning.text', text: 'of another gateway' },
  ]
  const { conversation } = input({
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: null, tool_calls: [call], reasoning_content: 'Hm.', reasoning_details: details },
      { role: 'tool', tool_call_id: 'c1', content: [{ type: 'text', text: 'found' }] },
    ],
  })
  expect(conversation.messages.slice(1)).toEqual([
    {
      role: 'assistant',
      content: '',
      toolCalls: [{ id: 'c1', name: 'find', arguments: '{"q":1}' }],
      reasoning: [
        { origin: 'anthropic', text: 'Hm.', signature: 'c2ln' },
        { origin: 'google', text: '', data: 'c1:c2ln' },
      ],
    },
    { role: 'tool', toolCallId: 'c1', content: 'found' },
  ])
})

test('plain-text reasoning is attributed to the first provider of the chain', () => {
  const messages = [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: 'Hello', reasoning_content: 'Hm.' },
  ]
  expect(input({ messages }).conversation.messages[1]).toMatchObject({
    reasoning: [{ origin: 'deepseek', text: 'Hm.' }],
  })
})
