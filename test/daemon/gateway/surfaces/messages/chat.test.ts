import { describe, expect, test } from 'vitest'
import { newApiKey } from '../../../../../src/shared/ids.ts'
import { MessagesEvent, MessagesResponse } from '../../../../../src/shared/wire/messages.ts'
import { describeEachEngine } from '../../../../engines.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../../harness.ts'
import { chatJson, chatStream, replyCut, replyJson, replyRaw } from '../../../../upstream.ts'

const PATH = '/api/external/v1/messages'
const usage = { prompt_tokens: 12, completion_tokens: 7 }
const hello = { model: 'test/any', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] }
const delta = (fields: object) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: fields, finish_reason: null }] })}\n\n`

/** The events of a stream. The name of each event is its type. */
function toEvents(text: string) {
  return text
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => {
      const [, name = '', data = ''] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? []
      const parsed = JSON.parse(data)
      expect(parsed.type).toBe(name)
      return parsed
    })
}

async function stream(gateway: Gateway, body: object = {}) {
  const { text, headers } = await gateway.call('POST', PATH, { ...hello, stream: true, ...body })
  return { headers, events: toEvents(text) }
}

const kinds = (events: { type: string }[]) => events.map(({ type }) => type.replace('content_block', 'block'))

describeEachEngine("an answer in Anthropic's words", (engine) => {
  test("complete: only Anthropic's members, and `gateway`; one usage row", async () => {
    const gateway = await startGateway({ engine })
    const details = { prompt_tokens_details: { cached_tokens: 4 } }
    gateway.upstream.script(replyJson(chatJson('Forty-two.', { usage: { ...usage, ...details } })))
    const { status, headers, body } = await gateway.call('POST', PATH, hello)
    expect([status, body]).toEqual([
      200,
      {
        id: String(headers['x-request-id']).replace('req-', 'msg_'),
        type: 'message',
        role: 'assistant',
        model: 'test/any',
        content: [{ type: 'text', text: 'Forty-two.' }],
        stop_reason: 'end_turn',
        stop_sequence: null,
        usage: { input_tokens: 8, output_tokens: 7, cache_creation_input_tokens: 0, cache_read_input_tokens: 4 },
        gateway: expect.objectContaining({ served_model: 'test/any', requested_model: 'test/any' }),
      },
    ])
    expect(MessagesResponse.parse(body)).toMatchObject({ type: 'message' })
    expect(await gateway.usage()).toEqual([
      expect.objectContaining({ route: PATH, outcome: 'complete', streamed: 0, input_tokens: 12, output_tokens: 7 }),
    ])
  })

  test('streamed: blocks from start to stop, then the stop reason and the usage', async () => {
    const gateway = await startGateway({ engine })
    gateway.upstream.script(replyRaw(chatStream(['Forty', '-two'], { usage })))
    const { headers, events } = await stream(gateway)
    expect(headers['content-type']).toBe('text/event-stream; charset=utf-8')
    for (const event of events) expect(MessagesEvent.safeParse(event).error).toBeUndefined()
    expect(kinds(events)).toEqual([
      'message_start',
      'block_start',
      'block_delta',
      'block_delta',
      'block_stop',
      'message_delta',
      'message_stop',
    ])
    expect(events[0].message).toMatchObject({ content: [], stop_reason: null, gateway: { served_model: 'test/any' } })
    expect(events[5]).toMatchObject({
      delta: { stop_reason: 'end_turn' },
      usage: { input_tokens: 12, output_tokens: 7 },
    })
    expect(await gateway.usage()).toMatchObject([{ route: PATH, outcome: 'complete', streamed: 1, output_tokens: 7 }])
  })

  test('a repeat with its Idempotency-Key gets the same bytes, complete and streamed, and is billed once each', async () => {
    const gateway = await startGateway({ engine })
    for (const streamed of [false, true]) {
      gateway.upstream.script(
        streamed ? replyRaw(chatStream(['Once'], { usage })) : replyJson(chatJson('Once', { usage })),
      )
      const options = { headers: { 'idempotency-key': `k-${streamed}` } }
      const ask = () => gateway.call('POST', PATH, { ...hello, stream: streamed }, options)
      const [first, second] = [await ask(), await ask()]
      expect([second.text, second.headers['idempotent-replayed']]).toEqual([first.text, 'true'])
    }
    expect([(await gateway.usage()).length, gateway.upstream.requests.length]).toEqual([2, 2])
  })
})

const shared = sharedGateway()
const post = (body: object | string, options = {}) => shared.current.call('POST', PATH, body, options)
const sent = () => shared.current.upstream.requests.at(-1)?.body as Record<string, unknown>

describe('a stream', () => {
  test('has a block for each kind of content, never two open at once', async () => {
    const piece = (index: number, text: string, more = {}) =>
      delta({ tool_calls: [{ index, ...more, function: { arguments: text, ...more } }] })
    shared.current.upstream.script(
      replyRaw(
        delta({ reasoning_content: 'Hm.' }) +
          delta({ content: 'Let me ' }) +
          delta({ content: 'look.' }) +
          piece(0, '', { id: 'call_a', name: 'find' }) +
          piece(0, '{"q":') +
          piece(0, '1}') +
          piece(1, '{}', { id: 'call_b', name: 'look' }) +
          chatStream([], { finishReason: 'tool_calls', usage }),
      ),
    )
    const { events } = await stream(shared.current, { tools: [{ name: 'find', input_schema: { type: 'object' } }] })
    const starts = events.filter(({ type }) => type === 'content_block_start')
    expect(starts.map(({ index, content_block: { type } }) => [index, type])).toEqual([
      [0, 'thinking'],
      [1, 'text'],
      [2, 'tool_use'],
      [3, 'tool_use'],
    ])
    expect(starts[2].content_block).toEqual({ type: 'tool_use', id: 'call_a', name: 'find', input: {} })
    let open: number | undefined
    for (const { type, index } of events) {
      if (type === 'content_block_start') expect(open).toBeUndefined()
      if (type === 'content_block_delta' || type === 'content_block_stop') expect(index).toBe(open)
      if (type === 'content_block_start') open = index
      if (type === 'content_block_stop') open = undefined
    }
    expect(events.at(-2).delta.stop_reason).toBe('tool_use')
  })

  test.each([
    ['length', 'max_tokens'],
    ['content_filter', 'refusal'],
    ['stop', 'end_turn'],
  ])('that ended by %s reports %s', async (finishReason, reason) => {
    shared.current.upstream.script(replyRaw(chatStream(['So'], { finishReason, usage })))
    const { events } = await stream(shared.current)
    expect(events.at(-2).delta).toEqual({ stop_reason: reason, stop_sequence: null })
  })

  test('with interleaved calls has each call in one block, the later ones after the first', async () => {
    const piece = (index: number, text: string, more = {}) =>
      delta({ tool_calls: [{ index, ...more, function: { arguments: text, ...more } }] })
    shared.current.upstream.script(
      replyRaw(
        piece(0, '', { id: 'call_a', name: 'find' }) +
          piece(1, '', { id: 'call_b', name: 'look' }) +
          piece(2, '{}', { id: 'call_c', name: 'stop' }) +
          piece(0, '{"q"') +
          piece(1, '{"w":') +
          piece(0, ':1}') +
          piece(1, '2}') +
          chatStream([], { finishReason: 'tool_calls', usage }),
      ),
    )
    const { events } = await stream(shared.current, { tools: [{ name: 'find', input_schema: { type: 'object' } }] })
    const calls: { id: string; json: string }[] = []
    for (const [at, { type, index, content_block: block, delta: said }] of events.slice(1, -2).entries()) {
      if (type === 'content_block_start') calls[index] = { id: block.id, json: '' }
      else if (type === 'content_block_delta') calls.at(-1)!.json += said.partial_json
      expect([at, index]).toEqual([at, calls.length - 1])
    }
    expect(calls).toEqual([
      { id: 'call_a', json: '{"q":1}' },
      { id: 'call_b', json: '{"w":2}' },
      { id: 'call_c', json: '{}' },
    ])
    expect(kinds(events).slice(-3)).toEqual(['block_stop', 'message_delta', 'message_stop'])
    expect(events.at(-2).delta.stop_reason).toBe('tool_use')
  })

  test('that breaks ends with an error event', async () => {
    const whole = chatStream(['Forty', '-two'], { usage })
    shared.current.upstream.script(replyCut(whole, whole.indexOf('-two') + 8, 'close'))
    const { headers, events } = await stream(shared.current)
    expect(events.at(-1)).toEqual({
      type: 'error',
      success: false,
      error: { type: 'api_error', message: expect.stringContaining('incomplete'), code: 'connection_error' },
      retryable: true,
      request_id: headers['x-request-id'],
      reason: 'connection_error',
    })
    expect(kinds(events)).not.toContain('message_stop')
    expect(kinds(events)).not.toContain('message_delta')
  })
})

describe('a request', () => {
  test('is converted for the provider: images, tool results, stop sequences, sampling', async () => {
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }
    const { status } = await post({
      ...hello,
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'What is it?' }, image] },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'find', input: { q: 1 } }] },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: 'found' }] },
            { type: 'text', text: 'And?' },
          ],
        },
      ],
      tools: [
        { name: 'find', description: 'Finds', input_schema: { type: 'object' }, cache_control: { type: 'ephemeral' } },
      ],
      tool_choice: { type: 'any', disable_parallel_tool_use: true },
      stop_sequences: ['END'],
      temperature: 0.3,
      top_p: 0.9,
      metadata: { user_id: 'u-1' },
      service_tier: 'auto',
      context_management: { edits: [] },
    })
    expect(status).toBe(200)
    expect(sent()).toEqual({
      model: 'any',
      messages: [
        { role: 'system', content: 'Be brief.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is it?' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
          ],
        },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'toolu_1', type: 'function', function: { name: 'find', arguments: '{"q":1}' } }],
        },
        { role: 'tool', tool_call_id: 'toolu_1', content: 'found' },
        { role: 'user', content: 'And?' },
      ],
      max_tokens: 100,
      temperature: 0.3,
      top_p: 0.9,
      stop: ['END'],
      stream: false,
      tools: [{ type: 'function', function: { name: 'find', description: 'Finds', parameters: { type: 'object' } } }],
      tool_choice: 'required',
      parallel_tool_calls: false,
      user: 'u-1',
    })
  })

  test.each(['output_config', 'output_format'])('requests structured output with %s', async (name) => {
    const format = { type: 'json_schema', schema: { type: 'object', properties: { ok: { type: 'boolean' } } } }
    await post({ ...hello, [name]: name === 'output_config' ? { format } : format })
    expect(sent()).toMatchObject({
      response_format: { type: 'json_schema', json_schema: { schema: format.schema, strict: true } },
    })
  })

  test('may request any number of tokens, and the beta path', async () => {
    expect((await shared.current.call('POST', '/v1/messages?beta=true', { ...hello, max_tokens: 64_000 })).status).toBe(
      200,
    )
    expect(sent()).toMatchObject({ max_tokens: 64_000 })
  })

  test('may name a chain, which reports its failover', async () => {
    shared.current.upstream.script(replyJson({ error: {} }, { status: 500 }), replyJson(chatJson('Here.', { usage })))
    const { model: _, ...rest } = hello
    const { body } = await post({ ...rest, models: ['test/one', 'test/two'] })
    expect(body.gateway).toMatchObject({ served_model: 'test/two', failover: { occurred: true } })
  })
})

test('that disables thinking is not forwarded to a provider without that option', async () => {
  const { status } = await post({ ...hello, thinking: { type: 'disabled' }, output_config: { effort: 'low' } })
  expect(status).toBe(200)
  expect(sent()).not.toHaveProperty('reasoning_effort')
})

describe('errors', () => {
  test.each([
    [{ ...hello, model: undefined }, 'must provide a model'],
    [{ ...hello, model: 'nowhere/x' }, 'not configured'],
    [{ ...hello, max_tokens: undefined }, 'max_tokens'],
    [{ ...hello, max_tokens: 0 }, 'max_tokens must be at least 1'],
    [{ ...hello, messages: [] }, 'messages must not be empty'],
    [{ ...hello, messages: [{ role: 'tool', content: 'x' }] }, 'role is user, assistant or system'],
    [{ ...hello, messages: [{ role: 'user', content: [{ type: 'document' }] }] }, 'document and search_result'],
    [
      {
        ...hello,
        messages: [
          { role: 'user', content: [{ type: 'image', source: { type: 'url', url: 'http://example.com/a.png' } }] },
        ],
      },
      'https URL',
    ],
    [{ ...hello, tools: [{ name: 'look' }] }, 'each tool must be'],
    [{ ...hello, thinking: { type: 'enabled' } }, 'thinking'],
    [{ ...hello, output_format: { type: 'xml' } }, 'json_schema'],
    [{ ...hello, user_id: 'nobody' }, 'user_id'],
    ['{', 'JSON'],
  ])('of the request are 400 in the envelope: %#', async (body, message) => {
    const asked = shared.current.upstream.requests.length
    const answer = await post(body)
    expect([answer.status, answer.body]).toEqual([
      400,
      {
        type: 'error',
        success: false,
        error: { type: 'invalid_request_error', message: expect.stringContaining(message), code: expect.any(String) },
        retryable: false,
        request_id: answer.headers['x-request-id'],
      },
    ])
    expect(shared.current.upstream.requests).toHaveLength(asked)
  })

  test('of an unknown path below it have the same form', async () => {
    for (const path of [`${PATH}/batches`, '/v1/messages/batches/one']) {
      const { status, body } = await shared.current.call('POST', path, hello)
      expect([status, body]).toEqual([
        404,
        {
          type: 'error',
          success: false,
          error: {
            type: 'not_found_error',
            message: expect.stringContaining('There is no route'),
            code: 'not_found',
          },
          retryable: false,
          request_id: expect.any(String),
        },
      ])
    }
  })

  test('of the key are 401 authentication_error, with either header', async () => {
    for (const headers of [{ 'x-api-key': newApiKey() }, { authorization: `Bearer ${newApiKey()}` }]) {
      const { status, body } = await post(hello, { key: null, headers })
      expect([status, body.type, body.error.type]).toEqual([401, 'error', 'authentication_error'])
    }
  })

  test('a complete answer whose tool call is invalid JSON is a failure, not a call', async () => {
    const calls = [{ id: 'c', type: 'function', function: { name: 'find', arguments: '{"q":' } }]
    shared.current.upstream.script(
      replyJson(chatJson(null, { finishReason: 'tool_calls', usage, message: { tool_calls: calls } })),
    )
    const { status, body } = await post({ ...hello, tools: [{ name: 'find', input_schema: { type: 'object' } }] })
    expect([status, body.error.type]).toEqual([502, 'api_error'])
  })
})
