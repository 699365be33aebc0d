// Cohere's own API behind the gateway: chats, streams, tools, embeddings, reranking and failures.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sharedGateway } from '../../../harness.ts'
import { replyCut, replyJson, replyRaw, startUpstream, type Upstream } from '../../../upstream.ts'

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => upstream.close())

const shared = sharedGateway(() => ({
  providers: [
    {
      name: 'cohere',
      kind: 'cohere',
      baseUrl: new URL(upstream.url).origin,
      apiKey: 'cohere-upstream-secret',
      headers: {},
      models: undefined,
      prices: { '*': { input: 1, output: 2 } },
    },
  ],
}))

const usage = { billed_units: { input_tokens: 3, output_tokens: 2 }, tokens: { input_tokens: 90, output_tokens: 2 } }
const said = (message: object, more: object = {}) =>
  replyJson({ id: 'a', message: { role: 'assistant', ...message }, finish_reason: 'COMPLETE', usage, ...more })
const hello = said({ content: [{ type: 'text', text: 'Hello from Cohere.' }] })
const line = (data: object) => `event: x\ndata: ${JSON.stringify(data)}\n\n`
const stream = (...texts: string[]) =>
  [
    line({ type: 'message-start', id: 'a', delta: { message: { role: 'assistant' } } }),
    line({ type: 'content-start', index: 0, delta: { message: { content: { type: 'text', text: '' } } } }),
    ...texts.map((text) => line({ type: 'content-delta', index: 0, delta: { message: { content: { text } } } })),
    line({ type: 'content-end', index: 0 }),
    line({ type: 'message-end', delta: { finish_reason: 'COMPLETE', usage } }),
  ].join('')
const ask = (body: object = {}, path = '/v1/chat/completions') =>
  shared.current.call('POST', path, {
    model: 'cohere/command-a-03-2025',
    messages: [{ role: 'user', content: 'Good morning' }],
    ...body,
  })
const sent = () => upstream.requests.at(-1)

test('a chat is one call with the key, and is billed by the tokens that Cohere bills', async () => {
  upstream.script(hello)
  const { status, body } = await ask()
  expect([status, body.choices[0].message.content]).toEqual([200, 'Hello from Cohere.'])
  expect(body.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 2 })
  expect(sent()).toMatchObject({
    path: '/v2/chat',
    headers: { authorization: 'Bearer cohere-upstream-secret' },
    body: { model: 'command-a-03-2025', stream: false, messages: [{ role: 'user', content: 'Good morning' }] },
  })
  expect((await shared.current.usage()).at(-1)).toMatchObject({ input_tokens: 3, output_tokens: 2 })
})

test('a stream ends with [DONE] only after its end', async () => {
  const whole = stream('Hello ', 'from Cohere.')
  upstream.script(replyRaw(whole))
  const { status, text } = await ask({ stream: true })
  expect(status).toBe(200)
  expect(text).toContain('from Cohere.')
  expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true)

  for (const ending of ['reset', 'end'] as const) {
    upstream.script(replyCut(whole, whole.indexOf('content-end'), ending))
    const broken = await ask({ stream: true })
    expect(broken.text).not.toContain('[DONE]')
    expect(broken.text).toContain('"error"')
    expect(broken.text).not.toContain('"finish_reason":"stop"')
  }
})

test('tools are offered, and their results are sent back', async () => {
  const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }]
  const call = { id: 'weather_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Bonn"}' } }
  upstream.script(said({ tool_plan: 'I ask.', tool_calls: [call] }, { finish_reason: 'TOOL_CALL' }), hello)
  const { body } = await ask({ tools, tool_choice: 'required' })
  expect(body.choices[0]).toMatchObject({
    finish_reason: 'tool_calls',
    message: { content: 'I ask.', tool_calls: [call] },
  })
  expect(sent()?.body).toMatchObject({ tool_choice: 'REQUIRED', tools })
  const messages = [
    { role: 'user', content: 'Good morning' },
    body.choices[0].message,
    { role: 'tool', tool_call_id: 'weather_1', content: 'Sun' },
  ]
  expect((await ask({ tools, messages })).status).toBe(200)
  expect(sent()?.body).toMatchObject({
    messages: [{}, { tool_plan: 'I ask.', tool_calls: [call] }, { role: 'tool', content: 'Sun' }],
  })
})

test('what the API does not have is rejected or listed as dropped', async () => {
  const before = upstream.requests.length
  const refused = await ask({ logprobs: true })
  expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('does not support logprobs')])
  expect(upstream.requests).toHaveLength(before)
  upstream.script(hello)
  const { body } = await ask({ user: 'someone', metadata: { a: 'b' } })
  expect(body.gateway.dropped.map(({ field }: { field: string }) => field).toSorted()).toEqual(['metadata', 'user'])
})

test.each([
  [401, { id: 'e', message: 'invalid api token' }, 'auth_failed', 502],
  [404, { message: "model 'command-x' not found" }, 'model_not_found', 502],
  [429, { message: 'You are past the per minute request limit, please wait and try again later.' }, 'rate_limit', 429],
  [429, { message: 'You are using a Trial key, which is limited to 1000 API calls / month.' }, 'quota_exhausted', 502],
  [500, { message: 'internal server error' }, 'server_error', 502],
])('%d %j is %s', async (status, error, reason, answered) => {
  upstream.script(replyJson(error, { status }))
  const { status: got, body } = await ask()
  expect([got, body.attempts[0].reason]).toEqual([answered, reason])
})

test('embeddings and reranking have routes of their own', async () => {
  upstream.script(
    replyJson({
      id: 'e',
      embeddings: {
        float: [
          [0.5, 0.25],
          [1, 2],
        ],
      },
      meta: { billed_units: { input_tokens: 4 } },
    }),
  )
  const embedded = await ask({ model: 'cohere/embed-v4.0', input: ['a', 'b'], dimensions: 2 }, '/v1/embeddings')
  expect(embedded.body.data.map(({ embedding }: { embedding: number[] }) => embedding)).toEqual([
    [0.5, 0.25],
    [1, 2],
  ])
  expect(embedded.body.usage.prompt_tokens).toBe(4)
  expect(sent()).toMatchObject({
    path: '/v2/embed',
    body: { model: 'embed-v4.0', texts: ['a', 'b'], input_type: 'search_document', output_dimension: 2 },
  })

  upstream.script(replyJson({ id: 'r', results: [{ index: 1, relevance_score: 0.9 }] }))
  const question = { model: 'cohere/rerank-v3.5', query: 'Where?', documents: ['Here.', 'There.'], top_n: 1 }
  const ranked = await shared.current.call('POST', '/v1/rerank', question)
  expect(ranked.body.results).toMatchObject([{ index: 1, relevance_score: 0.9 }])
  expect(sent()).toMatchObject({
    path: '/v2/rerank',
    body: { model: 'rerank-v3.5', query: 'Where?', documents: ['Here.', 'There.'], top_n: 1 },
  })

  const many = Array.from({ length: 97 }, () => 'a')
  const refused = await ask({ model: 'cohere/embed-v4.0', input: many }, '/v1/embeddings')
  expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('at most 96 texts')])
})
