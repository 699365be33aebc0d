// Custom tools with grammars: unchanged for models that have them, functions for all others.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../src/daemon/models/config.ts'
import { sharedGateway } from '../../../harness.ts'
import { chatJson, replyJson, replySteps, startUpstream, type Upstream } from '../../../upstream.ts'
import { addGuardedTenant } from '../chat/guarded-tenant.ts'

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => upstream.close())

const shared = sharedGateway(() => {
  const plain = { baseUrl: upstream.url, apiKey: 'x', headers: {}, models: undefined }
  return {
    providers: [
      // Its name selects the features of OpenAI's own servers.
      { ...plain, name: 'openai', kind: 'openai' },
      { ...plain, name: 'azure', kind: 'openai', api: 'responses' },
      { ...plain, name: 'house', kind: 'openai' },
    ] satisfies ProviderConfig[],
  }
})

const SETTINGS = { dailyLimit: null, monthlyLimit: null, rateLimit: { requestsPerMinute: null, requestsPerHour: null } }
const CHAT = '/v1/chat/completions'
const RESPONSES = '/v1/responses'
const sent = () => upstream.requests.at(-1)?.body as Record<string, unknown>
const post = (path: string, body: object) => shared.current.call('POST', path, body)

const grammar = { syntax: 'lark', definition: 'start: "a"+' }
const INPUT = 'a\n"b" 😀'
const ofChat = {
  type: 'custom',
  custom: { name: 'patch', description: 'Patches', format: { type: 'grammar', grammar } },
}
const ofResponses = { type: 'custom', name: 'patch', description: 'Patches', format: { type: 'grammar', ...grammar } }
const look = { type: 'function', name: 'look', parameters: { type: 'object' }, strict: false }
const chat = {
  messages: [
    { role: 'user', content: 'Hi' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'custom', custom: { name: 'patch', input: INPUT } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: 'done' },
  ],
  tools: [ofChat, { type: 'function', function: { name: 'look', parameters: { type: 'object' } } }],
  tool_choice: { type: 'custom', custom: { name: 'patch' } },
}
const responses = {
  input: [
    { role: 'user', content: 'Hi' },
    { type: 'custom_tool_call', call_id: 'c1', name: 'patch', input: INPUT },
    { type: 'custom_tool_call_output', call_id: 'c1', output: 'done' },
  ],
  tools: [ofResponses, look],
  tool_choice: { type: 'custom', name: 'patch' },
}
const called = { id: 'c2', type: 'custom', custom: { name: 'patch', input: INPUT } }
const callItem = {
  id: 'ctc_1',
  type: 'custom_tool_call',
  status: 'completed',
  call_id: 'c2',
  name: 'patch',
  input: INPUT,
}
const answers = {
  'openai/gpt-5': replyJson(chatJson(null, { message: { tool_calls: [called] }, finishReason: 'tool_calls' })),
  'azure/gpt-5': replyJson({
    ...{ id: 'resp_1', object: 'response', status: 'completed', output: [callItem] },
    usage: { input_tokens: 5, output_tokens: 5, total_tokens: 10 },
  }),
}

describe('a model that has custom tools', () => {
  test.each(['openai/gpt-5', 'azure/gpt-5'] as const)('%s gets them unchanged, and calls them', async (model) => {
    for (const [path, body] of [
      [CHAT, chat],
      [RESPONSES, responses],
    ] as const) {
      upstream.fallback(answers[model])
      const { status, body: answer } = await post(path, { ...body, model })
      expect([path, status, answer.gateway.dropped]).toEqual([path, 200, undefined])
      if (path === CHAT) expect(answer.choices[0].message.tool_calls).toEqual([called])
      else
        expect(answer.output).toMatchObject([{ type: 'custom_tool_call', call_id: 'c2', name: 'patch', input: INPUT }])
      const { messages, tools, tool_choice } = model === 'openai/gpt-5' ? chat : { ...responses, messages: undefined }
      expect(sent()).toMatchObject({ tools, tool_choice, ...(messages && { messages }) })
      if (!messages) expect(sent().input).toEqual(responses.input)
    }
  })

  test.each([CHAT, RESPONSES])('streams their input (%s)', async (path) => {
    const pieces = ['a\n"', 'b" \ud83d', '\ude00']
    const chunk = (call: object, finish_reason: string | null = null) =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: { tool_calls: [call] }, finish_reason }] })}\n\n`
    const frames = [
      chunk({ index: 0, id: 'c2', type: 'custom', custom: { name: 'patch', input: '' } }),
      ...pieces.map((input) => chunk({ index: 0, custom: { input } })),
      chunk({ index: 1, id: 'c3', type: 'custom', custom: { name: 'patch', input: '' } }),
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] })}\n\n`,
      'data: [DONE]\n\n',
    ]
    upstream.fallback(replySteps(frames))
    const body = path === CHAT ? chat : responses
    const { text } = await post(path, { ...body, model: 'openai/gpt-5', stream: true })
    const events = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json = '']) => JSON.parse(json))
    if (path === RESPONSES) {
      const { output } = events.at(-1).response
      expect(output.map((item: { call_id: string; input: string }) => [item.call_id, item.input])).toEqual([
        ['c2', INPUT],
        ['c3', ''],
      ])
      return
    }
    const inputs: string[] = []
    for (const { choices } of events) {
      for (const { index, custom } of choices[0]?.delta.tool_calls ?? [])
        inputs[index] = (inputs[index] ?? '') + custom.input
    }
    expect([inputs, text]).toEqual([[INPUT, ''], expect.stringContaining('[DONE]')])
  })

  test('may choose among allowed ones', async () => {
    upstream.fallback(answers['openai/gpt-5'])
    const allowed = [{ type: 'custom', custom: { name: 'patch' } }]
    const tool_choice = { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: allowed } }
    expect((await post(CHAT, { ...chat, tool_choice, model: 'openai/gpt-5' })).status).toBe(200)
    expect(sent().tool_choice).toEqual(tool_choice)
  })
})

test.each(['house/m', 'openai/gpt-4o'])(
  '%s gets them as functions, and the answer says what is lost',
  async (model) => {
    for (const [path, body, field] of [
      [CHAT, chat, 'tools.custom.format'],
      [RESPONSES, responses, 'tools[].format'],
    ] as const) {
      upstream.fallback(replyJson(chatJson('Hello.')))
      const { body: answer } = await post(path, { ...body, model })
      expect(answer.gateway.dropped).toEqual([{ field, why: 'provider' }])
      const description = 'Patches\n\nWrite `input` in exactly this form (lark):\n\nstart: "a"+'
      expect(sent()).toMatchObject({
        tools: [{ type: 'function', function: { name: 'patch', description } }, {}],
        tool_choice: { type: 'function', function: { name: 'patch' } },
        messages: [{}, { tool_calls: [{ function: { arguments: JSON.stringify({ input: INPUT }) } }] }, {}],
      })
    }
  },
)

test('the guards inspect their descriptions and grammars', async () => {
  const { post: ask } = await addGuardedTenant(shared.current, {
    policy: { pii: { enabled: true, action: 'mask' } },
    settings: SETTINGS,
  })
  const written = 'Write to ada.lovelace@analytical.org'
  const format = { type: 'grammar', grammar: { syntax: 'regex', definition: written } }
  const tools = [{ type: 'custom', custom: { name: 'patch', description: written, format } }]
  for (const model of ['openai/gpt-5', 'house/m']) {
    upstream.fallback(replyJson(chatJson('Hello.')))
    expect((await ask(CHAT, { model, messages: chat.messages.slice(0, 1), tools })).status).toBe(200)
    expect([model, JSON.stringify(sent()).match(/Write to \*/g)]).toEqual([
      model,
      [expect.any(String), expect.any(String)],
    ])
    expect(JSON.stringify(sent())).not.toContain('lovelace')
  }
})
