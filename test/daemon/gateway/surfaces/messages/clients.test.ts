import Anthropic from '@anthropic-ai/sdk'
import { expect, test } from 'vitest'
import { sharedGateway } from '../../../../harness.ts'
import { chatJson, chatStream, replyJson, replySteps } from '../../../../upstream.ts'

const shared = sharedGateway()
const gateway = () => shared.current
const client = (apiKey = gateway().adminKey) => new Anthropic({ apiKey, baseURL: gateway().url, maxRetries: 0 })
const hello = { model: 'test/any', max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hi' }] }

test("Anthropic's own client gets an answer", async () => {
  gateway().upstream.script(replyJson(chatJson('Hello.', { usage: { prompt_tokens: 11, completion_tokens: 5 } })))
  expect(await client().messages.create({ ...hello, system: 'Be brief.' })).toMatchObject({
    type: 'message',
    role: 'assistant',
    model: 'test/any',
    content: [{ type: 'text', text: 'Hello.' }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 11, output_tokens: 5 },
  })
  expect(gateway().upstream.requests.at(-1)?.body).toMatchObject({
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
    ],
  })
})

test('and a stream', async () => {
  gateway().upstream.script(replySteps([chatStream(['Hel', 'lo'])]))
  const message = await client().messages.stream(hello).finalMessage()
  expect(message).toMatchObject({ content: [{ type: 'text', text: 'Hello' }], stop_reason: 'end_turn' })
})

test('and tool calls', async () => {
  gateway().upstream.script(
    replyJson({
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: null,
            tool_calls: [
              { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Ulm"}' } },
            ],
          },
          finish_reason: 'tool_calls',
        },
      ],
      usage: { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 },
    }),
    replyJson(chatJson('It rains.')),
  )
  const tools = [{ name: 'weather', description: 'The weather', input_schema: { type: 'object' as const } }]
  const first = await client().messages.create({ ...hello, tools })
  expect(first).toMatchObject({
    stop_reason: 'tool_use',
    content: [{ type: 'tool_use', id: 'call_1', name: 'weather', input: { city: 'Ulm' } }],
  })
  const second = await client().messages.create({
    ...hello,
    tools,
    messages: [
      ...hello.messages,
      { role: 'assistant', content: first.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'rain' }] },
    ],
  })
  expect(second.content).toMatchObject([{ type: 'text', text: 'It rains.' }])
  expect(gateway().upstream.requests.at(-1)?.body).toMatchObject({
    messages: [{ role: 'user' }, { role: 'assistant' }, { role: 'tool', tool_call_id: 'call_1', content: 'rain' }],
  })
})

test('and errors that it recognises', async () => {
  const ask = (given: object, key?: string) =>
    client(key)
      .messages.create({ ...hello, ...given })
      .catch((error: unknown) => error)
  expect(await ask({}, `sk-${'0'.repeat(64)}`)).toBeInstanceOf(Anthropic.AuthenticationError)
  expect(await ask({ model: 'nowhere/x' })).toBeInstanceOf(Anthropic.BadRequestError)
  gateway().upstream.script(replyJson({ error: { message: 'down' } }, { status: 500 }))
  expect(await ask({})).toMatchObject({ status: 502 })
})

test('a stream with an error after its first words is that error', async () => {
  const overloaded = 'data: {"error":{"message":"overloaded","type":"server_error"}}\n\n'
  gateway().upstream.script(replySteps([chatStream(['Hel'], { finishReason: null, done: false }), overloaded]))
  const stream = client().messages.stream(hello)
  let text = ''
  stream.on('text', (piece) => {
    text += piece
  })
  await expect(stream.finalMessage()).rejects.toMatchObject({
    error: { error: { type: 'api_error', message: expect.stringContaining('incomplete') } },
  })
  expect(text).toBe('Hel')
})

test('streamed tool calls and reasoning are combined into blocks', async () => {
  const delta = (fields: object) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: fields, finish_reason: null }] })}\n\n`
  const piece = (fields: object) => delta({ tool_calls: [{ index: 0, ...fields }] })
  gateway().upstream.script(
    replySteps([
      delta({ reasoning_content: 'Hm.' }),
      piece({ id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":' } }),
      piece({ function: { arguments: '"Ulm"}' } }),
      chatStream([], { finishReason: 'tool_calls' }),
    ]),
  )
  const tools = [{ name: 'weather', input_schema: { type: 'object' as const } }]
  const message = await client()
    .messages.stream({ ...hello, tools })
    .finalMessage()
  expect(message).toMatchObject({
    stop_reason: 'tool_use',
    content: [
      { type: 'thinking', thinking: 'Hm.', signature: expect.stringContaining('aigw.') },
      { type: 'tool_use', id: 'call_1', name: 'weather', input: { city: 'Ulm' } },
    ],
  })
})

test('structured output is requested as the client does, with and without its beta', async () => {
  const format = { type: 'json_schema' as const, schema: { type: 'object', properties: { ok: { type: 'boolean' } } } }
  gateway().upstream.fallback(replyJson(chatJson('{"ok":true}')))
  const asked = () => gateway().upstream.requests.at(-1)?.body
  const expected = { response_format: { type: 'json_schema', json_schema: { schema: format.schema } } }
  expect((await client().messages.create({ ...hello, output_config: { format } })).content).toMatchObject([
    { text: '{"ok":true}' },
  ])
  expect(asked()).toMatchObject(expected)
  await client().beta.messages.create({ ...hello, output_format: format })
  expect(asked()).toMatchObject(expected)
})
