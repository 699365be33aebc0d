import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../../src/daemon/models/config.ts'
import { sharedGateway } from '../../../../harness.ts'
import { startUpstream, type Upstream } from '../../../../upstream.ts'
import { addGuardedTenant } from '../../chat/guarded-tenant.ts'
import { simulateCache } from './cache-simulator.ts'

const ADDRESS = 'ada.lovelace@analytical.org'
const MODEL = 'claude/claude-sonnet-4-5'
const SETTINGS = { dailyLimit: null, monthlyLimit: null, rateLimit: { requestsPerMinute: null, requestsPerHour: null } }

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => upstream.close())

const shared = sharedGateway(() => ({
  providers: [
    {
      name: 'claude',
      kind: 'anthropic',
      get baseUrl() {
        return upstream.url
      },
      apiKey: 'x',
      headers: { 'anthropic-beta': 'configured-2026-01-01' },
      models: undefined,
    } as ProviderConfig,
  ],
}))

type Params = Anthropic.MessageCreateParamsNonStreaming
const EPHEMERAL = { type: 'ephemeral' } as const
const HOUR = { type: 'ephemeral', ttl: '1h' } as const

const TOOLS: NonNullable<Params['tools']> = [
  { name: 'look', description: `Looks. Ask ${ADDRESS} for help.`, input_schema: { type: 'object' } },
  { name: 'send', description: 'Sends', input_schema: { type: 'object' }, cache_control: HOUR },
]
const SYSTEM: NonNullable<Params['system']> = [
  { type: 'text', text: `You serve ${ADDRESS}. ${'Be brief. '.repeat(20)}` },
  { type: 'text', text: 'Never guess.', cache_control: HOUR },
]

/** Runs an agent for five turns. The last user block of each turn is a cache breakpoint, as agents set it. */
async function runAgent(key: string, stream: boolean): Promise<Anthropic.Usage[]> {
  const client = new Anthropic({ apiKey: key, baseURL: shared.current.url, maxRetries: 0 })
  const messages: Params['messages'] = [
    { role: 'user', content: [{ type: 'text', text: `Write to ${ADDRESS}`, cache_control: EPHEMERAL }] },
  ]
  const usages: Anthropic.Usage[] = []
  for (let turn = 0; turn < 5; turn++) {
    const params: Params = { model: MODEL, max_tokens: 4_000, system: SYSTEM, tools: TOOLS, messages }
    const message = stream ? await client.messages.stream(params).finalMessage() : await client.messages.create(params)
    usages.push(message.usage)
    messages.push({ role: 'assistant', content: message.content })
    const calls = message.content.flatMap((block) => (block.type === 'tool_use' ? block : []))
    // The breakpoint moves on, as in agents.
    for (const { content } of messages) {
      if (typeof content !== 'string')
        for (const block of content) if ('cache_control' in block) delete block.cache_control
    }
    messages.push({
      role: 'user',
      content: [
        ...calls.map(({ id }) => ({
          type: 'tool_result' as const,
          tool_use_id: id,
          content: [{ type: 'text' as const, text: `Result ${turn} for ${ADDRESS}` }],
        })),
        { type: 'text', text: 'Go on.', cache_control: EPHEMERAL },
      ],
    })
  }
  return usages
}

const ANSWERS = [
  [
    { type: 'thinking', thinking: 'I look it up.', signature: 'c2lnbmVk' },
    { type: 'text', text: 'One moment.' },
    { type: 'tool_use', id: 'toolu_1', name: 'look', input: { b: 1, a: { c: [1, 2] } } },
    { type: 'tool_use', id: 'toolu_2', name: 'look', input: {} },
  ],
  [{ type: 'text', text: 'It is done.' }],
]

describe.each([
  ['without masking', {}],
  ['with masking', { pii: { enabled: true, action: 'mask' } }],
  ['with pseudonyms', { pii: { enabled: true, action: 'tokenize' } }],
  ['with a canary in the system prompt', { canary: { enabled: true } }],
])('an agent %s', (_, policy) => {
  test('reads its prefix from the cache from the second turn on', async () => {
    upstream.fallback(simulateCache(ANSWERS))
    const guarded = await addGuardedTenant(shared.current, { policy, settings: SETTINGS })
    const usages = await runAgent(guarded.key, false)
    const [first, ...later] = usages
    expect(first).toMatchObject({ cache_read_input_tokens: 0 })
    expect(first?.cache_creation?.ephemeral_1h_input_tokens).toBeGreaterThan(300)
    expect(first?.cache_creation?.ephemeral_5m_input_tokens).toBeGreaterThan(20)
    let known = first?.cache_creation_input_tokens ?? 0
    for (const usage of later) {
      // Each turn reads all that the earlier turns have written, and writes only its own text.
      expect(usage.cache_read_input_tokens).toBe(known)
      expect(usage.cache_creation).toMatchObject({ ephemeral_1h_input_tokens: 0 })
      known += usage.cache_creation_input_tokens ?? 0
    }
    const bills = await guarded.bills()
    const priced = { input: 3_000, read: 300, minutes: 3_750, hour: 6_000, output: 15_000 }
    for (const [turn, usage] of usages.entries()) {
      const { ephemeral_1h_input_tokens: hour = 0, ephemeral_5m_input_tokens: minutes = 0 } = usage.cache_creation ?? {}
      const { input_tokens: input, output_tokens: output, cache_read_input_tokens: read } = usage
      const nanos =
        input * priced.input +
        (read ?? 0) * priced.read +
        minutes * priced.minutes +
        hour * priced.hour +
        output * priced.output
      expect(bills[turn]).toMatchObject({ cache_write_tokens: hour + minutes, cost_nanos: nanos })
    }
  })
})

describe('a request for Anthropic', () => {
  const ask = async (params: object, headers: Record<string, string> = {}) => {
    upstream.fallback(simulateCache([[{ type: 'text', text: 'Hello.' }]]))
    const answer = await shared.current.call(
      'POST',
      '/v1/messages',
      { model: MODEL, max_tokens: 4_000, messages: [{ role: 'user', content: 'Hi' }], ...params },
      { headers },
    )
    return {
      answer,
      sent: upstream.requests.at(-1) as { body: Record<string, unknown>; headers: Record<string, string> },
    }
  }

  test('arrives with its breakpoints, options and betas, unchanged', async () => {
    const cache_control = { type: 'ephemeral', ttl: '1h' }
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGk=' }, cache_control }
    const params = {
      cache_control,
      system: SYSTEM,
      tools: TOOLS,
      thinking: { type: 'enabled', budget_tokens: 1_234, display: 'omitted' },
      output_config: { effort: 'low', task_budget: { type: 'tokens', total: 20_000 } },
      context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] },
      service_tier: 'standard_only',
      metadata: { user_id: 'u' },
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'Hi', cache_control }, image] },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'look', input: { z: 1 }, cache_control }] },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: 'c1',
              content: [{ type: 'text', text: 'a', cache_control }, image],
              cache_control,
            },
          ],
        },
      ],
    }
    const betas = { 'anthropic-beta': 'context-1m-2025-08-07,configured-2026-01-01', 'anthropic-version': '2024-01-01' }
    const { answer, sent } = await ask(params, betas)
    expect([answer.status, answer.body.gateway?.dropped]).toEqual([200, undefined])
    expect(sent.body).toEqual({ ...params, model: 'claude-sonnet-4-5', max_tokens: 4_000, stream: false })
    expect(sent.headers).toMatchObject({
      'anthropic-beta': 'configured-2026-01-01,context-1m-2025-08-07',
      'anthropic-version': '2024-01-01',
    })
  })

  test('has the effort without thinking, if it asks for that', async () => {
    const { sent } = await ask({ output_config: { effort: 'medium' } })
    expect(sent.body).toMatchObject({ output_config: { effort: 'medium' } })
    expect(sent.body).not.toHaveProperty('thinking')
  })

  test.each([
    [{ cache_control: { type: 'ephemeral', ttl: '2h' } }, {}, 'cache_control.ttl'],
    [{ cache_control: { type: 'ephemeral', note: 'x' } }, {}, 'note'],
    [{}, { 'anthropic-beta': 'a b' }, 'anthropic-beta'],
    [{}, { 'anthropic-version': 'latest' }, 'anthropic-version'],
  ])('is rejected if %j %j is malformed', async (params, headers, named) => {
    const { answer } = await ask(params, headers as Record<string, string>)
    expect([answer.status, answer.body.error.message]).toEqual([400, expect.stringContaining(named)])
  })
})
