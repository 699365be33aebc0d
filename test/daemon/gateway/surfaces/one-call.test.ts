// `parallel_tool_calls: false` for providers whose API does not have it.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../src/daemon/models/config.ts'
import { sharedGateway } from '../../../harness.ts'
import { replyJson, replyRaw, startUpstream, type Upstream } from '../../../upstream.ts'
import { googleStream } from '../../models/providers/google/playback.ts'

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => upstream.close())

const shared = sharedGateway(() => {
  const plain = { baseUrl: upstream.url.replace(/\/v1$/, ''), apiKey: 'x', headers: {}, models: undefined }
  return {
    providers: [
      { ...plain, name: 'gemini', kind: 'google' },
      { ...plain, name: 'bedrock', kind: 'bedrock', region: 'eu-central-1', credentials: undefined },
      { ...plain, name: 'cohere', kind: 'cohere' },
      { ...plain, name: 'deepseek', kind: 'openai' },
    ] satisfies ProviderConfig[],
  }
})

const parameters = { type: 'object', properties: { city: { type: 'string' } } }
const tools = [{ type: 'function', function: { name: 'weather', parameters } }]
const messages = [{ role: 'user', content: 'Compare the weather of Rome and Oslo.' }]
const ask = (body: object) =>
  shared.current.call('POST', '/v1/chat/completions', { model: 'gemini/gemini-3-flash', messages, tools, ...body })

const CITIES = ['Rome', 'Oslo'] as const
const calls = CITIES.map((city) => ({ functionCall: { name: 'weather', args: { city } } }))
const fromGemini = replyJson({
  candidates: [{ content: { role: 'model', parts: calls }, finishReason: 'STOP', index: 0 }],
  usageMetadata: { promptTokenCount: 4, candidatesTokenCount: 2, totalTokenCount: 6 },
})
const fromBedrock = replyJson({
  output: {
    message: {
      role: 'assistant',
      content: CITIES.map((city) => ({ toolUse: { toolUseId: `t-${city}`, name: 'weather', input: { city } } })),
    },
  },
  stopReason: 'tool_use',
  usage: { inputTokens: 4, outputTokens: 2, totalTokens: 6 },
})
const openAiCalls = CITIES.map((city) => ({
  id: `call_${city}`,
  type: 'function',
  function: { name: 'weather', arguments: JSON.stringify({ city }) },
}))
const fromCohere = replyJson({
  id: 'c-1',
  finish_reason: 'TOOL_CALL',
  message: { role: 'assistant', tool_calls: openAiCalls },
  usage: { billed_units: { input_tokens: 4, output_tokens: 2 }, tokens: { input_tokens: 4, output_tokens: 2 } },
})
const fromDeepSeek = replyJson({
  id: 'd-1',
  choices: [
    { index: 0, message: { role: 'assistant', content: '', tool_calls: openAiCalls }, finish_reason: 'tool_calls' },
  ],
  usage: { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 },
})

// biome-ignore lint/suspicious/noExplicitAny: tests read bodies of every shape
const citiesOf = (toolCalls: any[]) => toolCalls.map((call) => JSON.parse(call.function.arguments).city)

test.each([
  ['gemini/gemini-3-flash', fromGemini],
  ['bedrock/amazon.nova-pro-v1:0', fromBedrock],
  ['cohere/command-a-03-2025', fromCohere],
  ['deepseek/deepseek-chat', fromDeepSeek],
])('of several calls of %s only the first arrives; without the option all do', async (model, reply) => {
  upstream.script(reply, reply)
  const { status, body } = await ask({ model, parallel_tool_calls: false })
  expect([status, body.choices[0].finish_reason]).toEqual([200, 'tool_calls'])
  expect(citiesOf(body.choices[0].message.tool_calls)).toEqual(['Rome'])
  expect(citiesOf((await ask({ model })).body.choices[0].message.tool_calls)).toEqual(CITIES)
})

test('in a stream too, and the text beside the calls remains', async () => {
  const [rome = {}, oslo = {}] = calls
  upstream.script(replyRaw(googleStream([[{ text: 'Let me see.' }], [rome, oslo], [{ text: ' Soon.' }]])))
  const { text } = await ask({ parallel_tool_calls: false, stream: true })
  const chunks = text
    .split('\n\n')
    .flatMap((frame) => (frame.startsWith('data: {') ? [JSON.parse(frame.slice(6))] : []))
  const deltas = chunks.flatMap(({ choices }) => choices).map(({ delta }) => delta)
  expect(deltas.map(({ content = '' }) => content).join('')).toBe('Let me see. Soon.')
  expect(citiesOf(deltas.flatMap(({ tool_calls = [] }) => tool_calls))).toEqual(['Rome'])
  expect(text).toContain('[DONE]')
})

test("Anthropic's clients force a tool this way to get structured output", async () => {
  upstream.script(fromGemini)
  const { status, body } = await shared.current.call('POST', '/v1/messages', {
    model: 'gemini/gemini-3-flash',
    max_tokens: 100,
    messages,
    tools: [{ name: 'weather', input_schema: parameters }],
    tool_choice: { type: 'tool', name: 'weather', disable_parallel_tool_use: true },
  })
  expect([status, body.stop_reason]).toEqual([200, 'tool_use'])
  expect(body.content).toMatchObject([{ type: 'tool_use', name: 'weather', input: { city: 'Rome' } }])
})
