// The sources of an answer, from providers that search the web to the clients of every interface.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../src/daemon/models/config.ts'
import { OpenAiChatResponse, OpenAiChunk, type OpenAiDelta } from '../../../../src/shared/wire/openai.ts'
import { ResponsesEvent, ResponsesResponse } from '../../../../src/shared/wire/responses.ts'
import { sharedGateway } from '../../../harness.ts'
import { chatJson, replyJson, replySteps, type Script, startUpstream, type Upstream } from '../../../upstream.ts'
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
      { ...plain, name: 'older', kind: 'openai' },
      { ...plain, name: 'newer', kind: 'openai', api: 'responses' },
      { ...plain, name: 'claude', kind: 'anthropic' },
    ] satisfies ProviderConfig[],
  }
})

const SAID = 'Otters swim.'
const page = { title: 'Otters', url: 'https://example.com/otters', start_index: 0, end_index: 6 }
const flat = { type: 'url_citation', ...page }
const nested = { type: 'url_citation', url_citation: page }
const file = { type: 'file_citation', file_id: 'file-1', filename: 'a.pdf', index: 12 }

const chunk = (choice: object) => `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`
const olderStream = (...last: object[]) =>
  replySteps([
    chunk({ delta: { role: 'assistant', content: 'Otters' } }),
    chunk({ delta: { content: ' swim.' } }),
    ...last.map(chunk),
    'data: [DONE]\n\n',
  ])
const annotated = { delta: { annotations: [nested] } }
const ended = { delta: {}, finish_reason: 'stop' }

const message = {
  ...{ id: 'msg_1', type: 'message', status: 'completed', role: 'assistant' },
  content: [{ type: 'output_text', text: SAID, annotations: [flat, file] }],
}
const newerBody = {
  ...{ id: 'resp_1', object: 'response', status: 'completed', output: [message] },
  usage: { input_tokens: 5, output_tokens: 5, total_tokens: 10 },
}
const place = { item_id: 'msg_1', output_index: 0, content_index: 0 }
const newerStream = replySteps(
  [
    { type: 'response.output_item.added', output_index: 0, item: { ...message, status: 'in_progress', content: [] } },
    { type: 'response.output_text.delta', ...place, delta: SAID },
    { type: 'response.output_text.annotation.added', ...place, annotation_index: 0, annotation: flat },
    { type: 'response.output_item.done', output_index: 0, item: message },
    { type: 'response.completed', response: newerBody },
  ].map((event) => `data: ${JSON.stringify(event)}\n\n`),
)

const SETTINGS = { dailyLimit: null, monthlyLimit: null, rateLimit: { requestsPerMinute: null, requestsPerHour: null } }
const content = [{ role: 'user', content: 'What do otters do?' }]
const paths = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
} as const
const bodies = {
  chat: { messages: content },
  responses: { input: content },
  messages: { messages: content, max_tokens: 100 },
}
type Surface = keyof typeof paths

/** The data of the events of a stream. */
const eventsOf = (text: string): Record<string, unknown>[] =>
  [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json = '']) => JSON.parse(json))

/** The deltas of a stream of chat completions. */
const deltasOf = (text: string): OpenAiDelta[] =>
  eventsOf(text).flatMap((one) => {
    const { choices = [] } = OpenAiChunk.parse(one) as { choices?: { delta: OpenAiDelta }[] }
    return choices.map(({ delta }) => delta)
  })

async function ask(surface: Surface, model: string, script: Script, stream = false) {
  upstream.fallback(script)
  const answer = await shared.current.call('POST', paths[surface], { ...bodies[surface], model, stream })
  expect([surface, model, answer.status, answer.text]).toEqual([surface, model, 200, expect.any(String)])
  return answer
}

const answers = [
  ['older/m', replyJson(chatJson(SAID, { message: { annotations: [nested] } })), [flat]],
  ['newer/m', replyJson(newerBody), [flat, file]],
] as const
const streams = [
  ['older/m', olderStream(annotated, ended), [flat]],
  ['newer/m', newerStream, [flat, file]],
] as const
const toNested = ({ type, ...members }: { type: string }) => ({ type, [type]: members })

describe('annotations of a whole answer', () => {
  test.each(answers)('%s: chat completions', async (model, script, expected) => {
    const { body } = await ask('chat', model, script)
    expect(OpenAiChatResponse.parse(body)).toEqual(body)
    expect(body.choices[0].message).toMatchObject({ content: SAID, annotations: expected.map(toNested) })
  })

  test.each(answers)('%s: Responses', async (model, script, expected) => {
    const { body } = await ask('responses', model, script)
    expect(ResponsesResponse.parse(body)).toEqual(body)
    expect(body.output).toMatchObject([{ type: 'message', content: [{ text: SAID, annotations: expected }] }])
  })

  test.each(answers)('%s: Messages, where only web pages have a form', async (model, script) => {
    const { body } = await ask('messages', model, script)
    const { title, url } = page
    const citation = { type: 'web_search_result_location', cited_text: 'Otters', encrypted_index: '', title, url }
    expect(body.content).toEqual([{ type: 'text', text: SAID, citations: [citation] }])
  })

  test.each(answers)('%s: Gemini, where only web pages have a form', async (model, script) => {
    upstream.fallback(script)
    const { body } = await shared.current.call('POST', `/v1beta/models/${model}:generateContent`, {
      contents: [{ parts: [{ text: 'What do otters do?' }] }],
    })
    expect(body.candidates[0]).toMatchObject({
      content: { parts: [{ text: SAID }] },
      groundingMetadata: {
        groundingChunks: [{ web: { uri: page.url, title: page.title } }],
        groundingSupports: [{ segment: { startIndex: 0, endIndex: 6, text: 'Otters' }, groundingChunkIndices: [0] }],
      },
    })
  })
})

describe('annotations of a stream', () => {
  test.each(streams)('%s: chat completions', async (model, script, expected) => {
    const { text } = await ask('chat', model, script, true)
    const deltas = deltasOf(text)
    expect(deltas.flatMap(({ annotations = [] }) => annotations)).toEqual(expected.map(toNested))
    expect(deltas.map(({ content: piece = '' }) => piece).join('')).toBe(SAID)
  })

  test.each(streams)('%s: Responses', async (model, script, expected) => {
    const { text } = await ask('responses', model, script, true)
    const events = eventsOf(text).map((one) => ResponsesEvent.parse(one))
    const added = events.flatMap((one) => (one.type === 'response.output_text.annotation.added' ? [one] : []))
    expect(added.map(({ annotation, annotation_index }) => [annotation_index, annotation])).toEqual([
      ...expected.entries(),
    ])
    const last = events.at(-1)
    expect(last).toMatchObject({
      type: 'response.completed',
      response: { output: [{ content: [{ text: SAID, annotations: expected }] }] },
    })
  })

  test.each(streams)('%s: Messages', async (model, script) => {
    const { text } = await ask('messages', model, script, true)
    const deltas = eventsOf(text).flatMap(({ delta }) => delta ?? []) as { type?: string; citation?: object }[]
    const cited = deltas.filter(({ type }) => type === 'citations_delta')
    expect(cited).toMatchObject([{ citation: { cited_text: 'Otters', url: page.url } }])
  })

  test('after the finish reason do not make the answer incomplete', async () => {
    const { text } = await ask('chat', 'older/m', olderStream(ended, annotated), true)
    expect(text).toContain('"annotations":[{"type":"url_citation"')
    expect(text).toContain('data: [DONE]')
  })

  test('leave the calls of an answer their indexes', async () => {
    const call = { index: 0, id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }
    upstream.fallback(olderStream(annotated, { delta: { tool_calls: [call] }, finish_reason: 'tool_calls' }))
    const tools = [{ type: 'function', function: { name: 'look' } }]
    const { text } = await shared.current.call('POST', paths.chat, {
      ...bodies.chat,
      model: 'older/m',
      stream: true,
      tools,
    })
    expect(deltasOf(text).flatMap(({ tool_calls: calls = [] }) => calls)[0]).toMatchObject({ index: 0, id: 'c1' })
  })
})

test('lists of pages beside the message become annotations', async () => {
  const body = { ...chatJson(SAID), citations: [page.url], search_results: [{ title: 'Otters', url: page.url }] }
  const { body: answer } = await ask('chat', 'older/m', replyJson(body))
  const expected = [{ type: 'url_citation', url_citation: { ...page, start_index: 0, end_index: 0 } }]
  expect(answer.choices[0].message.annotations).toEqual(expected)
  const last = `data: ${JSON.stringify({ choices: [{ index: 0, ...ended }], citations: [page.url] })}\n\n`
  const { text } = await ask(
    'chat',
    'older/m',
    replySteps([chunk({ delta: { content: SAID } }), last, 'data: [DONE]\n\n']),
    true,
  )
  expect(text).toContain(`"annotations":[{"type":"url_citation","url_citation":{"url":"${page.url}"`)
})

test('positions count from the start of the text that the client reads', async () => {
  const first = { ...message, id: 'msg_0', content: [{ type: 'output_text', text: 'I search. ', annotations: [] }] }
  const search = { id: 'ws_1', type: 'web_search_call', status: 'completed' }
  upstream.fallback(replyJson({ ...newerBody, output: [first, search, message] }))
  const { body } = await ask('chat', 'newer/m', replyJson({ ...newerBody, output: [first, search, message] }))
  const [choice] = body.choices
  expect(choice.message.content).toBe(`I search. ${SAID}`)
  expect(choice.message.annotations[0].url_citation).toMatchObject({ start_index: 10, end_index: 16 })
})

test('the guards inspect them', async () => {
  const address = 'ada.lovelace@analytical.org'
  const { post } = await addGuardedTenant(shared.current, {
    policy: { pii: { enabled: true, action: 'mask' }, serverTools: { allowed: true } },
    settings: SETTINGS,
  })
  const named = { type: 'url_citation', url_citation: { ...page, title: `Write to ${address}` } }
  for (const stream of [false, true]) {
    upstream.fallback(
      stream
        ? olderStream({ delta: { annotations: [named] } }, ended)
        : replyJson(chatJson(SAID, { message: { annotations: [named] } })),
    )
    const { text } = await post(paths.chat, { ...bodies.chat, model: 'older/m', stream })
    expect([stream, text]).toEqual([stream, expect.stringContaining('Write to *')])
    expect(text).not.toContain('lovelace')
  }
})

test('Anthropic does not get citations of other providers back', async () => {
  const citation = {
    type: 'web_search_result_location',
    cited_text: 'Otters',
    encrypted_index: '',
    title: null,
    url: page.url,
  }
  upstream.fallback(
    replyJson({
      ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', stop_reason: 'end_turn' },
      content: [{ type: 'text', text: 'Hello.' }],
      usage: { input_tokens: 10, output_tokens: 5 },
    }),
  )
  const messages = [
    ...content,
    { role: 'assistant', content: [{ type: 'text', text: SAID, citations: [citation] }] },
    { role: 'user', content: 'And?' },
  ]
  const { status } = await shared.current.call('POST', paths.messages, { model: 'claude/c', max_tokens: 10, messages })
  expect(status).toBe(200)
  expect(upstream.requests.at(-1)?.body).toMatchObject({
    messages: [{}, { content: [{ type: 'text', text: SAID }] }, {}],
  })
  expect(upstream.requests.at(-1)?.rawBody).not.toContain('citations')
})
