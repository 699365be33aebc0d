// Blocks, tools and options that only Anthropic's API has, on their way to the provider and back.
import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { toChatInput } from '../../../../../src/daemon/gateway/surfaces/messages/input.ts'
import type { ProviderConfig } from '../../../../../src/daemon/models/config.ts'
import { MessagesRequest } from '../../../../../src/shared/wire/messages.ts'
import { sharedGateway } from '../../../../harness.ts'
import { chatJson, replyJson, replySteps, startUpstream, type Upstream } from '../../../../upstream.ts'
import { addGuardedTenant } from '../../chat/guarded-tenant.ts'

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => upstream.close())

const ADDRESS = 'ada.lovelace@analytical.org'
const shared = sharedGateway(() => ({
  providers: [
    {
      name: 'claude',
      kind: 'anthropic',
      baseUrl: upstream.url,
      apiKey: 'x',
      headers: {},
      models: undefined,
    } satisfies ProviderConfig,
    { ...OPENAI, baseUrl: upstream.url },
  ],
  requestLimits: { anthropicBetas: ['context-1m-2025-08-07'] },
}))
const OPENAI = { name: 'other', kind: 'openai', apiKey: 'x', headers: {}, models: undefined } as const

const SETTINGS = { dailyLimit: null, monthlyLimit: null, rateLimit: { requestsPerMinute: null, requestsPerHour: null } }
const hello = {
  model: 'claude/claude-sonnet-4-5',
  max_tokens: 4_000,
  messages: [{ role: 'user' as const, content: 'Hi' }],
}
const messages = (content: object[]) => ({ ...hello, messages: [{ role: 'user', content }] })

const answer = (content: object[], more: object = {}) =>
  replyJson({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-sonnet-4-5',
    content,
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 10, output_tokens: 5 },
    ...more,
  })
const said = answer([{ type: 'text', text: 'Hello.' }])
const ask = (body: object, headers: Record<string, string> = {}) =>
  shared.current.call('POST', '/v1/messages', body, { headers })
const sent = () => upstream.requests.at(-1) as { body: Record<string, unknown>; headers: Record<string, string> }
const client = (apiKey = shared.current.adminKey) =>
  new Anthropic({ apiKey, baseURL: shared.current.url, maxRetries: 0 })

describe('a request', () => {
  const plain = { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Otters.' } }
  const blocks = [
    { ...plain, title: 'Animals', context: 'A list', citations: { enabled: true } },
    { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'aGk=' } },
    { type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } },
    { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'One.' }] } },
    { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
    { type: 'search_result', source: 'a', title: 'b', content: [{ type: 'text', text: 'c' }] },
  ]

  test('has its documents, search results and images by address, also in tool results', async () => {
    upstream.fallback(said)
    const result = { type: 'tool_result', tool_use_id: 'c1', content: blocks }
    const body = {
      ...hello,
      messages: [
        { role: 'user', content: blocks },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'look', input: {} }] },
        { role: 'user', content: [result] },
      ],
      tools: [{ name: 'look', input_schema: { type: 'object' }, defer_loading: true }],
    }
    expect((await ask(body)).status).toBe(200)
    expect(sent().body).toMatchObject({ messages: body.messages, tools: body.tools })
  })

  test('is rejected if an address is not https, or if it names an unknown block', async () => {
    for (const source of ['http://example.com/a.png', 'file:///etc/passwd']) {
      const { status } = await ask(messages([{ type: 'image', source: { type: 'url', url: source } }]))
      expect(status).toBe(400)
    }
    expect((await ask(messages([{ type: 'Unknown block' }]))).status).toBe(400)
  })

  test('has the masked text of its documents', async () => {
    upstream.fallback(said)
    const { post } = await addGuardedTenant(shared.current, {
      policy: { pii: { enabled: true, action: 'mask' } },
      settings: SETTINGS,
    })
    const data = `Write to ${ADDRESS}`
    const document = { ...plain, source: { ...plain.source, data } }
    const result = { type: 'tool_result', tool_use_id: 'c', content: [document] }
    expect((await post('/v1/messages', messages([document, result]))).status).toBe(200)
    expect(JSON.stringify(sent().body)).not.toContain('lovelace')
    expect(JSON.stringify(sent().body).match(/Write to \*/g)).toHaveLength(2)
  })

  describe('with instructions inside the conversation, as newer versions of Claude Code send them', () => {
    const mark = { type: 'ephemeral' }
    const conversation = [
      { role: 'user', content: [{ type: 'text', text: 'Hi', cache_control: mark }] },
      { role: 'system', content: [{ type: 'text', text: 'Be brief.', cache_control: mark }] },
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content: 'Go on.' },
    ]

    test('has them at the same place at Anthropic', async () => {
      upstream.fallback(said)
      const { status, body } = await ask({ ...hello, messages: conversation })
      expect([status, body.gateway.dropped]).toEqual([200, undefined])
      const text = (given: string) => ({ type: 'text', text: given })
      expect(sent().body.messages).toEqual([
        { role: 'user', content: [{ ...text('Hi'), cache_control: mark }] },
        { role: 'system', content: [{ ...text('Be brief.'), cache_control: mark }, text('Be kind.')] },
        { role: 'user', content: [text('Go on.')] },
      ])
    })

    test('has them as texts of the user at other providers, and says so', async () => {
      upstream.fallback(replyJson(chatJson('Hello.')))
      const { body } = await ask({ ...hello, model: 'other/x', messages: conversation })
      expect(body.gateway.dropped).toContainEqual({ field: 'messages.role', why: 'provider' })
      const { messages: received } = sent().body as { messages: { role: string; content: string }[] }
      expect(received.map(({ role }) => role)).toEqual(['user', 'user', 'user', 'user'])
      expect(JSON.stringify(received)).toContain('Be brief.')
    })

    test('has them screened by the guards', async () => {
      upstream.fallback(said)
      const policy = { pii: { enabled: true, action: 'mask' } }
      const { post } = await addGuardedTenant(shared.current, { policy, settings: SETTINGS })
      await post('/v1/messages', { ...hello, messages: [...hello.messages, { role: 'system', content: ADDRESS }] })
      const { messages: received } = sent().body as { messages: { role: string }[] }
      expect(received.at(-1)?.role).toBe('system')
      expect(JSON.stringify(received)).not.toContain('lovelace')
    })
  })

  test('to another provider reports what was dropped, and rejects what cannot be left out', async () => {
    upstream.fallback(replyJson(chatJson('Hello.')))
    const cache_control = { type: 'ephemeral' }
    const body = {
      ...hello,
      model: 'other/m',
      system: [{ type: 'text', text: 'a', cache_control }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'b', cache_control }] }],
      thinking: { type: 'enabled', budget_tokens: 2_000 },
      service_tier: 'auto',
      context_management: { edits: [] },
    }
    const { body: answered } = await ask(body, { 'anthropic-beta': 'context-1m-2025-08-07, other-2026-01-01' })
    expect(answered.gateway).toMatchObject({
      changed: [{ field: 'thinking.budget_tokens', asked: 2_000, used: 'medium', why: 'provider' }],
      dropped: [
        { field: 'anthropic-beta: other-2026-01-01', why: 'operator' },
        ...['anthropic-beta', 'service_tier', 'context_management', 'cache_control'].map((field) => ({
          field,
          why: 'provider',
        })),
      ],
    })
    expect(JSON.stringify(sent().body)).not.toContain('cache')
    for (const block of [blocks[0], blocks[5]] as { type: string }[]) {
      const { status, body: refused } = await ask({ ...messages([block]), model: 'other/m' })
      expect([status, refused.error.message]).toEqual([400, expect.stringContaining(block.type)])
    }
    const typed = await ask({ ...hello, model: 'other/m', tools: [{ type: 'bash_20250124', name: 'bash' }] })
    expect([typed.status, typed.body.error.message]).toEqual([400, expect.stringContaining('bash_20250124')])
    await ask({ ...messages([blocks[4] as object]), model: 'other/m' })
    expect(sent().body.messages).toMatchObject([
      { content: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }] },
    ])
  })
})

describe('tools of Anthropic', () => {
  const typed = { type: 'bash_20250124', name: 'bash' }
  const search = { type: 'web_search_20250305', name: 'web_search', max_uses: 2 }

  test('that the client runs are sent unchanged', async () => {
    upstream.fallback(said)
    expect((await ask({ ...hello, tools: [typed] })).status).toBe(200)
    expect(sent().body).toMatchObject({ tools: [typed] })
  })

  test('that the provider runs need a policy that allows them', async () => {
    upstream.fallback(said)
    const policies = [{}, { serverTools: { allowed: true } }, { mode: 'monitor' }]
    const statuses = []
    for (const policy of policies) {
      const { post } = await addGuardedTenant(shared.current, { policy, settings: SETTINGS })
      const { status } = await post('/v1/messages', { ...hello, tools: [search] })
      const servers = { mcp_servers: [{ type: 'url', url: 'https://example.com', name: 'a' }] }
      statuses.push([status, (await post('/v1/messages', { ...hello, ...servers })).status])
    }
    expect(statuses).toEqual([
      [403, 403],
      [200, 200],
      [200, 200],
    ])
  })

  test('need a policy that allows addresses, if the request has some', async () => {
    upstream.fallback(said)
    const { post } = await addGuardedTenant(shared.current, {
      policy: { addresses: { allowed: false } },
      settings: SETTINGS,
    })
    const image = { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }
    expect((await post('/v1/messages', messages([image]))).status).toBe(403)
    expect((await post('/v1/messages', hello)).status).toBe(200)
    for (const nested of [
      documentOf(image),
      resultOf(image),
      resultOf({ ...image, source: { url: image.source.url } }),
    ]) {
      expect((await post('/v1/messages', messages([nested]))).status).toBe(403)
    }
    // The provider does not fetch the page of a search result, or the arguments of a past call.
    const { url } = image.source
    const past = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'a', input: { source: { type: 'url', url } } }
    for (const text of [resultOf({ type: 'web_search_result', url }), past]) {
      expect((await post('/v1/messages', messages([text]))).status).toBe(200)
    }
  })

  test('with an address inside a block need https', async () => {
    upstream.fallback(said)
    for (const url of ['http://example.com/a.png', 'file:///etc/passwd', 7]) {
      const image = { type: 'image', source: { type: 'url', url } }
      for (const nested of [documentOf(image), resultOf(image), resultOf({ note: [image] })]) {
        expect((await ask(messages([nested]))).status).toBe(400)
      }
    }
    const { status, body } = await ask(messages([resultOf({ type: 'url', url: 'http://example.com' })]))
    expect([status, body.error.message]).toEqual([400, expect.stringContaining('an address must be an https URL')])
  })
})

/** Blocks that contain other content. */
const documentOf = (one: object) => ({ type: 'document', source: { type: 'content', content: [one] } })
const resultOf = (one: object) => ({ type: 'web_fetch_tool_result', tool_use_id: 'srvtoolu_1', content: one })

test('a cache lifetime of an hour counts at any depth', () => {
  const cache_control = { type: 'ephemeral' as const, ttl: '1h' as const }
  const text = { type: 'text', text: 'a', cache_control }
  const blocks = [documentOf(text), { type: 'search_result', source: 'a', title: 'b', content: [text] }, resultOf(text)]
  for (const block of blocks) {
    const native = toChatInput(MessagesRequest.parse(messages([block]))).options?.native
    expect(native).toMatchObject({ cachesForAnHour: true, marks: expect.arrayContaining(['cache_control']) })
  }
})

test('betas in the body are restricted like those of the header', async () => {
  upstream.fallback(said)
  const anthropic_beta = ['context-1m-2025-08-07', 'other-2026-01-01']
  const { body } = await ask({ ...hello, anthropic_beta })
  expect(sent().body.anthropic_beta).toEqual(['context-1m-2025-08-07'])
  expect(body.gateway.dropped).toEqual([{ field: 'anthropic_beta: other-2026-01-01', why: 'operator' }])
  await ask({ ...hello, anthropic_beta: 'other-2026-01-01' })
  expect(sent().body).not.toHaveProperty('anthropic_beta')
  for (const malformed of [['a b'], [7], { a: 1 }]) {
    const { status, body: refused } = await ask({ ...hello, anthropic_beta: malformed })
    expect([status, refused.error.message]).toEqual([400, expect.stringContaining('anthropic_beta must be a list')])
  }
})

test('inference_geo needs a policy that allows its region', async () => {
  upstream.fallback(said)
  const residency = { allowedRegions: ['us'], onUnknown: 'allow' }
  const { post } = await addGuardedTenant(shared.current, { policy: { residency }, settings: SETTINGS })
  const statuses = []
  for (const inference_geo of ['us', null, 'global', { a: 1 }]) {
    statuses.push((await post('/v1/messages', { ...hello, inference_geo })).status)
  }
  expect(statuses).toEqual([200, 200, 403, 403])
  expect((await ask({ ...hello, inference_geo: 'global' })).status).toBe(200)
  expect(sent().body).toMatchObject({ inference_geo: 'global' })
})

/** An answer with a web search, as Anthropic sends it. */
const CITATION = { type: 'web_search_result_location', url: 'https://example.com', cited_text: 'Otters swim.' }
const SEARCHED = [
  { type: 'text', text: 'I search.' },
  { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'otters' } },
  {
    type: 'web_search_tool_result',
    tool_use_id: 'srvtoolu_1',
    content: [{ type: 'web_search_result', title: 'Otters', url: 'https://example.com', encrypted_content: 'ZW5j' }],
  },
  { type: 'text', text: 'They swim.', citations: [CITATION] },
  { type: 'text', text: ' They dive.' },
]

function streamOf(content: Record<string, unknown>[], stopReason: string): string {
  const event = (type: string, members: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`
  const usage = { input_tokens: 10, output_tokens: 5 }
  return [
    event('message_start', { message: { id: 'msg_1', type: 'message', role: 'assistant', content: [], usage } }),
    ...content.flatMap((block, index) => {
      const { citations = [], text, input, ...start } = block
      const delta = (one: object) => event('content_block_delta', { index, delta: one })
      return [
        event('content_block_start', {
          index,
          content_block: {
            ...start,
            ...(text !== undefined && { text: '' }),
            ...(input !== undefined && { input: {} }),
          },
        }),
        text === undefined ? '' : delta({ type: 'text_delta', text }),
        input === undefined ? '' : delta({ type: 'input_json_delta', partial_json: JSON.stringify(input) }),
        ...(citations as object[]).map((citation) => delta({ type: 'citations_delta', citation })),
        event('content_block_stop', { index }),
      ]
    }),
    event('message_delta', { delta: { stop_reason: stopReason, stop_sequence: null }, usage: { output_tokens: 5 } }),
    event('message_stop', {}),
  ].join('')
}

describe('an answer', () => {
  const tools = [{ type: 'web_search_20250305' as const, name: 'web_search' as const }]

  test.each([false, true])('has its blocks, citations and its pause (stream: %s)', async (stream) => {
    upstream.fallback(
      stream ? replySteps([streamOf(SEARCHED, 'pause_turn')]) : answer(SEARCHED, { stop_reason: 'pause_turn' }),
    )
    const params = { ...hello, tools }
    const message = stream
      ? await client().messages.stream(params).finalMessage()
      : await client().messages.create(params)
    expect(message).toMatchObject({ content: SEARCHED, stop_reason: 'pause_turn' })
    await client()
      .messages.create({
        ...params,
        messages: [...hello.messages, { role: 'assistant', content: message.content as Anthropic.ContentBlockParam[] }],
      })
      .catch(() => undefined)
    expect(sent().body.messages).toMatchObject([{ role: 'user' }, { role: 'assistant', content: SEARCHED }])
  })

  test.each([false, true])('has the stop sequence that matched (stream: %s)', async (stream) => {
    const body = streamOf([{ type: 'text', text: 'a' }], 'stop_sequence').replace(
      '"stop_sequence":null',
      '"stop_sequence":"END"',
    )
    upstream.fallback(
      stream
        ? replySteps([body])
        : answer([{ type: 'text', text: 'a' }], { stop_reason: 'stop_sequence', stop_sequence: 'END' }),
    )
    const params = { ...hello, stop_sequences: ['STOP', 'END'] }
    const message = stream
      ? await client().messages.stream(params).finalMessage()
      : await client().messages.create(params)
    expect(message).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: 'END' })
  })

  test.each([false, true])('is guarded in its blocks and citations (stream: %s)', async (stream) => {
    const leaking = JSON.parse(JSON.stringify(SEARCHED).replaceAll('tters', `tters ${ADDRESS} `))
    upstream.fallback(stream ? replySteps([streamOf(leaking, 'end_turn')]) : answer(leaking))
    const { key } = await addGuardedTenant(shared.current, {
      policy: { serverTools: { allowed: true }, pii: { enabled: true, action: 'mask' } },
      settings: SETTINGS,
    })
    const params = { ...hello, tools }
    const message = stream
      ? await client(key).messages.stream(params).finalMessage()
      : await client(key).messages.create(params)
    expect(JSON.stringify(message.content)).not.toContain('lovelace')
    expect(message.content.map(({ type }) => type)).toEqual(SEARCHED.map(({ type }) => type))
  })

  test('is billed for all its iterations', async () => {
    const one = { type: 'message', input_tokens: 10, output_tokens: 5, cache_read_input_tokens: 0 }
    const compaction = { ...one, type: 'compaction', input_tokens: 1_000, output_tokens: 50 }
    upstream.fallback(
      answer(
        [
          { type: 'compaction', content: 'A summary.' },
          { type: 'text', text: 'a' },
        ],
        {
          usage: { input_tokens: 10, output_tokens: 5, iterations: [compaction, one] },
        },
      ),
    )
    const { body } = await ask({ ...hello, context_management: { edits: [{ type: 'compact_20260112' }] } })
    expect(body).toMatchObject({
      content: [{ type: 'compaction', content: 'A summary.' }, { type: 'text' }],
      usage: { input_tokens: 1_010, output_tokens: 55 },
    })
  })
})
