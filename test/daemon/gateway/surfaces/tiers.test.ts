// Tiers of service, speeds and web searches: what the provider reports decides the price.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { PriceConfig, ProviderConfig } from '../../../../src/daemon/models/config.ts'
import { payloadOf } from '../../../../src/daemon/records/evidence/entry-payload.ts'
import { sharedGateway } from '../../../harness.ts'
import { chatJson, replyJson, replySteps, type Script, startUpstream, type Upstream } from '../../../upstream.ts'

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => upstream.close())

/** A token costs 1,000 nano-dollars. */
const own: PriceConfig = { input: 1, output: 1 }
const priced: PriceConfig = {
  ...own,
  tiers: { flex: { input: 0.5, output: 0.5 }, priority: { input: 2, output: 2 }, fast: { input: 6, output: 6 } },
  webSearch: 10,
}

const shared = sharedGateway(() => {
  const plain = { baseUrl: upstream.url, apiKey: 'x', headers: {}, models: undefined }
  const prices = { m: priced, bare: own }
  return {
    providers: [
      { ...plain, name: 'older', kind: 'openai', prices },
      { ...plain, name: 'newer', kind: 'openai', api: 'responses', prices },
      { ...plain, name: 'claude', kind: 'anthropic', prices },
    ] satisfies ProviderConfig[],
  }
})

const older = (service_tier?: string) =>
  replyJson({ ...chatJson('Hello.', { usage: { prompt_tokens: 5, completion_tokens: 5 } }), service_tier })
const olderStream = (service_tier: string) =>
  replySteps([
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'Hello.' } }], service_tier })}\n\n`,
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], service_tier })}\n\n`,
    `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 5 }, service_tier })}\n\n`,
    'data: [DONE]\n\n',
  ])
const searches = ['search', 'open_page', 'search'].map((type, at) => ({
  ...{ id: `ws_${at}`, type: 'web_search_call', status: 'completed', action: { type } },
}))
const newer = replyJson({
  ...{ id: 'resp_1', object: 'response', status: 'completed', service_tier: 'priority' },
  output: [
    ...searches,
    { id: 'msg_1', type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hello.' }] },
  ],
  usage: { input_tokens: 5, output_tokens: 5, total_tokens: 10 },
})
const claude = (usage: object) =>
  replyJson({
    ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', stop_reason: 'end_turn' },
    content: [{ type: 'text', text: 'Hello.' }],
    usage: { input_tokens: 5, output_tokens: 5, ...usage },
  })

const CHAT = '/v1/chat/completions'
const messages = [{ role: 'user', content: 'Hi' }]
const NEWER = { input: 'Hi', messages: undefined, max_tokens: undefined }

/** Returns the price of an answer in nano-dollars, whether it is assumed, and what the receipt says about its usage. */
async function billOf(script: Script, body: { model: string; [member: string]: unknown }, path = CHAT) {
  upstream.fallback(script)
  const { status, text } = await shared.current.call('POST', path, { messages, max_tokens: 100, ...body })
  expect([status, text]).toEqual([200, expect.stringContaining('Hello')])
  const rows = await shared.current.app.db
    .selectFrom('evidence_entries')
    .select(['id', 'created_at', 'tenant_id', 'payload'])
    .orderBy('seq', 'desc')
    .limit(1)
    .execute()
  const { cost, usage } = payloadOf(rows[0] as Parameters<typeof payloadOf>[0]) as unknown as {
    cost: { nanos: number; assumed_price?: true }
    usage: { tier?: string; web_searches?: number }
  }
  return [cost.nanos, cost.assumed_price === true, usage.tier, usage.web_searches]
}

test('the tier that served the answer is billed, not the tier that the request asks for', async () => {
  const asked = { model: 'older/m', service_tier: 'priority' }
  expect(await billOf(older('priority'), asked)).toEqual([20_000, false, 'priority', undefined])
  expect(await billOf(older('default'), asked)).toEqual([10_000, false, undefined, undefined])
  expect(await billOf(older('flex'), { model: 'older/m' })).toEqual([5_000, false, 'flex', undefined])
  expect(await billOf(olderStream('flex'), { model: 'older/m', stream: true })).toEqual([
    5_000,
    false,
    'flex',
    undefined,
  ])
  expect(
    await billOf(claude({ speed: 'fast', service_tier: 'standard' }), { model: 'claude/m' }, '/v1/messages'),
  ).toEqual([60_000, false, 'fast', undefined])
})

test('web searches have a price each', async () => {
  // Two tiers of the token price, and two searches at a cent.
  const ofNewer = { ...NEWER, model: 'newer/m' }
  expect(await billOf(newer, ofNewer, '/v1/responses')).toEqual([20_020_000, false, 'priority', 2])
  const searched = claude({ server_tool_use: { web_search_requests: 1 } })
  expect(await billOf(searched, { model: 'claude/m' }, '/v1/messages')).toEqual([10_010_000, false, undefined, 1])
})

test('an unknown price is reported and not guessed', async () => {
  expect(await billOf(older('priority'), { model: 'older/bare' })).toEqual([10_000, true, 'priority', undefined])
  const ofNewer = { ...NEWER, model: 'newer/bare' }
  expect(await billOf(newer, ofNewer, '/v1/responses')).toEqual([10_000, true, 'priority', 2])
})
