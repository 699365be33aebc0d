import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { sharedGateway } from '../../../../harness.ts'
import { chatJson, chatStream, replyJson, replySteps } from '../../../../upstream.ts'

const shared = sharedGateway()
const gateway = () => shared.current
const client = (apiKey = gateway().adminKey) => new OpenAI({ apiKey, baseURL: `${gateway().url}/v1`, maxRetries: 0 })

const say = (content: string) => [{ role: 'user' as const, content }]
const WEATHER = {
  type: 'function' as const,
  function: { name: 'weather', description: 'The weather', parameters: { type: 'object', properties: {} } },
}
const callOfWeather = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  choices: [
    {
      index: 0,
      message: {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Ulm"}' } }],
      },
      finish_reason: 'tool_calls',
    },
  ],
  usage: { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 },
}
const counted = { prompt_tokens: 9, completion_tokens: 4 }
const callPiece = (piece: object) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0, ...piece }] }, finish_reason: null }] })}\n\n`
const streamedCall =
  callPiece({ id: 'call_1', type: 'function', function: { name: 'weather', arguments: '' } }) +
  callPiece({ function: { arguments: '{"city":' } }) +
  callPiece({ function: { arguments: '"Ulm"}' } })
const OVERLOADED = 'data: {"error":{"message":"overloaded","type":"server_error"}}\n\n'

describe("OpenAI's own client", () => {
  test("gets an answer, with the gateway's additions only in `gateway`", async () => {
    gateway().upstream.script(replyJson(chatJson('Hello.', { usage: { prompt_tokens: 11, completion_tokens: 5 } })))
    const answer = await client().chat.completions.create({ model: 'test/any', messages: say('Hi') })
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-/),
      object: 'chat.completion',
      model: 'test/any',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 11, completion_tokens: 5, total_tokens: 16 },
      gateway: { served_model: 'test/any', requested_model: 'test/any', smltp_policy_used: 'internal' },
    })
    expect(answer).not.toHaveProperty('success')
  })

  test('gets a stream, with usage only on request', async () => {
    for (const include_usage of [true, false]) {
      gateway().upstream.script(replySteps([chatStream(['Hel', 'lo'])]))
      const stream = await client().chat.completions.create({
        model: 'test/any',
        messages: say('Hi'),
        stream: true,
        stream_options: { include_usage },
      })
      const chunks = []
      for await (const chunk of stream) chunks.push(chunk)
      expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe('Hello')
      expect(chunks.filter((chunk) => chunk.usage).length).toBe(include_usage ? 1 : 0)
      expect(chunks.filter((chunk) => 'gateway' in chunk).length).toBe(1)
      expect(chunks[0]).toHaveProperty('gateway')
    }
  })

  test('gets tool calls, and sends their results', async () => {
    gateway().upstream.script(replyJson(callOfWeather), replyJson(chatJson('It rains.')))
    const first = await client().chat.completions.create({
      model: 'test/any',
      messages: say('Weather in Ulm?'),
      tools: [WEATHER],
      tool_choice: 'auto',
    })
    const message = first.choices[0]?.message
    expect(first.choices[0]?.finish_reason).toBe('tool_calls')
    expect(message?.tool_calls).toEqual([
      { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Ulm"}' } },
    ])
    const second = await client().chat.completions.create({
      model: 'test/any',
      messages: [
        ...say('Weather in Ulm?'),
        message as OpenAI.ChatCompletionMessageParam,
        { role: 'tool', tool_call_id: 'call_1', content: 'rain' },
      ],
      tools: [WEATHER],
    })
    expect(second.choices[0]?.message.content).toBe('It rains.')
    const sent = gateway().upstream.requests.at(-1)?.body as { messages: object[]; tools: object[] }
    expect(sent.tools).toEqual([WEATHER])
    expect(sent.messages.slice(1)).toEqual([
      expect.objectContaining({ role: 'assistant', tool_calls: message?.tool_calls }),
      { role: 'tool', tool_call_id: 'call_1', content: 'rain' },
    ])
  })

  test('combines the pieces of streamed calls', async () => {
    gateway().upstream.script(
      replySteps([streamedCall, chatStream([], { finishReason: 'tool_calls', usage: counted })]),
    )
    const stream = client().chat.completions.stream({ model: 'test/any', messages: say('Weather?'), tools: [WEATHER] })
    const { choices } = await stream.finalChatCompletion()
    expect(choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { tool_calls: [{ id: 'call_1', function: { name: 'weather', arguments: '{"city":"Ulm"}' } }] },
    })
  })

  test('gets structured output: its schema reaches the provider unchanged', async () => {
    const format = {
      type: 'json_schema' as const,
      json_schema: {
        name: 'answer',
        schema: { type: 'object', properties: { ok: { type: 'boolean' } } },
        strict: true,
      },
    }
    gateway().upstream.script(replyJson(chatJson('{"ok":true}')))
    const answer = await client().chat.completions.create({
      model: 'test/any',
      messages: say('ok?'),
      response_format: format,
    })
    expect(JSON.parse(answer.choices[0]?.message.content ?? '')).toEqual({ ok: true })
    expect(gateway().upstream.requests.at(-1)?.body).toMatchObject({ response_format: format })
  })

  test('gets errors that it recognises', async () => {
    const ask = (given: object, key?: string) =>
      client(key)
        .chat.completions.create({ model: 'test/any', messages: say('Hi'), ...given })
        .catch((error: unknown) => error)
    expect(await ask({}, `sk-${'0'.repeat(64)}`)).toBeInstanceOf(OpenAI.AuthenticationError)
    expect(await ask({ model: 'nowhere/x' })).toMatchObject({ status: 400, type: 'invalid_request_error' })
    expect(await ask({ n: 2 })).toMatchObject({ status: 400, type: 'invalid_request_error' })
    gateway().upstream.script(replyJson({ error: { message: 'down' } }, { status: 500 }))
    expect(await ask({})).toMatchObject({ status: 502, code: 'all_models_failed' })
  })

  test('receives the error of a stream that breaks after its first words, with its reason', async () => {
    gateway().upstream.script(replySteps([chatStream(['Hel'], { finishReason: null, done: false }), OVERLOADED]))
    const stream = await client().chat.completions.create({ model: 'test/any', messages: say('Hi'), stream: true })
    let text = ''
    const read = async () => {
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
    }
    await expect(read()).rejects.toMatchObject({
      name: 'Error',
      code: 'server_error',
      message: expect.stringContaining('incomplete'),
    })
    expect(text).toBe('Hel')
  })

  test('lists the models that the key may use', async () => {
    const models = (await client().models.list()).data
    expect(models).toContainEqual(expect.objectContaining({ id: 'local/extract', object: 'model', owned_by: 'local' }))
  })

  test('gets vectors', async () => {
    gateway().upstream.script(
      replyJson({
        object: 'list',
        data: [{ object: 'embedding', index: 0, embedding: [0.5, -0.25] }],
        usage: { prompt_tokens: 2, total_tokens: 2 },
      }),
    )
    // The client requests base64 and decodes it itself.
    const { data, usage } = await client().embeddings.create({ model: 'test/any', input: 'one' })
    expect(data[0]?.embedding).toEqual([0.5, -0.25])
    expect(usage.prompt_tokens).toBe(2)
  })
})

describe("the AI SDK's OpenAI-compatible provider", () => {
  const model = () =>
    createOpenAICompatible({
      name: 'aigw',
      apiKey: gateway().adminKey,
      baseURL: `${gateway().url}/api/external/v1`,
      supportsStructuredOutputs: true,
    })('test/any')

  test('generates and streams text', async () => {
    gateway().upstream.script(replyJson(chatJson('Hello.')), replySteps([chatStream(['Hel', 'lo.'])]))
    expect((await generateText({ model: model(), prompt: 'Hi', maxRetries: 0 })).text).toBe('Hello.')
    const streamed = streamText({ model: model(), prompt: 'Hi', maxRetries: 0 })
    expect(await streamed.text).toBe('Hello.')
    expect(await streamed.finishReason).toBe('stop')
  })

  test('runs the tool of a streamed call, and gets an object for its schema', async () => {
    gateway().upstream.script(
      replySteps([streamedCall, chatStream([], { finishReason: 'tool_calls' })]),
      replySteps([chatStream(['It rains.'])]),
      replyJson(chatJson('{"ok":true}')),
    )
    const weather = tool({
      inputSchema: jsonSchema<{ city: string }>({ type: 'object', properties: { city: { type: 'string' } } }),
      execute: async ({ city }) => `rain in ${city}`,
    })
    const options = { model: model(), prompt: 'Weather?', maxRetries: 0 }
    const streamed = streamText({ ...options, tools: { weather }, stopWhen: stepCountIs(2) })
    expect(await streamed.text).toBe('It rains.')
    expect(gateway().upstream.requests.at(-1)?.rawBody).toContain('rain in Ulm')
    const schema = jsonSchema<{ ok: boolean }>({ type: 'object', properties: { ok: { type: 'boolean' } } })
    expect((await generateText({ ...options, output: Output.object({ schema }) })).output).toEqual({ ok: true })
  })

  test('reports a stream that breaks as an error part, and does not finish it', async () => {
    gateway().upstream.script(replySteps([chatStream(['Hel'], { finishReason: null, done: false }), OVERLOADED]))
    const errors: unknown[] = []
    const streamed = streamText({
      model: model(),
      prompt: 'Hi',
      maxRetries: 0,
      onError: ({ error }) => void errors.push(error),
    })
    const kinds: string[] = []
    for await (const part of streamed.fullStream) kinds.push(part.type)
    expect(kinds).toContain('error')
    expect(errors).toHaveLength(1)
    expect(await streamed.finishReason).toBe('error')
  })

  test('gets a tool call and runs it', async () => {
    gateway().upstream.script(replyJson(callOfWeather))
    const weather = tool({
      description: 'The weather',
      inputSchema: jsonSchema<{ city: string }>({ type: 'object', properties: { city: { type: 'string' } } }),
      execute: async () => 'rain',
    })
    const { toolCalls, toolResults } = await generateText({
      model: model(),
      prompt: 'Weather?',
      tools: { weather },
      maxRetries: 0,
    })
    expect(toolCalls).toMatchObject([{ toolName: 'weather', input: { city: 'Ulm' } }])
    expect(toolResults).toMatchObject([{ output: 'rain' }])
  })
})
