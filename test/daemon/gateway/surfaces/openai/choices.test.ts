// Several answers to one request: `n` of chat completions and of completions.
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../../src/daemon/models/config.ts'
import { CompletionChunk, CompletionResponse } from '../../../../../src/shared/wire/completions.ts'
import { OpenAiChatResponse, OpenAiChunk } from '../../../../../src/shared/wire/openai.ts'
import { describeEachEngine } from '../../../../engines.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../../harness.ts'
import {
  chatJson,
  replyJson,
  replyRaw,
  replySplit,
  replySteps,
  type Script,
  startUpstream,
  type Upstream,
} from '../../../../upstream.ts'
import { addGuardedTenant } from '../../chat/guarded-tenant.ts'

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => upstream.close())

const prices = { '*': { input: 1, output: 2, points: 3 } }
const shared = sharedGateway(() => {
  const plain = { baseUrl: upstream.url, apiKey: 'x', headers: {}, models: undefined, prices }
  return {
    providers: [
      { ...plain, name: 'ollama', kind: 'openai' },
      { ...plain, name: 'databricks', kind: 'openai' },
      { ...plain, name: 'newer', kind: 'openai', api: 'responses' },
      { ...plain, name: 'claude', kind: 'anthropic' },
      { ...plain, name: 'gemini', kind: 'google' },
    ] satisfies ProviderConfig[],
  }
})

/** The upstream of the models of `test`. The other providers have `upstream`. */
const house = () => shared.current.upstream
const PATH = '/v1/chat/completions'
const hello = { model: 'test/any', messages: [{ role: 'user' as const, content: 'Hi' }] }
const usage = { prompt_tokens: 12, completion_tokens: 30, total_tokens: 42 }
const WEATHER = {
  type: 'function' as const,
  function: { name: 'weather', parameters: { type: 'object', properties: {} } },
}
const ask = (body: object, gateway: Gateway = shared.current) => gateway.call('POST', PATH, { ...hello, n: 2, ...body })
const sent = () => house().requests.at(-1)?.body as Record<string, unknown>
const client = () => new OpenAI({ apiKey: shared.current.adminKey, baseURL: `${shared.current.url}/v1`, maxRetries: 0 })

const whole = (...contents: (string | object)[]) => ({
  ...chatJson(null),
  choices: contents.map((content, index) =>
    typeof content === 'string'
      ? { index, message: { role: 'assistant', content }, finish_reason: 'stop' }
      : { index, ...content },
  ),
  usage,
})
const event = (value: object) =>
  `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', ...value })}\n\n`
const piece = (index: number, delta: object, finish_reason: string | null = null) =>
  event({ choices: [{ index, delta, finish_reason }] })
const DONE = 'data: [DONE]\n\n'
const COUNTS = event({ choices: [], usage })
const stop = (index: number, reason = 'stop') => piece(index, {}, reason)
const say = (index: number, content: string) => piece(index, { content })

function chunksOf(text: string) {
  const events = text.split('\n\n').filter((one) => one !== '' && !one.startsWith(':'))
  const done = events.at(-1) === 'data: [DONE]'
  return { done, chunks: (done ? events.slice(0, -1) : events).map((one) => JSON.parse(one.replace(/^data: /, ''))) }
}

/** The texts and finish reasons of a stream, by choice. */
function answersIn(text: string) {
  const texts: Record<number, string> = {}
  const finished: Record<number, string> = {}
  for (const { choices = [] } of chunksOf(text).chunks) {
    for (const { index, delta, finish_reason: reason } of choices) {
      texts[index] = (texts[index] ?? '') + (delta.content ?? '')
      if (reason !== null) finished[index] = reason
    }
  }
  return { texts: Object.values(texts), finished: Object.values(finished) }
}

const streamOf = async (script: Script, body: object = {}, gateway: Gateway = shared.current) => {
  house().script(script)
  return ask({ stream: true, ...body }, gateway)
}

describeEachEngine('two answers to one request', (engine) => {
  test('complete: both choices, one call, one bill with the counts of the provider', async () => {
    const gateway = await startGateway({ engine })
    gateway.upstream.script(replyJson(whole('One.', 'Two.')))
    const { status, body } = await ask({}, gateway)
    expect([status, body.choices]).toEqual([
      200,
      ['One.', 'Two.'].map((content, index) => ({
        ...{ index, logprobs: null, finish_reason: 'stop' },
        message: { role: 'assistant', content, refusal: null },
      })),
    ])
    expect(OpenAiChatResponse.parse(body)).toEqual(body)
    expect(gateway.upstream.requests.map(({ body: one }) => (one as { n: number }).n)).toEqual([2])
    expect(await gateway.usage()).toMatchObject([{ outcome: 'complete', input_tokens: 12, output_tokens: 30 }])
  })

  test('streamed: each chunk names its choice, each choice has its role and its own finish reason', async () => {
    const gateway = await startGateway({ engine })
    const body = [say(0, 'On'), say(1, 'Tw'), say(0, 'e'), stop(1, 'length'), say(0, '.'), stop(0), COUNTS, DONE]
    gateway.upstream.script(replyRaw(body.join('')))
    const { text } = await ask({ stream: true, stream_options: { include_usage: true } }, gateway)
    const { chunks, done } = chunksOf(text)
    expect(done).toBe(true)
    for (const chunk of chunks) expect(OpenAiChunk.parse(chunk)).toEqual(chunk)
    expect(chunks.map(({ choices: [one] }) => one && [one.index, one.delta, one.finish_reason])).toEqual([
      [0, { role: 'assistant', content: 'On' }, null],
      [1, { role: 'assistant', content: 'Tw' }, null],
      [0, { content: 'e' }, null],
      [0, { content: '.' }, null],
      [0, {}, 'stop'],
      [1, {}, 'length'],
      undefined,
    ])
    expect(chunks.map((chunk) => 'gateway' in chunk)).toEqual([true, ...Array(6).fill(false)])
    expect(chunks.at(-1).usage).toMatchObject({ completion_tokens: 30 })
    expect(await gateway.usage()).toMatchObject([{ outcome: 'length', streamed: 1, output_tokens: 30 }])
  })

  test('a repeat with its Idempotency-Key gets the same bytes and is billed once', async () => {
    const gateway = await startGateway({ engine })
    for (const stream of [false, true]) {
      const script = stream
        ? replyRaw(say(0, 'a') + say(1, 'b') + stop(0) + stop(1) + COUNTS + DONE)
        : replyJson(whole('a', 'b'))
      gateway.upstream.script(script)
      const again = () =>
        gateway.call('POST', PATH, { ...hello, n: 2, stream }, { headers: { 'idempotency-key': `k-${stream}` } })
      const [first, second] = [await again(), await again()]
      expect([first.status, second.text]).toEqual([200, first.text])
      expect(second.headers['idempotent-replayed']).toBe('true')
    }
    expect(await gateway.usage()).toHaveLength(2)
  })

  test('the answer cache stores and replays all of them, whole and streamed', async () => {
    const gateway = await startGateway({ engine, cache: { enabled: true } })
    const use = { headers: { 'x-aigw-cache': 'use' } }
    const call = { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"city":"Ulm"}' } }
    const delta = (index: number) => piece(index, { tool_calls: [{ index: 0, ...call, id: `c${index}` }] })
    const pieces = [say(0, 'Let '), delta(1), say(0, 'me'), delta(0), stop(0, 'tool_calls'), stop(1, 'tool_calls')]
    gateway.upstream.script(replyRaw(pieces.join('') + COUNTS + DONE))
    const body = { ...hello, n: 2, tools: [WEATHER] }
    const first = await gateway.call('POST', PATH, { ...body, stream: true }, use)
    const second = await gateway.call('POST', PATH, body, use)
    expect(second.headers['x-aigw-cache']).toBe('hit')
    expect(second.body.choices).toMatchObject([
      { message: { content: 'Let me', tool_calls: [{ ...call, id: 'c0' }] }, finish_reason: 'tool_calls' },
      { message: { content: null, tool_calls: [{ ...call, id: 'c1' }] }, finish_reason: 'tool_calls' },
    ])
    const third = await gateway.call('POST', PATH, { ...body, stream: true }, use)
    expect(answersIn(third.text)).toEqual(answersIn(first.text))
    gateway.upstream.script(replyJson(whole('a', 'b', 'c')))
    const other = await gateway.call('POST', PATH, { ...body, n: 3 }, use)
    expect([other.headers['x-aigw-cache'], other.body.choices.length]).toEqual(['miss', 3])
    expect(gateway.upstream.requests).toHaveLength(2)
  })

  test('if a guard blocks one of them, the whole answer is rejected and billed once', async () => {
    const gateway = await startGateway({ engine })
    const policy = { pii: { enabled: true, action: 'block', direction: 'output' } }
    const { post, bills, incidents } = await addGuardedTenant(gateway, { policy })
    const card = '4111 1111 1111 1111'
    gateway.upstream.script(replyJson(whole('Fine.', `It is ${card}.`)))
    const { status, body } = await post(PATH, { ...hello, n: 2 })
    expect([status, body]).toMatchObject([403, { verdict: 'BLOCK' }])
    gateway.upstream.script(replyRaw(say(0, 'Fine.') + say(1, `It is ${card}.`) + stop(0) + stop(1) + COUNTS + DONE))
    const { text } = await post(PATH, { ...hello, n: 2, stream: true })
    const { chunks, done } = chunksOf(text)
    expect([done, chunks.at(-1)]).toMatchObject([false, { error: { code: 'content_blocked' }, verdict: 'BLOCK' }])
    expect(text).not.toContain(card)
    expect(await bills()).toMatchObject([{ outcome: 'filtered' }, { outcome: 'filtered' }])
    expect(await incidents()).toHaveLength(2)
  })

  test('a guard redacts each of them, also values that a stream splits between chunks', async () => {
    const gateway = await startGateway({ engine })
    const policy = { pii: { enabled: true, action: 'mask', direction: 'output' } }
    const { post } = await addGuardedTenant(gateway, { policy })
    const said = ['ada@example.org said so', 'ask bob@example.org']
    const pieces = Array.from({ length: 23 }, (_, at) =>
      said.map((text, index) => (text[at] === undefined ? '' : say(index, text[at]))).join(''),
    )
    gateway.upstream.script(replyRaw(pieces.join('') + stop(0) + stop(1) + COUNTS + DONE))
    const { texts, finished } = answersIn((await post(PATH, { ...hello, n: 2, stream: true })).text)
    expect(texts).toEqual(['***@e******.org said so', 'ask ***@e******.org'])
    expect(finished).toEqual(['stop', 'stop'])
  })
})

describe('ten answers', () => {
  test('whose characters arrive in turns, in writes that end anywhere', async () => {
    const said = Array.from({ length: 10 }, (_, index) => `${index}: ${'Ü€𝄞 "q"\\\n'.repeat(index + 1)}`)
    const longest = Math.max(...said.map((text) => [...text].length))
    let body = ''
    for (let at = 0; at < longest; at++) {
      for (const [index, text] of said.entries()) {
        const letter = [...text][at]
        if (letter !== undefined) body += say(index, letter)
      }
    }
    body += said.map((_, index) => stop(index)).join('') + COUNTS + DONE
    const offsets = Array.from({ length: 200 }, (_, at) => at * 331 + 7)
    const { text } = await streamOf(replySplit(body, offsets), { n: 10 })
    expect(answersIn(text)).toEqual({ texts: said, finished: Array(10).fill('stop') })
  })

  test("reach OpenAI's own client, whole and streamed", async () => {
    const texts = Array.from({ length: 10 }, (_, index) => `Answer ${index}.`)
    house().script(replyJson(whole(...texts)))
    const answer = await client().chat.completions.create({ ...hello, n: 10 })
    expect(answer.choices.map(({ index, message }) => [index, message.content])).toEqual([...texts.entries()])
    house().script(replyRaw(texts.map((text, index) => say(index, text) + stop(index)).join('') + COUNTS + DONE))
    const stream = client().chat.completions.stream({ ...hello, n: 10 })
    const { choices } = await stream.finalChatCompletion()
    expect(choices.map(({ message, finish_reason: reason }) => [message.content, reason])).toEqual(
      texts.map((text) => [text, 'stop']),
    )
  })
})

describe('the content of several answers', () => {
  const call = (index: number, at: number, more: object) => piece(index, { tool_calls: [{ index: at, ...more }] })
  const opening = (index: number, at: number) =>
    call(index, at, { id: `c${index}${at}`, type: 'function', function: { name: 'weather', arguments: '' } })
  const args = (index: number, at: number, text: string) => call(index, at, { function: { arguments: text } })

  test('tool calls in two answers at once', async () => {
    const pieces = [
      ...[opening(0, 0), opening(1, 0), args(0, 0, '{"city":'), args(1, 0, '{"ci'), opening(1, 1)],
      ...[args(0, 0, '"Ulm"}'), args(1, 0, 'ty":"Bonn"}'), args(1, 1, '{"city":"Kiel"}')],
      ...[stop(0, 'tool_calls'), stop(1, 'tool_calls'), COUNTS, DONE],
    ]
    house().script(replySteps(pieces))
    const stream = client().chat.completions.stream({ ...hello, n: 2, tools: [WEATHER] })
    const { choices } = await stream.finalChatCompletion()
    const cities = choices.map(({ message, finish_reason: reason }) => [
      reason,
      message.tool_calls?.map((one) => one.type === 'function' && one.function.arguments),
    ])
    expect(cities).toEqual([
      ['tool_calls', ['{"city":"Ulm"}']],
      ['tool_calls', ['{"city":"Bonn"}', '{"city":"Kiel"}']],
    ])
  })

  test('with `parallel_tool_calls: false`, each keeps its first call, if the provider does not have this option', async () => {
    const calls = (index: number) => ({
      message: {
        ...{ role: 'assistant', content: null },
        tool_calls: [0, 1].map((at) => ({
          ...{ id: `c${index}${at}`, type: 'function', function: { name: 'weather', arguments: '{}' } },
        })),
      },
      finish_reason: 'tool_calls',
    })
    upstream.script(replyJson(whole(calls(0), calls(1))))
    const { body } = await ask({ model: 'databricks/m', tools: [WEATHER], parallel_tool_calls: false })
    const ids = body.choices.map(({ message }: { message: { tool_calls: { id: string }[] } }) =>
      message.tool_calls.map(({ id }) => id),
    )
    expect(ids).toEqual([['c00'], ['c10']])
  })

  test('reasoning, logprobs and a refusal belong to their answer', async () => {
    const logprobs = { content: [{ token: 'Two', logprob: -0.1 }] }
    house().script(
      replyJson(
        whole(
          { message: { role: 'assistant', content: null, refusal: 'I cannot.' }, finish_reason: 'stop' },
          { message: { role: 'assistant', content: 'Two', reasoning_content: 'Hm.' }, logprobs, finish_reason: 'stop' },
        ),
      ),
    )
    const { body } = await ask({ logprobs: true })
    expect(body.choices).toMatchObject([
      { message: { content: 'I cannot.' }, logprobs: null, finish_reason: 'content_filter' },
      { message: { content: 'Two', reasoning_content: 'Hm.' }, logprobs, finish_reason: 'stop' },
    ])
  })
})

describe('a response that is broken in one answer is broken', () => {
  const good = [say(0, 'One.'), say(1, 'Two.'), stop(0), stop(1), COUNTS, DONE]
  const without = (...at: number[]) => good.filter((_, place) => !at.includes(place)).join('')

  test.each([
    ['one answer has no finish reason', without(3), 'connection_error'],
    ['neither has a finish reason', without(2, 3, 4, 5), 'connection_error'],
    ['the stream ends after the first finish reason', without(3, 4, 5), 'connection_error'],
    ['one answer never begins', without(1, 3), 'bad_request'],
    ['one answer never begins, without [DONE]', without(1, 3, 4, 5), 'bad_request'],
    ['one answer never begins, and the other is cut', without(1, 2, 3, 4, 5), 'connection_error'],
    ['a choice was not requested', [say(0, 'One.'), say(2, 'Three.')].join(''), 'server_error'],
    ['a choice has no whole index', [say(0, 'One.'), say(0.5, 'Three.')].join(''), 'server_error'],
    ['a choice is no object', say(0, 'One.') + event({ choices: [7] }), 'server_error'],
    ['a finish reason is unknown', [say(0, 'a'), say(1, 'b'), stop(0), stop(1, 'tired')].join(''), 'server_error'],
    ['the provider reports an error', say(0, 'a') + event({ error: { message: 'no', code: 'overloaded' } }), ''],
    ['a choice reports an error', say(0, 'a') + event({ choices: [{ index: 1, error: { message: 'no' } }] }), ''],
    ['an event is no JSON', `${say(0, 'a')}data: {"choices"\n\n`, 'server_error'],
    [
      'the arguments of a call are cut',
      say(0, 'a') +
        piece(1, { tool_calls: [{ index: 0, id: 'c', function: { name: 'weather', arguments: '{"ci' } }] }) +
        stop(0) +
        stop(1, 'tool_calls') +
        DONE,
      'server_error',
    ],
  ])('%s', async (_, body, reason) => {
    const { text, status } = await streamOf(replyRaw(body), { tools: [WEATHER] })
    const { chunks, done } = chunksOf(text)
    expect([status, done, chunks.at(-1)]).toMatchObject([200, false, { success: false }])
    expect(chunks.at(-1).error.code).toContain(reason)
  })

  test('the stream is cut at any byte', async () => {
    const body = good.join('')
    const end = body.indexOf(COUNTS)
    for (let at = 40; at < end; at += 61) {
      const { text, status } = await streamOf(replySteps([Buffer.from(body).subarray(0, at)], { ending: 'reset' }))
      const { done } = chunksOf(status === 200 ? text : '')
      expect([at, done]).toEqual([at, false])
    }
    // Both finish reasons have arrived, so both answers are complete.
    const { text } = await streamOf(replySteps([body.slice(0, end)], { ending: 'reset' }))
    expect(chunksOf(text).done).toBe(true)
    expect((await shared.current.usage()).at(-1)).toMatchObject({ outcome: 'complete', output_tokens: 4 })
  })

  test('a whole response has too few answers, or one without a finish reason', async () => {
    house().script(replyJson(whole('Only one.')))
    const few = await ask({})
    expect([few.status, few.body.error.message]).toEqual([400, expect.stringContaining('1 of 2 choices')])
    for (const broken of [
      whole('One.', { message: { role: 'assistant', content: 'Two.' }, finish_reason: null }),
      whole('One.', { finish_reason: 'stop' }),
      whole('One.', 'Two.', 'Three.'),
      { ...whole(), choices: [] },
      { ...whole(), choices: 'none' },
      { error: { message: 'down', type: 'server_error' } },
      [],
    ]) {
      house().script(replyJson(broken))
      expect([broken, (await ask({})).status]).toEqual([broken, 502])
    }
  })
})

describe('a provider without several answers', () => {
  const said = replyJson(whole('One.', 'Two.'))

  test.each(['claude/c', 'gemini/g', 'newer/gpt-5', 'ollama/llama', 'local/extract'])(
    '%s rejects the request and names the remedy',
    async (model) => {
      const before = upstream.requests.length
      const { status, body } = await ask({ model })
      expect([status, body.error.message]).toEqual([400, expect.stringMatching(/n above 1.*chat completions/)])
      expect(upstream.requests.length).toBe(before)
    },
  )

  test('is skipped if a model of the chain has them; the answer shows the reason', async () => {
    house().script(said)
    const { status, body } = await ask({ model: 'claude/c', fallback_models: ['ollama/llama', 'test/any'] })
    expect([status, body.model]).toEqual([200, 'test/any'])
    expect(body.gateway.failover.attempts).toMatchObject([
      { model: 'claude/c', status: 'failed', reason: 'bad_request' },
      { model: 'ollama/llama', status: 'failed', reason: 'bad_request' },
      { model: 'test/any', status: 'served' },
    ])
    const none = await ask({ model: 'claude/c', fallback_models: ['gemini/g'] })
    expect([none.status, none.body.error.message]).toEqual([400, expect.stringContaining('claude/c')])
  })

  test('`n: 1` is not sent, and every provider has it', async () => {
    upstream.script(replyJson(chatJson('One.')))
    expect((await ask({ n: 1, model: 'ollama/llama' })).status).toBe(200)
    expect(upstream.requests.at(-1)?.body).not.toHaveProperty('n')
  })

  test.each([0, 129, 1.5, '2'])('n: %j is rejected', async (n) => {
    expect(await ask({ n })).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringMatching(/n must/) } },
    })
  })
})

describe('completions', () => {
  const COMPLETIONS = '/v1/completions'
  const prompt = { model: 'test/any', prompt: 'Once', n: 3 }

  test('have several answers too, whole and streamed', async () => {
    house().script(replyJson(whole('a', 'b', { message: { content: 'c' }, finish_reason: 'length' })))
    const { status, body } = await shared.current.call('POST', COMPLETIONS, prompt)
    expect([status, CompletionResponse.parse(body)]).toEqual([200, body])
    expect(body.choices.map((choice: object) => Object.values(choice))).toEqual([
      ['a', 0, null, 'stop'],
      ['b', 1, null, 'stop'],
      ['c', 2, null, 'length'],
    ])
    expect(sent()).toMatchObject({ n: 3 })
    house().script(replyRaw(say(2, 'c') + say(0, 'a') + say(1, 'b') + [2, 0, 1].map((at) => stop(at)).join('') + DONE))
    const stream = await client().completions.create({ ...prompt, stream: true })
    const texts = ['', '', '']
    const finished: (string | null | undefined)[] = []
    for await (const chunk of stream) {
      expect(CompletionChunk.safeParse(chunk).success).toBe(true)
      for (const { index, text, finish_reason: reason } of chunk.choices) {
        texts[index] += text
        if (reason !== null) finished[index] = reason
      }
    }
    expect([texts, finished]).toEqual([
      ['a', 'b', 'c'],
      ['stop', 'stop', 'stop'],
    ])
  })
})
