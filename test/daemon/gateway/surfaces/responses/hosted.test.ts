// Tools that OpenAI defines and mostly runs itself: on their way to a provider that has them, and back.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../../src/daemon/models/config.ts'
import { ResponsesEvent, ResponsesResponse } from '../../../../../src/shared/wire/responses.ts'
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
      { ...plain, name: 'newer', kind: 'openai', api: 'responses' },
      { ...plain, name: 'older', kind: 'openai' },
      { ...plain, name: 'claude', kind: 'anthropic' },
    ] satisfies ProviderConfig[],
    responses: { store: true },
  }
})

const PATH = '/v1/responses'
const SETTINGS = { dailyLimit: null, monthlyLimit: null, rateLimit: { requestsPerMinute: null, requestsPerHour: null } }
const hello = { model: 'newer/gpt-5', input: 'Hi' }
const ask = (body: object) => shared.current.call('POST', PATH, body)
const sent = () => upstream.requests.at(-1)?.body as Record<string, unknown>

const message = {
  ...{ id: 'msg_1', type: 'message', status: 'completed', role: 'assistant' },
  content: [{ type: 'output_text', text: 'Otters swim.', annotations: [] }],
}
const search = {
  ...{ id: 'ws_1', type: 'web_search_call', status: 'completed' },
  action: { type: 'search', query: 'otters' },
}
const ran = {
  ...{ id: 'ci_1', type: 'code_interpreter_call', status: 'completed', code: 'print(1)', container_id: 'cntr_1' },
  outputs: [{ type: 'logs', logs: '1' }],
}
const answer = (...output: object[]) => ({
  ...{ id: 'resp_1', object: 'response', status: 'completed', output },
  usage: { input_tokens: 5, output_tokens: 5, total_tokens: 10 },
})
const older = replyJson(chatJson('Hello.'))
const saidByClaude = replyJson({
  ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', stop_reason: 'end_turn' },
  content: [{ type: 'text', text: 'Hello.' }],
  usage: { input_tokens: 10, output_tokens: 5 },
})
/** The same items with ids of the gateway. */
const shown = (...items: { id: string }[]) =>
  items.map((item) => ({ ...item, id: expect.stringMatching(new RegExp(`^${item.id.split('_')[0]}_[0-9a-f]+_\\d$`)) }))

const TOOLS = [
  { type: 'web_search', search_context_size: 'low' },
  { type: 'file_search', vector_store_ids: ['vs_1'] },
  { type: 'code_interpreter', container: { type: 'auto' } },
  { type: 'mcp', server_label: 'docs', server_url: 'https://mcp.example.com', require_approval: 'never' },
  { type: 'image_generation' },
  { type: 'computer_use_preview', display_width: 800, display_height: 600, environment: 'browser' },
  { type: 'local_shell' },
]

describe('a provider with this API', () => {
  test('gets the tools, the choice and what to include, unchanged', async () => {
    upstream.fallback(replyJson(answer(message)))
    const own = { type: 'function', name: 'look', parameters: { type: 'object' }, strict: true }
    const asked = {
      tools: [...TOOLS, own],
      tool_choice: { type: 'file_search' },
      include: ['file_search_call.results', 'reasoning.encrypted_content'],
    }
    const { status, body } = await ask({ ...hello, ...asked })
    expect([status, body.gateway.dropped, body.tools]).toEqual([200, undefined, asked.tools])
    expect(sent()).toMatchObject({ tools: asked.tools, tool_choice: asked.tool_choice })
    expect(sent().include).toContain('file_search_call.results')
    const allowed = { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'web_search' }] }
    expect((await ask({ ...hello, tools: asked.tools, tool_choice: allowed })).status).toBe(200)
    expect(sent().tools).toEqual(TOOLS.slice(0, 1))
  })

  test('has its steps in the answer', async () => {
    upstream.fallback(replyJson(answer(search, ran, message)))
    const { body } = await ask({ ...hello, tools: TOOLS })
    expect(ResponsesResponse.parse(body)).toEqual(body)
    const [first, second, third] = body.output
    expect([first, second]).toEqual(shown(search, ran))
    expect(third).toMatchObject({ type: 'message', content: [{ text: 'Otters swim.' }] })
  })

  test('has its steps in the stream', async () => {
    const begun = { ...search, status: 'in_progress' }
    upstream.fallback(
      replySteps(
        [
          { type: 'response.output_item.added', output_index: 0, item: begun },
          { type: 'response.web_search_call.searching', output_index: 0, item_id: 'ws_1' },
          { type: 'response.output_item.done', output_index: 0, item: search },
          { type: 'response.output_item.added', output_index: 1, item: { ...message, content: [] } },
          {
            type: 'response.output_text.delta',
            output_index: 1,
            item_id: 'msg_1',
            content_index: 0,
            delta: 'Otters swim.',
          },
          { type: 'response.output_item.done', output_index: 1, item: message },
          { type: 'response.completed', response: answer(search, message) },
        ].map((event) => `data: ${JSON.stringify(event)}\n\n`),
      ),
    )
    const { text } = await ask({ ...hello, tools: TOOLS, stream: true })
    const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, json = '']) => ResponsesEvent.parse(JSON.parse(json)))
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at))
    const items = events.flatMap((event) => ('item' in event ? [[event.type, event.item]] : []))
    const [added] = shown(begun)
    const [done] = shown(search)
    expect(items.slice(0, 2)).toEqual([
      ['response.output_item.added', added],
      ['response.output_item.done', done],
    ])
    expect(events.at(-1)).toMatchObject({ type: 'response.completed', response: { output: [done, {}] } })
  })

  test('gets its steps back in later turns, with approvals and results of the client', async () => {
    upstream.fallback(replyJson(answer(search, ran, message)))
    const { body: first } = await ask({ ...hello, tools: TOOLS, store: false })
    const later = [
      { type: 'mcp_approval_request', id: 'mcpr_1', arguments: '{}', name: 'look', server_label: 'docs' },
      { type: 'mcp_approval_response', approval_request_id: 'mcpr_1', approve: true },
      { type: 'computer_call', id: 'cu_1', call_id: 'c1', action: { type: 'screenshot' }, pending_safety_checks: [] },
      {
        ...{ type: 'computer_call_output', call_id: 'c1' },
        output: { type: 'computer_screenshot', image_url: 'data:image/png;base64,iVBORw0KGgo=' },
      },
    ]
    const input = [{ role: 'user', content: 'Hi' }, ...first.output, ...later, { role: 'user', content: 'And?' }]
    const { status, body } = await ask({ ...hello, input, tools: TOOLS })
    expect([status, body.gateway.dropped]).toEqual([200, undefined])
    const { id: _, ...searched } = search
    expect(sent().input).toEqual([
      input[0],
      searched,
      ...shown(ran),
      { role: 'assistant', content: 'Otters swim.' },
      ...later,
      input.at(-1),
    ])
  })

  test('gets stored steps by reference', async () => {
    upstream.fallback(replyJson(answer(search, message)))
    const { body: first } = await ask({ ...hello, tools: TOOLS })
    const reference = { type: 'item_reference', id: first.output[0].id }
    const input = [{ role: 'user', content: 'Hi' }, reference, { role: 'user', content: 'And?' }]
    expect((await ask({ ...hello, input, tools: TOOLS })).status).toBe(200)
    expect(sent().input).toMatchObject([{}, { type: 'web_search_call', action: search.action }, {}])
    await ask({ ...hello, previous_response_id: first.id, tools: TOOLS })
    expect(sent().input).toMatchObject([{}, { type: 'web_search_call' }, { role: 'assistant' }, {}])
  })

  test('keeps its steps from clients of other interfaces', async () => {
    upstream.fallback(replyJson(answer(search, message)))
    const { status, body } = await shared.current.call('POST', '/v1/chat/completions', {
      ...{ model: 'newer/gpt-5', messages: [{ role: 'user', content: 'Hi' }] },
      web_search_options: {
        search_context_size: 'low',
        user_location: { type: 'approximate', approximate: { city: 'Rome' } },
      },
    })
    expect([status, body.gateway.dropped, body.choices[0].message]).toMatchObject([
      200,
      undefined,
      { content: 'Otters swim.' },
    ])
    expect(sent().tools).toEqual([
      { type: 'web_search', search_context_size: 'low', user_location: { type: 'approximate', city: 'Rome' } },
    ])
  })
})

describe('a provider without this API', () => {
  test('does not get a web search that the model need not use, and the answer says so', async () => {
    for (const [model, script] of [
      ['older/m', older],
      ['claude/c', saidByClaude],
    ] as const) {
      upstream.fallback(script)
      const input = [{ role: 'user', content: 'Hi' }, search, message, { role: 'user', content: 'And?' }]
      const { status, body } = await ask({
        model,
        input,
        tools: TOOLS.slice(0, 1),
        include: ['web_search_call.results'],
      })
      const fields = ['include[web_search_call.results]', 'input[web_search_call]', 'tools[web_search]']
      expect([model, status, body.tools]).toEqual([model, 200, []])
      expect(body.gateway.dropped).toEqual(fields.map((field) => ({ field, why: 'provider' })))
      expect(sent()).not.toHaveProperty('tools')
      expect(JSON.stringify(sent().messages)).not.toContain('search')
    }
  })

  test('rejects a tool or a step that cannot be left out', async () => {
    upstream.fallback(older)
    for (const [body, word] of [
      ...TOOLS.slice(1).map((tool) => [{ tools: [tool] }, tool.type] as const),
      [{ tools: TOOLS.slice(0, 1), tool_choice: 'required' }, 'web_search'],
      [{ tools: TOOLS.slice(0, 1), tool_choice: { type: 'web_search' } }, 'web_search'],
      [{ tools: [TOOLS[0], { type: 'function', name: 'f' }], tool_choice: { type: 'web_search' } }, 'web_search'],
      [{ input: [{ role: 'user', content: 'Hi' }, ran] }, 'code_interpreter_call'],
    ] as const) {
      const { status, body: refused } = await ask({ ...hello, model: 'older/m', ...body })
      expect([body, status, refused.error?.message]).toEqual([body, 400, expect.stringContaining(word)])
    }
  })

  test('rejects the search of chat completions', async () => {
    upstream.fallback(saidByClaude)
    const { status, body } = await shared.current.call('POST', '/v1/chat/completions', {
      ...{ model: 'claude/c', messages: [{ role: 'user', content: 'Hi' }], web_search_options: {} },
    })
    expect([status, body.error.message]).toEqual([400, expect.stringContaining('web_search_options')])
  })
})

test('a policy without server tools rejects them, and leaves out a web search that the model need not use', async () => {
  const { post } = await addGuardedTenant(shared.current, { settings: SETTINGS })
  upstream.fallback(replyJson(answer(message)))
  for (const tool of TOOLS.slice(1, 5)) {
    const { status, text } = await post(PATH, { ...hello, tools: [tool] })
    expect([tool.type, status, text]).toEqual([tool.type, 403, expect.stringContaining(tool.type)])
  }
  expect((await post(PATH, { ...hello, search_parameters: { mode: 'on' } })).status).toBe(403)
  const required = await post(PATH, { ...hello, tools: TOOLS.slice(0, 1), tool_choice: 'required' })
  expect(required.status).toBe(403)
  const { status, body } = await post(PATH, { ...hello, tools: TOOLS.slice(0, 1) })
  expect([status, body.tools, body.gateway.dropped]).toEqual([
    200,
    [],
    [{ field: 'tools[web_search]', why: 'operator' }],
  ])
  expect(sent()).not.toHaveProperty('tools')
  // The client runs these tools.
  for (const tool of [...TOOLS.slice(5), { type: 'shell', environment: { type: 'local' } }]) {
    expect([tool.type, (await post(PATH, { ...hello, tools: [tool] })).status]).toEqual([tool.type, 200])
  }
})

test('the guards inspect the tools, the steps of earlier turns and those of the answer', async () => {
  const address = 'ada.lovelace@analytical.org'
  const { post } = await addGuardedTenant(shared.current, {
    policy: { pii: { enabled: true, action: 'mask' }, serverTools: { allowed: true } },
    settings: SETTINGS,
  })
  const found = { ...ran, outputs: [{ type: 'logs', logs: `Write to ${address}` }] }
  upstream.fallback(replyJson(answer(found, message)))
  const tools = [{ ...TOOLS[3], server_description: `Write to ${address}` }]
  const { status, body } = await post(PATH, { ...hello, input: [{ role: 'user', content: 'Hi' }, found], tools })
  expect(status).toBe(200)
  expect(JSON.stringify(body.output).match(/Write to \*/g)).toHaveLength(1)
  expect(JSON.stringify(sent()).match(/Write to \*/g)).toHaveLength(2)
  expect(JSON.stringify([body.output, sent()])).not.toContain('lovelace')
})

test('the guards leave pictures in steps as they are', async () => {
  const { post } = await addGuardedTenant(shared.current, {
    policy: { pii: { enabled: true, action: 'mask' }, dlp: { enabled: true, action: 'mask' } },
    settings: SETTINGS,
  })
  // A guard would recognise this as a key of a cloud account.
  const data = `iVBORw0KGgo/${'AKIA'}IOSFODNN7${'ABCDEFG'}/aaaa`
  const input = [
    { role: 'user', content: 'Hi' },
    { type: 'image_generation_call', id: 'ig_1', status: 'completed', result: data },
    { type: 'computer_call', id: 'cu_1', call_id: 'c1', action: { type: 'screenshot' } },
    {
      ...{ type: 'computer_call_output', call_id: 'c1' },
      output: { type: 'computer_screenshot', image_url: `data:image/png;base64,${data}` },
    },
  ]
  upstream.fallback(replyJson(answer(message)))
  expect((await post(PATH, { ...hello, input })).status).toBe(200)
  expect(sent().input).toEqual(input)
})

test('a choice must name a tool of the request', async () => {
  const { status, body } = await ask({ ...hello, tools: TOOLS.slice(1, 2), tool_choice: { type: 'web_search' } })
  expect([status, body.error.message]).toEqual([400, expect.stringContaining('"web_search"')])
})
