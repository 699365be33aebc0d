import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { ContentPart } from '../../../../../../src/daemon/models/conversation.ts'
import type { ProviderCall } from '../../../../../../src/daemon/models/provider.ts'
import {
  type AzureOptions,
  azureProvider,
  type OpenAiOptions,
  openAiProvider,
} from '../../../../../../src/daemon/models/providers/openai/provider.ts'
import { createFakeClock } from '../../../../../fake-clock.ts'
import { replyJson, replyRaw } from '../../../../../upstream.ts'
import { fixtureFolder } from '../../../playback.ts'
import { testCall, upstreamForEach } from '../../../provider-calls.ts'
import { playCall } from '../playback.ts'

const recorded = (file: string) => readFileSync(join(fixtureFolder('responses'), file), 'utf8')
const upstream = upstreamForEach(replyRaw(recorded('plain.json'), { contentType: 'application/json' }))
const defaults = () => ({
  ...{ name: 'openai', baseUrl: upstream.url, apiKey: 'secret', headers: {}, models: undefined },
  api: 'responses' as const,
})

function ask(request: Partial<ProviderCall>, options: Partial<OpenAiOptions> = {}) {
  const provider = upstream.closeAfter(openAiProvider({ ...defaults(), ...options }, { clock: createFakeClock() }))
  return playCall(provider.chat(testCall({ model: 'gpt-4o', ...request }), new AbortController().signal))
}

const sent = () => upstream.requests.at(-1)

test('a call is one POST to /responses that the server does not store', async () => {
  expect(await ask({ system: 'Be brief.', temperature: 0.2 })).toMatchObject({ text: 'Grüße aus Ulm 👋' })
  expect(sent()).toMatchObject({ method: 'POST', path: '/v1/responses', headers: { authorization: 'Bearer secret' } })
  expect(sent()?.body).toEqual({
    model: 'gpt-4o',
    instructions: 'Be brief.',
    input: [{ role: 'user', content: 'Hi' }],
    max_output_tokens: 64,
    temperature: 0.2,
    stream: false,
    store: false,
  })
})

test('a stream is read until its end', async () => {
  upstream.script(replyRaw(recorded('reasoning.sse')))
  expect(await ask({ stream: true })).toMatchObject({
    text: 'Yes.',
    reasoning: 'First.\n\nSecond.',
    outcome: 'complete',
    usage: { inputTokens: 9, outputTokens: 5, cacheReadTokens: 4, reasoningTokens: 2 },
  })
  upstream.script(replyRaw(recorded('no-end.sse')))
  expect(await ask({ stream: true })).toMatchObject({ outcome: 'truncated' })
})

test('a conversation becomes items, and only the own encrypted reasoning is sent back', async () => {
  await ask({
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is it?' },
          { type: 'image', mediaType: 'image/png', data: 'aGk=' },
        ],
      },
      {
        role: 'assistant',
        content: 'I look.',
        reasoning: [
          { origin: 'openai', text: 'Hm.', data: 'gAAAA' },
          { origin: 'openai', text: 'unsigned' },
          { origin: 'anthropic', text: 'Hm.', signature: 's' },
        ],
        toolCalls: [{ id: 'c1', name: 'look', arguments: '{}' }],
      },
      { role: 'tool', toolCallId: 'c1', content: 'a lift' },
    ],
  })
  expect(sent()?.body).toMatchObject({
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'What is it?' },
          { type: 'input_image', image_url: 'data:image/png;base64,aGk=', detail: 'auto' },
        ],
      },
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }], encrypted_content: 'gAAAA' },
      { role: 'assistant', content: 'I look.' },
      { type: 'function_call', call_id: 'c1', name: 'look', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c1', output: 'a lift' },
    ],
  })
})

test('options are converted', async () => {
  const schema = { type: 'object' }
  await ask({
    model: 'gpt-5',
    options: {
      tools: [{ name: 'look', description: 'Looks', parameters: schema }],
      toolChoice: { name: 'look' },
      parallelToolCalls: false,
      responseFormat: { type: 'json_schema', name: 'a', schema, strict: true },
      reasoningEffort: 'low',
      user: 'someone',
    },
  })
  expect(sent()?.body).toMatchObject({
    tools: [{ type: 'function', name: 'look', description: 'Looks', parameters: schema, strict: false }],
    tool_choice: { type: 'function', name: 'look' },
    parallel_tool_calls: false,
    text: { format: { type: 'json_schema', name: 'a', schema, strict: true } },
    reasoning: { effort: 'low' },
    include: ['reasoning.encrypted_content'],
    user: 'someone',
  })
})

test('options that the API does not have are rejected before the call', async () => {
  for (const options of [{ stop: ['END'] }, { seed: 7 }, { frequencyPenalty: 1 }]) {
    await expect((async () => ask({ options }))()).rejects.toMatchObject({ reason: 'bad_request' })
  }
  expect(upstream.requests).toEqual([])
})

test('tools and blocks of another API are rejected before the call', async () => {
  const refused = async (request: Partial<ProviderCall>, message: string) =>
    await expect((async () => ask(request))()).rejects.toMatchObject({ reason: 'bad_request', message })
  const definition = { type: 'web_search_20250305', name: 'web_search' }
  await refused(
    { options: { tools: [{ name: 'web_search', native: { origin: 'anthropic', definition } }] } },
    'The provider does not support tools of type web_search_20250305.',
  )
  const answer = (part: ContentPart) => ({ messages: [{ role: 'assistant', content: [part] }] }) as const
  await refused(
    answer({ type: 'native', origin: 'anthropic', block: { type: 'server_tool_use' } }),
    'The provider does not support blocks of type server_tool_use.',
  )
  await refused(
    answer({ type: 'image', mediaType: 'image/png', data: 'aGk=' }),
    'The provider does not support blocks of type image.',
  )
  expect(upstream.requests).toEqual([])
})

test('the text of an answer with citations is kept', async () => {
  const cited = { type: 'native', origin: 'anthropic', block: { type: 'text', text: 'Yes.', citations: [] } } as const
  await ask({ messages: [{ role: 'assistant', content: [{ type: 'text', text: 'So: ' }, cited] }] })
  expect(sent()?.body).toMatchObject({ input: [{ role: 'assistant', content: 'So: Yes.' }] })
})

test('an error status is a failure', async () => {
  upstream.script(replyJson({ error: { code: 'rate_limit_exceeded' } }, { status: 429 }))
  expect(await ask({})).toMatchObject({ reason: 'rate_limit' })
})

describe('Azure', () => {
  const azure = (options: Partial<AzureOptions>) =>
    playCall(
      upstream
        .closeAfter(
          azureProvider({ ...defaults(), baseUrl: upstream.origin, ...options }, { clock: createFakeClock() }),
        )
        .chat(testCall({ model: 'my deployment' }), new AbortController().signal),
    )

  test.each([
    [undefined, '/openai/v1/responses'],
    ['preview', '/openai/v1/responses?api-version=preview'],
    ['2025-04-01-preview', '/openai/responses?api-version=2025-04-01-preview'],
  ])('with version %s is called at %s', async (apiVersion, path) => {
    await azure({ apiVersion })
    expect(sent()).toMatchObject({ path, headers: { 'api-key': 'secret' }, body: { model: 'my deployment' } })
  })
})
