// Members, parts and tools that only OpenAI's chat completions have, on their way to the provider and back.
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../../src/daemon/models/config.ts'
import { OpenAiChatResponse, OpenAiChunk } from '../../../../../src/shared/wire/openai.ts'
import { sharedGateway } from '../../../../harness.ts'
import { chatJson, replyJson, replySteps, startUpstream, type Upstream } from '../../../../upstream.ts'
import { addGuardedTenant } from '../../chat/guarded-tenant.ts'

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => upstream.close())

const shared = sharedGateway(() => {
  const plain = { baseUrl: upstream.url, apiKey: 'x', headers: {}, models: undefined }
  return {
    providers: [
      { ...plain, name: 'openai', kind: 'openai' },
      { ...plain, name: 'house', kind: 'openai' },
      { ...plain, name: 'mistral', kind: 'openai' },
      { ...plain, name: 'openrouter', kind: 'openai' },
      { ...plain, name: 'newer', kind: 'openai', api: 'responses' },
      { ...plain, name: 'claude', kind: 'anthropic' },
      { ...plain, name: 'gemini', kind: 'google' },
    ] satisfies ProviderConfig[],
  }
})

const PATH = '/v1/chat/completions'
const SETTINGS = { dailyLimit: null, monthlyLimit: null, rateLimit: { requestsPerMinute: null, requestsPerHour: null } }
const hello = { model: 'openai/gpt-4o', messages: [{ role: 'user' as const, content: 'Hi' }] }
const shows = (...content: object[]) => ({ ...hello, messages: [{ role: 'user', content }] })
const said = replyJson(chatJson('Hello.'))
const saidByClaude = replyJson({
  ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', stop_reason: 'end_turn' },
  content: [{ type: 'text', text: 'Hello.' }],
  usage: { input_tokens: 10, output_tokens: 5 },
})
const ask = (body: object) => shared.current.call('POST', PATH, body)
const sent = () => upstream.requests.at(-1)?.body as Record<string, unknown>
const client = () => new OpenAI({ apiKey: shared.current.adminKey, baseURL: `${shared.current.url}/v1`, maxRetries: 0 })

/** The members of a request that only this API has. */
const MEMBERS = {
  metadata: { a: 'b' },
  store: true,
  service_tier: 'flex',
  prompt_cache_key: 'session-1',
  prompt_cache_retention: '24h',
  safety_identifier: 'user-1',
  logit_bias: { '50256': -100 },
  verbosity: 'low',
  prediction: { type: 'content', content: 'Hello' },
  web_search_options: { search_context_size: 'low' },
  modalities: ['text'],
  a_new_member: { deep: [1] },
}
const { modalities: _, ...SENT } = MEMBERS
const dropped = (fields: readonly string[], why = 'provider') => fields.map((field) => ({ field, why }))

describe("members of OpenAI's API", () => {
  test('are sent unchanged to a provider of the same kind', async () => {
    upstream.fallback(said)
    const { status, body } = await ask({ ...hello, ...MEMBERS, logprobs: null, unset: null })
    expect(status).toBe(200)
    expect(sent()).toEqual({ model: 'gpt-4o', messages: hello.messages, stream: false, ...SENT })
    expect(body.gateway).not.toHaveProperty('dropped')
  })

  test('are dropped for other providers, and the answer lists them', async () => {
    upstream.fallback(saidByClaude)
    // A request without the search that it asks for would get a wrong answer.
    const { web_search_options: __, ...members } = MEMBERS
    const { web_search_options: ___, ...lost } = SENT
    const { status, body } = await ask({ ...hello, ...members, model: 'claude/claude-sonnet-4-5' })
    expect([status, body.gateway.dropped]).toEqual([200, expect.arrayContaining(dropped(Object.keys(lost)))])
    expect(Object.keys(sent())).toEqual(expect.not.arrayContaining(Object.keys(SENT)))
  })

  test('are dropped for a server that rejects them', async () => {
    upstream.fallback(said)
    const named = { ...hello, messages: [{ role: 'user', name: 'ada', content: 'Hi' }] }
    const { body } = await ask({ ...named, model: 'mistral/small', store: false, safe_prompt: true })
    expect(body.gateway.dropped).toEqual(dropped(['store', 'messages.name']))
    expect(sent()).toEqual({ model: 'small', messages: hello.messages, stream: false, safe_prompt: true })
  })

  test('that both APIs have reach a provider of the Responses API', async () => {
    upstream.fallback(replyJson(newerAnswer))
    const { status, body } = await ask({ ...hello, ...MEMBERS, model: 'newer/gpt-5' })
    expect(status).toBe(200)
    const { metadata, service_tier, prompt_cache_key, prompt_cache_retention, safety_identifier } = MEMBERS
    expect(sent()).toMatchObject({
      metadata,
      service_tier,
      prompt_cache_key,
      prompt_cache_retention,
      safety_identifier,
    })
    expect(sent()).toMatchObject({ text: { verbosity: 'low' }, store: false })
    const lost = ['store', 'logit_bias', 'prediction', 'a_new_member']
    expect(body.gateway.dropped).toEqual(dropped(lost))
  })

  test('that store the answer are not sent under a policy that forbids training', async () => {
    upstream.fallback(said)
    const { post } = await addGuardedTenant(shared.current, {
      policy: { privacyHeaders: { noTraining: true } },
      settings: SETTINGS,
    })
    for (const [model, store] of [
      ['openai/gpt-4o', false],
      ['house/m', undefined],
    ]) {
      const { body } = await post(PATH, { ...hello, model, store: true })
      expect(body.gateway.dropped).toEqual(dropped(['store'], 'operator'))
      expect(sent().store).toBe(store)
    }
    // The provider receives one value for each name.
    await post(PATH, { ...hello, model: 'openrouter/m', provider: { data_collection: 'allow' } })
    expect(
      upstream.requests
        .at(-1)
        ?.rawBody.toString()
        .match(/data_collection/g),
    ).toHaveLength(1)
    expect(sent().provider).toEqual({ data_collection: 'deny' })
  })

  test('that name a person are not sent if a rule may change the request', async () => {
    upstream.fallback(said)
    const { post } = await addGuardedTenant(shared.current, {
      policy: { pii: { enabled: true, action: 'mask' } },
      settings: SETTINGS,
    })
    const messages = [{ role: 'user', name: 'ada.lovelace@analytical.org', content: 'Hi' }]
    const prediction = { type: 'content', content: 'Write to ada.lovelace@analytical.org' }
    const { status } = await post(PATH, { ...hello, messages, prediction, safety_identifier: 'user-1', user: 'user-1' })
    expect(status).toBe(200)
    const masked = { type: 'content', content: expect.stringMatching(/^Write to \*/) }
    expect(sent()).toEqual({ model: 'gpt-4o', messages: hello.messages, stream: false, prediction: masked })
  })

  test('that let the provider search need a policy that allows server tools', async () => {
    upstream.fallback(said)
    const { post } = await addGuardedTenant(shared.current, { settings: SETTINGS })
    for (const name of ['web_search_options', 'plugins']) {
      expect((await post(PATH, { ...hello, [name]: {} })).status).toBe(403)
    }
    expect((await post(PATH, { ...hello, enable_search: false, plugins: [] })).status).toBe(200)
    expect((await ask({ ...hello, web_search_options: {} })).status).toBe(200)
  })

  test('never replace what the gateway sets', async () => {
    upstream.fallback(said)
    await ask({ ...hello, model: 'openrouter/m', reasoning: { effort: 'high' }, reasoning_effort: 'low' })
    expect(sent().reasoning).toEqual({ effort: 'low' })
    await ask({ ...hello, model: 'openrouter/m', reasoning: { max_tokens: 500 } })
    expect(sent().reasoning).toEqual({ max_tokens: 500 })
    await ask({ ...hello, ['__proto__']: 1, stream_options: { include_obfuscation: true } })
    expect(sent()).toEqual({ model: 'gpt-4o', messages: hello.messages, stream: false })
  })

  test('without effect are listed', async () => {
    upstream.fallback(said)
    const messages = [
      { role: 'system', name: 'rules', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }] },
      { role: 'assistant', content: 'Hello.', annotations: [{ type: 'url_citation' }] },
      { role: 'user', content: 'Go on' },
    ]
    const tools = [{ type: 'function', function: { name: 'look', since: 1 }, cache: true }]
    const { body } = await ask({ ...hello, messages, tools })
    const fields = ['tools.cache', 'tools.function.since', 'messages.name', 'messages.content.cache_control']
    expect(body.gateway.dropped).toEqual(dropped([...fields, 'messages.annotations'], 'gateway'))
  })
})

describe('parts of a message', () => {
  const address = 'https://example.com/a.png'
  const image = { type: 'image_url', image_url: { url: address, detail: 'high' } }
  const data = 'data:image/png;base64,iVBORw0KGgo='
  const inline = { type: 'image_url', image_url: { url: data } }
  const pdf = { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' } }
  const audio = { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } }
  const storedFile = { type: 'file', file: { file_id: 'file-1' } }
  const called = {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }],
  }

  test('and names of speakers are sent unchanged to a provider of the same kind', async () => {
    upstream.fallback(said)
    const messages = [
      { role: 'user', name: 'ada', content: [image, inline, pdf, audio, storedFile] },
      { role: 'assistant', name: 'bot', content: 'Yes.' },
      { role: 'user', name: 'bob', content: 'And?' },
    ]
    const { status, body } = await ask({ ...hello, messages })
    expect([status, sent().messages]).toEqual([200, messages])
    expect(body.gateway).not.toHaveProperty('dropped')
  })

  test('are translated for Anthropic: addresses, PDFs and tool results', async () => {
    upstream.fallback(saidByClaude)
    const messages = [
      { role: 'user', name: 'ada', content: [image, pdf] },
      called,
      { role: 'tool', tool_call_id: 'c1', content: [{ type: 'text', text: 'See' }, inline, pdf] },
    ]
    const { status, body } = await ask({ ...hello, model: 'claude/claude-sonnet-4-5', messages })
    expect([status, body.gateway.dropped]).toEqual([200, dropped(['image_url.detail', 'messages.name'])])
    const document = {
      type: 'document',
      source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' },
      title: 'a.pdf',
    }
    const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }
    expect(sent().messages).toEqual([
      { role: 'user', content: [{ type: 'image', source: { type: 'url', url: address } }, document] },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'look', input: {} }] },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: 'See' }, picture, document] },
        ],
      },
    ])
  })

  test('are translated for Gemini: PDFs and audio', async () => {
    upstream.fallback(
      replyJson({ candidates: [{ content: { role: 'model', parts: [{ text: 'Hello.' }] }, finishReason: 'STOP' }] }),
    )
    expect((await ask({ ...shows(pdf, audio), model: 'gemini/gemini-2.5-pro' })).status).toBe(200)
    expect(sent().contents).toEqual([
      {
        role: 'user',
        parts: [
          { inlineData: { mimeType: 'application/pdf', data: 'JVBERi0=' } },
          { inlineData: { mimeType: 'audio/wav', data: 'UklGRg==' } },
        ],
      },
    ])
  })

  test('in a tool result follow the results as a user message, because the API accepts only text there', async () => {
    upstream.fallback(said)
    const result = (id: string, ...content: object[]) => ({ role: 'tool', tool_call_id: id, content })
    const calls = { ...called, tool_calls: [...called.tool_calls, { ...called.tool_calls[0], id: 'c2' }] }
    const messages = [
      ...hello.messages,
      calls,
      result('c1', inline),
      result('c2', { type: 'text', text: 'See' }, image),
    ]
    await ask({ ...hello, messages: [...messages, { role: 'user', content: 'Well?' }] })
    expect((sent().messages as unknown[]).slice(2)).toEqual([
      { role: 'tool', tool_call_id: 'c1', content: expect.stringContaining('next user message') },
      { role: 'tool', tool_call_id: 'c2', content: 'See' },
      { role: 'user', content: [inline, image] },
      { role: 'user', content: 'Well?' },
    ])
  })

  test('that a provider cannot read are rejected', async () => {
    upstream.fallback(saidByClaude)
    for (const [model, part, word] of [
      ['claude/c', audio, 'audio/wav'],
      ['claude/c', storedFile, 'file'],
      ['gemini/gemini-2.5-pro', storedFile, 'file'],
      ['local/extract', pdf, 'file'],
    ] as const) {
      const { status, body } = await ask({ ...shows(part), model })
      expect([model, status, body.error.message]).toEqual([model, 400, expect.stringContaining(word)])
    }
    expect((await ask({ ...shows(pdf), model: 'newer/gpt-5' })).status).not.toBe(400)
    expect(sent()).toMatchObject({
      input: [{ content: [{ type: 'input_file', filename: 'a.pdf', file_data: pdf.file.file_data }] }],
    })
  })

  test('are rejected if they are malformed', async () => {
    for (const part of [
      { type: 'image_url', image_url: { url: 'http://example.com/a.png' } },
      { type: 'image_url', image_url: { url: data, detail: 'my secret' } },
      { type: 'file', file: { file_data: 'JVBERi0=' } },
      { type: 'file', file: { filename: 'a.pdf' } },
      { type: 'file', file: { file_id: 'a secret' } },
      { type: 'input_audio', input_audio: { data: 'a secret', format: 'wav' } },
      { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'a secret' } },
      { type: 'video_url', video_url: { url: address } },
    ]) {
      expect([part, (await ask(shows(part))).status]).toEqual([part, 400])
    }
  })

  test('by address need a policy that allows addresses', async () => {
    upstream.fallback(said)
    const { post } = await addGuardedTenant(shared.current, {
      policy: { addresses: { allowed: false } },
      settings: SETTINGS,
    })
    const inResult = [...hello.messages, called, { role: 'tool', tool_call_id: 'c1', content: [image] }]
    expect((await post(PATH, shows(image))).status).toBe(403)
    expect((await post(PATH, { ...hello, messages: inResult })).status).toBe(403)
    expect((await post(PATH, shows(inline))).status).toBe(200)
  })
})

describe('an operator who forbids addresses', () => {
  const gateway = sharedGateway({ requestLimits: { addresses: false } })

  test('has them rejected on every surface', async () => {
    const url = 'https://example.com/a.png'
    const content = [{ type: 'image', source: { type: 'url', url } }]
    for (const [path, body] of [
      [PATH, { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }] }],
      ['/v1/messages', { max_tokens: 5, messages: [{ role: 'user', content }] }],
      ['/v1/responses', { input: [{ role: 'user', content: [{ type: 'input_image', image_url: url }] }] }],
    ] as const) {
      const { status, text } = await gateway.current.call('POST', path, { model: 'test/any', ...body })
      expect([path, status, text]).toEqual([path, 403, expect.stringContaining('limits.addresses')])
    }
    expect(gateway.current.upstream.requests).toEqual([])
  })
})

const callOf = (name: string, text: string) => ({
  choices: [
    {
      index: 0,
      message: {
        role: 'assistant',
        content: null,
        tool_calls: ['c1', 'c2'].map((id) => ({ id, type: 'function', function: { name, arguments: text } })),
      },
      finish_reason: 'tool_calls',
    },
  ],
  usage: { prompt_tokens: 5, completion_tokens: 5 },
})
/** The same calls as a stream in pieces. */
function streamOf(name: string, text: string): string {
  const chunk = (delta: object, finish: string | null = null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
  const call = (index: number, id: string) => [
    chunk({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: text.slice(0, 6) } }] }),
    chunk({ tool_calls: [{ index, function: { arguments: text.slice(6) } }] }),
  ]
  return [...call(0, 'c1'), ...call(1, 'c2'), chunk({}, 'tool_calls'), 'data: [DONE]\n\n'].join('')
}

describe('custom tools', () => {
  const grammar = { type: 'grammar' as const, grammar: { syntax: 'regex' as const, definition: 'a+' } }
  const tools = [{ type: 'custom' as const, custom: { name: 'patch', description: 'Patches', format: grammar } }]
  const calls = ['c1', 'c2'].map((id) => ({ id, type: 'custom' as const, custom: { name: 'patch', input: 'a\n"b"' } }))

  test('are offered as functions, and their calls are sent back as such', async () => {
    upstream.fallback(said)
    const { body } = await ask({
      ...hello,
      messages: [...hello.messages, { role: 'assistant', tool_calls: calls.slice(0, 1) }],
      tools,
      tool_choice: { type: 'custom', custom: { name: 'patch' } },
    })
    expect(body.gateway.dropped).toEqual(dropped(['tools.custom.format']))
    expect(sent()).toMatchObject({
      tools: [{ type: 'function', function: { name: 'patch', description: expect.stringMatching(/^Patches.*a\+$/s) } }],
      tool_choice: { type: 'function', function: { name: 'patch' } },
      messages: [{}, { tool_calls: [{ id: 'c1', function: { name: 'patch', arguments: '{"input":"a\\n\\"b\\""}' } }] }],
    })
  })

  test.each([false, true])('are called with their input (stream: %s)', async (stream) => {
    const text = JSON.stringify({ input: 'a\n"b"' })
    upstream.fallback(stream ? replySteps([streamOf('patch', text)]) : replyJson(callOf('patch', text)))
    const params = { ...hello, tools }
    if (!stream) {
      const answer = await ask(params)
      expect(OpenAiChatResponse.parse(answer.body)).toEqual(answer.body)
      expect(answer.body.choices[0]).toMatchObject({ message: { tool_calls: calls }, finish_reason: 'tool_calls' })
      return
    }
    const called: { id?: string | undefined; input: string }[] = []
    for await (const chunk of await client().chat.completions.create({ ...params, stream: true })) {
      OpenAiChunk.parse(chunk)
      for (const one of (chunk.choices[0]?.delta.tool_calls ?? []) as unknown as CustomDelta[]) {
        const known = called[one.index] ?? { id: one.id, input: '' }
        called[one.index] = { ...known, input: known.input + one.custom.input }
      }
    }
    expect(called).toEqual(calls.map(({ id, custom }) => ({ id, input: custom.input })))
  })
})
type CustomDelta = { index: number; id?: string; custom: { input: string } }

describe('a choice of allowed tools', () => {
  const tools = ['look', 'find'].map((name) => ({ type: 'function', function: { name } }))
  const choice = { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: tools.slice(0, 1) } }

  test('is sent unchanged to OpenAI, which keeps its cache of all tools', async () => {
    upstream.fallback(said)
    expect((await ask({ ...hello, tools, tool_choice: choice })).status).toBe(200)
    expect(sent()).toMatchObject({ tools, tool_choice: choice })
  })

  test('leaves other providers only these tools', async () => {
    upstream.fallback(said)
    await ask({ ...hello, model: 'house/m', tools, tool_choice: choice })
    expect(sent()).toMatchObject({ tools: tools.slice(0, 1), tool_choice: 'required' })
    upstream.fallback(saidByClaude)
    await ask({ ...hello, model: 'claude/c', tools, tool_choice: choice })
    expect(sent()).toMatchObject({ tools: [{ name: 'look' }], tool_choice: { type: 'any' } })
  })

  test('must name tools of the request', async () => {
    const { status, body } = await ask({ ...hello, tools: tools.slice(1), tool_choice: choice })
    expect([status, body.error.message]).toEqual([400, expect.stringContaining('"look"')])
  })
})

describe('functions in the older form', () => {
  const functions = [{ name: 'look', description: 'Looks', parameters: { type: 'object' } }]
  const text = '{"q": 1}'

  test('are converted to tools, with their calls and results', async () => {
    upstream.fallback(said)
    const messages = [
      ...hello.messages,
      { role: 'assistant', content: null, function_call: { name: 'look', arguments: text } },
      { role: 'function', name: 'look', content: 'A cat' },
    ]
    expect((await ask({ ...hello, messages, functions, function_call: { name: 'look' } })).status).toBe(200)
    expect(sent()).toMatchObject({
      tools: [{ type: 'function', function: functions[0] }],
      tool_choice: { type: 'function', function: { name: 'look' } },
      messages: [
        {},
        { tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: text } }] },
        { role: 'tool', tool_call_id: 'call_1', content: 'A cat' },
      ],
    })
  })

  test.each([false, true])('are called one at a time (stream: %s)', async (stream) => {
    upstream.fallback(stream ? replySteps([streamOf('look', text)]) : replyJson(callOf('look', text)))
    const params = { ...hello, functions }
    if (!stream) {
      const answer = await ask(params)
      expect(OpenAiChatResponse.parse(answer.body)).toEqual(answer.body)
      expect(answer.body.choices[0]).toMatchObject({
        message: { function_call: { name: 'look', arguments: text } },
        finish_reason: 'function_call',
      })
      expect(answer.body.choices[0].message).not.toHaveProperty('tool_calls')
      return
    }
    const message = (
      await client()
        .chat.completions.stream({ ...params, stream: true })
        .finalChatCompletion()
    ).choices[0]
    expect(message).toMatchObject({
      message: { function_call: { name: 'look', arguments: text } },
      finish_reason: 'function_call',
    })
  })

  test('are rejected together with tools, and without the call that they answer', async () => {
    for (const [body, word] of [
      [{ ...hello, functions, tools: [] }, 'functions'],
      [
        { ...hello, messages: [...hello.messages, { role: 'function', name: 'look', content: 'A cat' }] },
        'function_call',
      ],
    ] as const) {
      const answer = await ask(body)
      expect([answer.status, answer.body.error.message]).toEqual([400, expect.stringContaining(word)])
    }
  })
})

/** A whole answer of the Responses API. */
const newerAnswer = {
  id: 'resp_1',
  object: 'response',
  status: 'completed',
  output: [
    {
      id: 'msg_1',
      type: 'message',
      status: 'completed',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'Hello.', annotations: [] }],
    },
  ],
  usage: { input_tokens: 5, output_tokens: 5, total_tokens: 10 },
}
