import { describe, expect, test } from 'vitest'
import { newApiKey } from '../../../../../src/shared/ids.ts'
import { OpenAiChatResponse, OpenAiChunk } from '../../../../../src/shared/wire/openai.ts'
import { addKey, addUser } from '../../../../accounts.ts'
import { describeEachEngine } from '../../../../engines.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../../harness.ts'
import { chatJson, chatStream, replyCut, replyJson, replyRaw } from '../../../../upstream.ts'

const PATH = '/api/external/v1/chat/completions'
const usage = { prompt_tokens: 12, completion_tokens: 7 }
const hello = { model: 'test/any', messages: [{ role: 'user', content: 'Hi' }] }

/** The content of the frames, and whether `[DONE]` closed them. */
function toChunks(text: string) {
  const events = text.split('\n\n').filter((event) => event !== '')
  const done = events.at(-1) === 'data: [DONE]'
  const chunks = (done ? events.slice(0, -1) : events).map((event) => JSON.parse(event.replace(/^data: /, '')))
  return { chunks, done }
}

async function stream(gateway: Gateway, body: object = {}) {
  const { text, headers, status } = await gateway.call('POST', PATH, { ...hello, stream: true, ...body })
  return { status, headers, ...toChunks(text) }
}

describeEachEngine("an answer in OpenAI's words", (engine) => {
  test("complete: only OpenAI's members, and `gateway`; one usage row", async () => {
    const gateway = await startGateway({ engine })
    gateway.upstream.script(replyJson(chatJson('Forty-two.', { usage })))
    const { status, headers, body } = await gateway.call('POST', PATH, hello)
    expect(status).toBe(200)
    expect(body).toEqual({
      id: String(headers['x-request-id']).replace('req-', 'chatcmpl-'),
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'test/any',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Forty-two.', refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: 12,
        completion_tokens: 7,
        total_tokens: 19,
        prompt_tokens_details: { cached_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 0 },
      },
      gateway: {
        served_model: 'test/any',
        requested_model: 'test/any',
        smltp_policy_used: 'internal',
        smltp_policy_source: 'system_default',
        smltp_policy_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
        prompt_shield_policy: null,
        smltp_bundle_id: headers['x-smltp-bundle-id'],
      },
    })
    expect(OpenAiChatResponse.parse(body)).toEqual(body)
    expect(await gateway.usage()).toEqual([
      expect.objectContaining({ route: PATH, outcome: 'complete', streamed: 0, input_tokens: 12, output_tokens: 7 }),
    ])
  })

  test('streamed: `gateway` only on the first chunk, the finish reason on the last, then [DONE]', async () => {
    const gateway = await startGateway({ engine })
    gateway.upstream.script(replyRaw(chatStream(['Forty', '-two'], { usage })))
    const { headers, chunks, done } = await stream(gateway)
    expect(headers['content-type']).toBe('text/event-stream; charset=utf-8')
    expect(done).toBe(true)
    for (const chunk of chunks) expect(OpenAiChunk.parse(chunk)).toEqual(chunk)
    expect(chunks.map(({ choices: [choice] }) => [choice.delta, choice.finish_reason])).toEqual([
      [{ role: 'assistant', content: 'Forty' }, null],
      [{ content: '-two' }, null],
      [{}, 'stop'],
    ])
    expect(chunks.map((chunk) => 'gateway' in chunk)).toEqual([true, false, false])
    expect(chunks.some((chunk) => 'usage' in chunk)).toBe(false)
    expect(await gateway.usage()).toMatchObject([{ route: PATH, outcome: 'complete', streamed: 1, output_tokens: 7 }])
  })

  test('a repeat with its Idempotency-Key gets the same bytes, complete and streamed, and is billed once each', async () => {
    const gateway = await startGateway({ engine })
    for (const [at, streamed] of [false, true].entries()) {
      gateway.upstream.script(
        streamed ? replyRaw(chatStream(['Once'], { usage })) : replyJson(chatJson('Once', { usage })),
      )
      const ask = () =>
        gateway.call('POST', PATH, { ...hello, stream: streamed }, { headers: { 'idempotency-key': `k${at}` } })
      const [first, second] = [await ask(), await ask()]
      expect(second.text).toBe(first.text)
      expect(second.headers).toMatchObject({
        'idempotent-replayed': 'true',
        'content-type': first.headers['content-type'],
      })
    }
    expect(await gateway.usage()).toHaveLength(2)
    expect(gateway.upstream.requests).toHaveLength(2)
  })
})

const shared = sharedGateway()

describe('the content of a stream', () => {
  test('usage on request: null on every chunk, and the counts in an extra chunk without choices', async () => {
    shared.current.upstream.script(replyRaw(chatStream(['a'], { usage })))
    const { chunks, done } = await stream(shared.current, { stream_options: { include_usage: true } })
    expect(chunks.map(({ choices, usage }) => [choices.length, usage?.total_tokens ?? usage])).toEqual([
      [1, null],
      [1, null],
      [0, 19],
    ])
    expect(done).toBe(true)
  })

  test('tool calls in pieces, with the finish reason `tool_calls`', async () => {
    const delta = (tool_calls: object[]) =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: { tool_calls }, finish_reason: null }] })}\n\n`
    shared.current.upstream.script(
      replyRaw(
        delta([{ index: 0, id: 'call_a', type: 'function', function: { name: 'find', arguments: '' } }]) +
          delta([{ index: 0, function: { arguments: '{"q":' } }]) +
          delta([{ index: 0, function: { arguments: '1}' } }]) +
          chatStream([], { finishReason: 'tool_calls', usage }),
      ),
    )
    const tools = [{ type: 'function', function: { name: 'find' } }]
    const { chunks } = await stream(shared.current, { tools })
    expect(chunks.map(({ choices: [choice] }) => choice.delta.tool_calls?.[0])).toEqual([
      { index: 0, id: 'call_a', type: 'function', function: { name: 'find', arguments: '' } },
      { index: 0, function: { arguments: '{"q":' } },
      { index: 0, function: { arguments: '1}' } },
      undefined,
    ])
    expect(chunks.at(-1).choices[0].finish_reason).toBe('tool_calls')
  })

  test('an error instead of an end when its upstream breaks', async () => {
    const whole = chatStream(['Forty', '-two'], { usage })
    shared.current.upstream.script(replyCut(whole, whole.indexOf('-two') + 8, 'close'))
    const { chunks, done } = await stream(shared.current)
    expect(done).toBe(false)
    expect(chunks.at(-1)).toEqual({
      success: false,
      retryable: true,
      request_id: expect.any(String),
      error: { message: expect.stringContaining('incomplete'), type: 'server_error', code: expect.any(String) },
    })
    expect(chunks.at(0).choices[0].delta.content).toBe('Forty')
  })

  test('reasoning as `reasoning_content`, and the length limit', async () => {
    const thought = { choices: [{ index: 0, delta: { reasoning_content: 'Hm.' }, finish_reason: null }] }
    shared.current.upstream.script(
      replyRaw(`data: ${JSON.stringify(thought)}\n\n${chatStream(['So'], { finishReason: 'length', usage })}`),
    )
    const { chunks } = await stream(shared.current)
    expect(chunks.map(({ choices: [choice] }) => choice.delta)).toEqual([
      { role: 'assistant', reasoning_content: 'Hm.' },
      { content: 'So' },
      {},
    ])
    expect(chunks.at(-1).choices[0].finish_reason).toBe('length')
  })
})

test('logprobs as the provider sent them, complete and streamed', async () => {
  const logprobs = { content: [{ token: 'So', logprob: -0.1, bytes: null, top_logprobs: [] }] }
  const choice = { index: 0, finish_reason: 'stop', logprobs }
  const chunk = { choices: [{ ...choice, finish_reason: null, delta: { content: 'So' } }] }
  shared.current.upstream.script(
    replyJson({ choices: [{ ...choice, message: { role: 'assistant', content: 'So' } }] }),
    replyRaw(`data: ${JSON.stringify(chunk)}\n\n${chatStream([])}`),
  )
  const { body } = await shared.current.call('POST', PATH, { ...hello, logprobs: true, top_logprobs: 2 })
  expect(body.choices[0].logprobs).toEqual(logprobs)
  const { chunks } = await stream(shared.current, { logprobs: true })
  expect(chunks[0].choices[0].logprobs).toEqual(logprobs)
})

test('vendor extensions are not forwarded, other fields are, and a chain reports its failover', async () => {
  const { upstream } = shared.current
  upstream.script(replyJson({ error: { message: 'down' } }, { status: 500 }), replyJson(chatJson('Here.', { usage })))
  const { body } = await shared.current.call('POST', PATH, {
    messages: hello.messages,
    models: ['test/one', 'test/two'],
    smltp_policy: 'public',
    redundancy: { timeout_ms: 5000 },
    store: true,
    max_completion_tokens: 9_999,
  })
  expect(body.gateway).toMatchObject({
    served_model: 'test/two',
    requested_model: 'test/one',
    smltp_policy_used: 'public',
    smltp_policy_source: 'request',
    failover: { occurred: true, attempts: [{ status: 'failed' }, { status: 'served' }] },
  })
  expect(upstream.requests.at(-1)?.body).toEqual({
    model: 'two',
    messages: hello.messages,
    max_tokens: 9_999,
    stream: false,
    store: true,
  })
})

test('a request is converted for the provider: images, tool results, stop, sampling', async () => {
  const look = { type: 'function', function: { name: 'look', description: 'Looks', parameters: { type: 'object' } } }
  const url = 'data:image/png;base64,iVBORw0KGgo='
  const calls = [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"q":1}' } }]
  const { status } = await shared.current.call('POST', PATH, {
    model: 'test/any',
    messages: [
      { role: 'developer', content: 'Be brief.' },
      {
        role: 'user',
        name: 'ada',
        content: [
          { type: 'text', text: 'What is it?' },
          { type: 'image_url', image_url: { url, detail: 'high' } },
        ],
      },
      { role: 'assistant', content: null, refusal: null, audio: null, tool_calls: calls },
      { role: 'tool', tool_call_id: 'call_1', content: 'a cat' },
    ],
    tools: [look],
    tool_choice: { type: 'function', function: { name: 'look' } },
    parallel_tool_calls: false,
    stop: ['END', 'STOP'],
    temperature: 0,
    top_p: 0.5,
    seed: 7,
    user: 'u-1',
    service_tier: 'auto',
    metadata: { a: 'b' },
    prediction: { type: 'content', content: 'x' },
    web_search_options: {},
  })
  expect(status).toBe(200)
  expect(shared.current.upstream.requests.at(-1)?.body).toEqual({
    model: 'any',
    messages: [
      { role: 'system', content: 'Be brief.' },
      {
        role: 'user',
        name: 'ada',
        content: [
          { type: 'text', text: 'What is it?' },
          { type: 'image_url', image_url: { url, detail: 'high' } },
        ],
      },
      { role: 'assistant', content: null, tool_calls: calls },
      { role: 'tool', tool_call_id: 'call_1', content: 'a cat' },
    ],
    temperature: 0,
    stream: false,
    tools: [look],
    tool_choice: { type: 'function', function: { name: 'look' } },
    parallel_tool_calls: false,
    stop: ['END', 'STOP'],
    top_p: 0.5,
    seed: 7,
    user: 'u-1',
    service_tier: 'auto',
    metadata: { a: 'b' },
    prediction: { type: 'content', content: 'x' },
    web_search_options: {},
  })
})

describe('errors', () => {
  const post = (body: object | string, options = {}) => shared.current.call('POST', PATH, body, options)

  test.each([
    [{ messages: hello.messages }, 'must provide a model'],
    [{ ...hello, n: 0 }, 'n must be at least 1'],
    [{ ...hello, tools: [{ type: 'web_search' }] }, 'the gateway runs no tools'],
    [{ ...hello, tool_choice: 'always' }, 'tool_choice'],
    [{ ...hello, response_format: { type: 'xml' } }, 'response_format'],
    [{ ...hello, stop: 7 }, 'stop'],
    [{ ...hello, temperature: 'warm' }, 'temperature'],
    [{ ...hello, max_completion_tokens: 0 }, 'tokens'],
    [{ ...hello, stream_options: 'usage' }, 'stream_options'],
    [{ ...hello, messages: [] }, 'messages'],
    [{ ...hello, messages: [{ role: 'system', content: 'alone' }] }, 'in addition to the instructions'],
    [{ ...hello, messages: [{ role: 'robot', content: 'x' }] }, 'role'],
    [
      {
        ...hello,
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'http://example.com/a.png' } }] }],
      },
      'must be an https URL',
    ],
    [{ ...hello, modalities: ['image'] }, 'modalities must be one of text, audio'],
    [{ ...hello, audio: { voice: 'alloy' } }, 'audio.format must be a string'],
    [{ ...hello, functions: [{ name: 7 }] }, 'functions'],
    [{ ...hello, functions: [], tools: [] }, 'Send either `functions`'],
    [{ ...hello, user_id: 'nobody' }, 'user_id'],
    ['{', 'JSON'],
  ])('of the request are 400 in the envelope: %#', async (body, message) => {
    const answer = await post(body)
    expect([answer.status, answer.body]).toEqual([
      400,
      {
        success: false,
        error: { message: expect.stringContaining(message), type: 'invalid_request_error', code: expect.any(String) },
        retryable: false,
        request_id: answer.headers['x-request-id'],
      },
    ])
    expect(shared.current.upstream.requests.filter(({ rawBody }) => rawBody.includes('example.com'))).toEqual([])
  })

  test('of key and rights have the same form', async () => {
    const unknown = await post(hello, { key: newApiKey() })
    expect([unknown.status, unknown.body]).toMatchObject([401, { success: false, error: { code: 'invalid_api_key' } }])
    const { db } = shared.current.app
    const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
    const user = await addUser(db, { tenant_id })
    const { secret } = await addKey(db, user, { settings: { allowedModels: ['local/extract'] } })
    for (const options of [{ model: 'test/any' }, { model: 'local/extract', user_id: user.id }]) {
      const { status, body } = await post({ ...hello, ...options }, { key: secret })
      expect([status, body]).toMatchObject([403, { success: false, error: { code: 'insufficient_permissions' } }])
    }
  })

  test('of an exhausted chain have their code and list the attempts: 502, or 429 if all were rate limits', async () => {
    for (const [upstreamStatus, status] of [
      [500, 502],
      [429, 429],
    ] as const) {
      shared.current.upstream.script(replyJson({ error: { message: 'no' } }, { status: upstreamStatus }))
      const answer = await post(hello)
      expect([answer.status, answer.body]).toEqual([
        status,
        expect.objectContaining({
          error: {
            message: expect.stringContaining('attempt'),
            type: status === 429 ? 'rate_limit_error' : 'server_error',
            code: 'all_models_failed',
          },
          attempts: [expect.objectContaining({ model: 'test/any', status: 'failed' })],
        }),
      ])
    }
  })
})

test('/v1 alone is the same path, and unknown paths stay unknown', async () => {
  for (const path of ['/v1/models', '/api/external/v1/models']) {
    const { status, body } = await shared.current.call('GET', path)
    const created = expect.any(Number)
    expect([status, body]).toEqual([
      200,
      {
        object: 'list',
        data: expect.arrayContaining([
          expect.objectContaining({ id: 'local/extract', object: 'model', created, owned_by: 'local' }),
        ]),
      },
    ])
  }
  expect((await shared.current.call('GET', '/v1/nothing')).status).toBe(404)
  expect((await shared.current.call('GET', '/v1/health')).status).toBe(404)
})
