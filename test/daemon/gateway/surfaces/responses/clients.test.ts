import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { sharedGateway } from '../../../../harness.ts'
import { chatJson, chatStream, replyJson, replySteps } from '../../../../upstream.ts'

const shared = sharedGateway()
const gateway = () => shared.current
const client = (apiKey = gateway().adminKey) => new OpenAI({ apiKey, baseURL: `${gateway().url}/v1`, maxRetries: 0 })

const counted = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 }
const LOOK: OpenAI.Responses.FunctionTool = {
  type: 'function',
  name: 'look',
  description: 'Looks',
  parameters: { type: 'object', properties: { step: { type: 'integer' } } },
  strict: false,
}
const hello = { model: 'test/any', input: 'Hi' }

const toolCall = (id: string, name: string, args: object) => ({
  id,
  type: 'function',
  function: { name, arguments: JSON.stringify(args) },
})
const callsJson = (...calls: object[]) => ({
  choices: [
    { index: 0, message: { role: 'assistant', content: null, tool_calls: calls }, finish_reason: 'tool_calls' },
  ],
  usage: counted,
})
const callsStream = (...calls: object[]) =>
  calls
    .map((call, index) => {
      const delta = { tool_calls: [{ index, ...call }] }
      return `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`
    })
    .join('') + chatStream([], { finishReason: 'tool_calls', usage: counted })

describe("OpenAI's own client", () => {
  test("gets an answer, with the gateway's additions only in `gateway`", async () => {
    gateway().upstream.script(replyJson(chatJson('Hello.', { usage: { prompt_tokens: 11, completion_tokens: 5 } })))
    const answer = await client().responses.create({ ...hello, instructions: 'Be brief.', max_output_tokens: 900 })
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^resp_/),
      object: 'response',
      status: 'completed',
      model: 'test/any',
      store: false,
      output_text: 'Hello.',
      output: [{ type: 'message', role: 'assistant', status: 'completed' }],
      usage: { input_tokens: 11, output_tokens: 5, total_tokens: 16 },
      gateway: { served_model: 'test/any', requested_model: 'test/any', smltp_policy_used: 'internal' },
    })
    expect(answer).not.toHaveProperty('success')
    expect(gateway().upstream.requests.at(-1)?.body).toMatchObject({
      max_tokens: 900,
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hi' },
      ],
    })
  })

  test('gets a stream', async () => {
    gateway().upstream.script(replySteps([chatStream(['Hel', 'lo'], { usage: counted })]))
    const stream = client().responses.stream(hello)
    let text = ''
    stream.on('response.output_text.delta', ({ delta }) => {
      text += delta
    })
    const answer = await stream.finalResponse()
    expect(text).toBe('Hello')
    expect(answer).toMatchObject({ status: 'completed', output_text: 'Hello', usage: { total_tokens: 13 } })
  })

  test('gets an answer that the token limit cut off as incomplete', async () => {
    gateway().upstream.script(replySteps([chatStream(['Hel'], { finishReason: 'length', usage: counted })]))
    expect(await client().responses.stream(hello).finalResponse()).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output_text: 'Hel',
    })
  })

  test.each([false, true])('runs a loop of ten turns with parallel calls, streamed: %s', async (streamed) => {
    const TURNS = 10
    gateway().upstream.fallback(async (exchange) => {
      const { messages, stream } = exchange.request.body as { messages: { role: string }[]; stream: boolean }
      const turn = messages.filter(({ role }) => role === 'assistant').length
      const calls = ['a', 'b'].map((side) => toolCall(`call_${turn}_${side}`, 'look', { step: turn }))
      const last = turn === TURNS
      if (stream) {
        await replySteps([last ? chatStream(['Done.'], { usage: counted }) : callsStream(...calls)])(exchange)
        return
      }
      await replyJson(last ? chatJson('Done.', { usage: counted }) : callsJson(...calls))(exchange)
    })
    const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: 'Hi' }]
    const ask = () =>
      streamed
        ? client()
            .responses.stream({ model: 'test/any', input, tools: [LOOK] })
            .finalResponse()
        : client().responses.create({ model: 'test/any', input, tools: [LOOK] })
    let answer = await ask()
    for (let turn = 0; answer.output.some(({ type }) => type === 'function_call'); turn++) {
      const calls = answer.output.flatMap((item) => (item.type === 'function_call' ? [item] : []))
      expect(calls.map(({ call_id, arguments: text }) => [call_id, text])).toEqual([
        [`call_${turn}_a`, `{"step":${turn}}`],
        [`call_${turn}_b`, `{"step":${turn}}`],
      ])
      input.push(...(answer.output as OpenAI.Responses.ResponseInputItem[]))
      input.push(
        ...calls.map(({ call_id }) => ({ type: 'function_call_output' as const, call_id, output: `saw ${call_id}` })),
      )
      answer = await ask()
    }
    expect(answer.output_text).toBe('Done.')
    const sent = gateway().upstream.requests.at(-1)?.body as { messages: { role: string; tool_call_id?: string }[] }
    expect(sent.messages).toHaveLength(1 + 3 * TURNS)
    expect(sent.messages.slice(1, 4)).toMatchObject([
      { role: 'assistant', tool_calls: [{ id: 'call_0_a' }, { id: 'call_0_b' }] },
      { role: 'tool', tool_call_id: 'call_0_a', content: 'saw call_0_a' },
      { role: 'tool', tool_call_id: 'call_0_b', content: 'saw call_0_b' },
    ])
  })

  test('gets the call of a custom tool and sends its output', async () => {
    gateway().upstream.script(
      replyJson(callsJson(toolCall('call_1', 'apply_patch', { input: '*** Begin' }))),
      replyJson(chatJson('Patched.')),
    )
    const tools = [{ type: 'custom' as const, name: 'apply_patch', description: 'Patches' }]
    const first = await client().responses.create({ ...hello, tools })
    const [call] = first.output
    expect(call).toMatchObject({ type: 'custom_tool_call', call_id: 'call_1', name: 'apply_patch', input: '*** Begin' })
    const output = { type: 'custom_tool_call_output' as const, call_id: 'call_1', output: 'ok' }
    const input = [{ role: 'user' as const, content: 'Hi' }, call as OpenAI.Responses.ResponseCustomToolCall, output]
    expect((await client().responses.create({ ...hello, input, tools })).output_text).toBe('Patched.')
    expect(gateway().upstream.requests.at(-1)?.body).toMatchObject({
      messages: [
        { role: 'user' },
        { tool_calls: [{ id: 'call_1', function: { name: 'apply_patch', arguments: '{"input":"*** Begin"}' } }] },
        { role: 'tool', tool_call_id: 'call_1', content: 'ok' },
      ],
    })
  })

  test('gets structured output', async () => {
    gateway().upstream.script(replyJson(chatJson('{"ok":true}')))
    const schema = { type: 'object', properties: { ok: { type: 'boolean' } } }
    const format = { type: 'json_schema' as const, name: 'answer', schema, strict: true }
    const answer = await client().responses.parse({ ...hello, text: { format } })
    expect(answer.output_parsed).toEqual({ ok: true })
    expect(gateway().upstream.requests.at(-1)?.body).toMatchObject({
      response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } },
    })
  })

  test('may cancel a stream, which ends the call to the model', async () => {
    gateway().upstream.script(
      replySteps([chatStream(['Hel'], { finishReason: null, done: false })], { ending: 'hang' }),
    )
    const stream = await client().responses.create({ ...hello, stream: true })
    for await (const event of stream) {
      if (event.type !== 'response.output_text.delta') continue
      const asked = gateway().upstream.requests.at(-1)
      stream.controller.abort()
      await asked?.aborted
      break
    }
    expect(gateway().upstream.requests.at(-1)?.isAborted).toBe(true)
  })

  test.each([
    ['reports an error', 'data: {"error":{"message":"overloaded","type":"server_error"}}\n\n'],
    ['just ends', ''],
  ])('a stream whose provider %s after its first words throws an error', async (_, rest) => {
    gateway().upstream.script(replySteps([chatStream(['Hel'], { finishReason: null, done: false }), rest]))
    let text = ''
    const read = async () => {
      for await (const event of await client().responses.create({ ...hello, stream: true }))
        if (event.type === 'response.output_text.delta') text += event.delta
    }
    await expect(read()).rejects.toMatchObject({
      name: 'Error',
      code: 'server_error',
      message: expect.stringContaining('incomplete'),
    })
    expect(text).toBe('Hel')
  })

  test('gets errors that it recognises', async () => {
    const ask = (given: object, key?: string) =>
      client(key)
        .responses.create({ ...hello, ...given })
        .catch((error: unknown) => error)
    expect(await ask({}, `sk-${'0'.repeat(64)}`)).toBeInstanceOf(OpenAI.AuthenticationError)
    expect(await ask({ model: 'nowhere/x' })).toBeInstanceOf(OpenAI.BadRequestError)
    expect(await ask({ previous_response_id: 'resp_1' })).toMatchObject({
      status: 400,
      code: 'previous_response_not_found',
    })
    expect(await ask({ input: undefined })).toMatchObject({ status: 400, message: expect.stringContaining('input') })
    expect(await ask({ background: true })).toMatchObject({ status: 400 })
    gateway().upstream.script(replyJson({ error: { message: 'down' } }, { status: 500 }))
    expect(await ask({})).toMatchObject({ status: 502, code: 'all_models_failed' })
  })
})

test('what had no effect is reported in gateway.dropped', async () => {
  gateway().upstream.script(replyJson(chatJson('Hello.')))
  const tools = [{ type: 'web_search' as const }]
  const answer = await client().responses.create({ ...hello, store: true, truncation: 'auto', tools })
  expect(answer).toMatchObject({ store: false, truncation: 'disabled', tools: [], metadata: {} })
  expect(answer).toMatchObject({
    gateway: {
      dropped: [
        { field: 'truncation', why: 'provider' },
        { field: 'tools[web_search]', why: 'provider' },
        { field: 'store', why: 'operator' },
      ],
    },
  })
  expect(gateway().upstream.requests.at(-1)?.body).not.toHaveProperty('tools')
})

test('a repeated request with an Idempotency-Key gets the same stream, and one bill', async () => {
  const path = '/v1/responses'
  gateway().upstream.script(replySteps([chatStream(['Hello'], { usage: counted })]))
  const asked = gateway().upstream.requests.length
  const headers = { 'idempotency-key': 'responses-once' }
  const post = () => gateway().call('POST', path, { ...hello, stream: true }, { headers, key: gateway().adminKey })
  const [first, second] = [await post(), await post()]
  expect(first.text).toContain('response.completed')
  expect(second.text).toBe(first.text)
  expect(gateway().upstream.requests.length).toBe(asked + 1)
})

const say = { role: 'user', content: 'Hi' }
const call = { type: 'function_call', call_id: '1', name: 'f', arguments: '{}' }
test.each([
  { tools: [{ type: 'function', name: 'f', tools: [null] }] },
  { input: [say, { ...call, content: [null] }] },
  { input: [say, { ...call, output: [null] }] },
  { input: [{ ...say, output: [null] }] },
])('unknown members of any form cause no failure: %j', async (fields) => {
  for (const stream of [false, true]) {
    const usage = { usage: counted }
    gateway().upstream.script(
      stream ? replySteps([chatStream(['Hello'], usage)]) : replyJson(chatJson('Hello.', usage)),
    )
    const answer = await gateway().call('POST', '/v1/responses', { ...hello, ...fields, stream })
    expect([answer.status, answer.text]).toEqual([200, expect.stringContaining('"completed"')])
  }
})

test('a choice that needs a tool of OpenAI is rejected by a provider without it', async () => {
  const tools = [{ type: 'web_search' }]
  const answer = await gateway().call('POST', '/v1/responses', { ...hello, tools, tool_choice: 'required' })
  expect([answer.status, answer.text]).toEqual([
    400,
    expect.stringContaining('does not support tools of type web_search'),
  ])
})
