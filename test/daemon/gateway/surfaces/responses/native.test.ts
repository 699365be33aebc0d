// Members and files of a request on their way to a provider that itself has the Responses API.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../../src/daemon/models/config.ts'
import { sharedGateway } from '../../../../harness.ts'
import { chatJson, replyJson, startUpstream, type Upstream } from '../../../../upstream.ts'

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
  }
})

const text = { type: 'output_text', text: 'Hello.', annotations: [] }
const newer = replyJson({
  ...{ id: 'resp_1', object: 'response', status: 'completed' },
  output: [{ id: 'msg_1', type: 'message', status: 'completed', role: 'assistant', content: [text] }],
  usage: { input_tokens: 5, output_tokens: 5, total_tokens: 10 },
})
const older = replyJson(chatJson('Hello.'))
const ask = (body: object) => shared.current.call('POST', '/v1/responses', body)
const sent = () => upstream.requests.at(-1)?.body as Record<string, unknown>
const dropped = (...fields: string[]) => fields.map((field) => ({ field, why: 'provider' }))

const url = 'https://example.com/a.png'
const content = [
  { type: 'input_image', image_url: url, detail: 'high' },
  { type: 'input_image', file_id: 'file-1', detail: 'low' },
  { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' },
  { type: 'input_file', file_url: 'https://example.com/a.pdf' },
  { type: 'input_file', file_id: 'file-1' },
]
const MEMBERS = {
  truncation: 'auto',
  service_tier: 'flex',
  prompt_cache_key: 'session-1',
  max_tool_calls: 3,
  a_new_member: { deep: [1] },
}
const named = {
  text: { format: { type: 'json_object' }, verbosity: 'low' },
  reasoning: { effort: 'low', summary: 'auto' },
}

test('all of them are sent unchanged, and nothing is dropped', async () => {
  upstream.fallback(newer)
  const input = [
    { role: 'user', content },
    { type: 'function_call', call_id: 'c1', name: 'look', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c1', output: content },
  ]
  const { status, body } = await ask({ model: 'newer/gpt-5', input, ...MEMBERS, ...named })
  expect([status, body.gateway.dropped, body.truncation]).toEqual([200, undefined, 'auto'])
  expect(sent()).toMatchObject({ input, ...MEMBERS, ...named, store: false })
})

test('a provider of chat completions gets what its API has too', async () => {
  upstream.fallback(older)
  const input = [{ role: 'user', content: [content[0], content[2], content[4]] }]
  const { status, body } = await ask({ model: 'older/m', input, ...MEMBERS, ...named })
  expect([status, body.truncation]).toEqual([200, 'disabled'])
  expect(body.gateway.dropped).toEqual(dropped('max_tool_calls', 'a_new_member', 'reasoning.summary', 'truncation'))
  expect(sent()).toMatchObject({
    ...{ service_tier: 'flex', prompt_cache_key: 'session-1', verbosity: 'low', reasoning_effort: 'low' },
    messages: [
      {
        content: [
          { type: 'image_url', image_url: { url, detail: 'high' } },
          { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' } },
          { type: 'file', file: { file_id: 'file-1' } },
        ],
      },
    ],
  })
  for (const part of [content[1], content[3]]) {
    expect((await ask({ model: 'older/m', input: [{ role: 'user', content: [part] }] })).status).toBe(400)
  }
})

test('Anthropic gets PDFs, and files and images by address', async () => {
  upstream.fallback(
    replyJson({
      ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', stop_reason: 'end_turn' },
      content: [{ type: 'text', text: 'Hello.' }],
      usage: { input_tokens: 10, output_tokens: 5 },
    }),
  )
  const input = [{ role: 'user', content: [content[0], content[2], content[3]] }]
  expect((await ask({ model: 'claude/c', input })).status).toBe(200)
  expect(sent().messages).toEqual([
    {
      role: 'user',
      content: [
        { type: 'image', source: { type: 'url', url } },
        {
          type: 'document',
          source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' },
          title: 'a.pdf',
        },
        { type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } },
      ],
    },
  ])
})
