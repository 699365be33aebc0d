// Spoken answers of chat completions: `modalities` and `audio`.
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../../src/daemon/models/config.ts'
import { payloadOf } from '../../../../../src/daemon/records/evidence/entry-payload.ts'
import { OpenAiChatResponse, OpenAiChunk } from '../../../../../src/shared/wire/openai.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../../harness.ts'
import { replyCut, replyJson, replyRaw, type Script, startUpstream, type Upstream } from '../../../../upstream.ts'
import { addGuardedTenant } from '../../chat/guarded-tenant.ts'

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => upstream.close())

const shared = sharedGateway(() => {
  const plain = { baseUrl: upstream.url, apiKey: 'x', headers: {}, models: undefined }
  // A token of text costs 1,000 nano-dollars.
  const prices = { priced: { input: 1, output: 1, audio: [10, 20] as const }, bare: { input: 1, output: 1 } }
  return {
    providers: [
      { ...plain, name: 'openai', kind: 'openai', prices },
      { ...plain, name: 'mistral', kind: 'openai' },
      { ...plain, name: 'newer', kind: 'openai', api: 'responses' },
      { ...plain, name: 'claude', kind: 'anthropic' },
      { ...plain, name: 'gemini', kind: 'google' },
    ] satisfies ProviderConfig[],
  }
})

const PATH = '/v1/chat/completions'
const audio = { voice: 'alloy', format: 'wav' }
const spoken = {
  model: 'openai/priced',
  messages: [{ role: 'user' as const, content: 'Hi' }],
  modalities: ['text', 'audio'] as ('text' | 'audio')[],
  audio: audio as OpenAI.ChatCompletionAudioParam,
}
const ask = (body: object = {}, gateway: Gateway = shared.current) => gateway.call('POST', PATH, { ...spoken, ...body })
const sent = () => upstream.requests.at(-1)?.body as Record<string, unknown>
const client = () => new OpenAI({ apiKey: shared.current.adminKey, baseURL: `${shared.current.url}/v1`, maxRetries: 0 })

const usage = {
  ...{ prompt_tokens: 30, completion_tokens: 50, total_tokens: 80 },
  prompt_tokens_details: { audio_tokens: 20, cached_tokens: 0 },
  completion_tokens_details: { audio_tokens: 40, reasoning_tokens: 0 },
}
const base64 = (text: string) => Buffer.from(text).toString('base64')
const said = (transcript: string) => ({
  ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm', usage },
  choices: [
    {
      index: 0,
      message: {
        ...{ role: 'assistant', content: null, refusal: null },
        audio: { id: 'audio_1', data: base64('RIFF'), transcript, expires_at: 1_900_000_000 },
      },
      finish_reason: 'stop',
    },
  ],
})
const event = (value: object) => `data: ${JSON.stringify(value)}\n\n`
const piece = (delta: object, finish_reason: string | null = null, index = 0) =>
  event({ id: 'chatcmpl-1', created: 1, model: 'm', choices: [{ index, delta, finish_reason }] })
/** As OpenAI streams it: the transcript runs ahead of the audio, and the expiry comes last. */
const stream = (...words: string[]) =>
  piece({ role: 'assistant', content: null, refusal: null, audio: { id: 'audio_1', transcript: '' } }) +
  words
    .map((transcript) => piece({ audio: { transcript } }) + piece({ audio: { data: base64(`[${transcript}]`) } }))
    .join('') +
  piece({ audio: { expires_at: 1_900_000_000 } }) +
  piece({}, 'stop') +
  event({ choices: [], usage }) +
  'data: [DONE]\n\n'

function heardIn(text: string) {
  const events = text.split('\n\n').filter((one) => one !== '' && !one.startsWith(':'))
  const done = events.at(-1) === 'data: [DONE]'
  const chunks = (done ? events.slice(0, -1) : events).map((one) => JSON.parse(one.replace(/^data: /, '')))
  const deltas = chunks.flatMap(({ choices = [] }) => choices.map(({ delta }: { delta: object }) => delta))
  const pieces = deltas.flatMap(({ audio: one }) => one ?? [])
  const all = (member: string) => pieces.flatMap((one) => one[member] ?? [])
  return {
    ...{ chunks, done, deltas, ids: all('id'), expires: all('expires_at') },
    transcript: all('transcript').join(''),
    data: all('data').map((one) => Buffer.from(one, 'base64').toString()),
  }
}

describe('a spoken answer', () => {
  test('whole: audio, transcript and their tokens', async () => {
    upstream.script(replyJson(said('Good morning.')))
    const { status, body } = await ask()
    expect([status, OpenAiChatResponse.parse(body)]).toEqual([200, body])
    expect(body.choices).toEqual([
      {
        ...{ index: 0, logprobs: null, finish_reason: 'stop' },
        message: {
          ...{ role: 'assistant', content: null, refusal: null },
          audio: { id: 'audio_1', data: base64('RIFF'), transcript: 'Good morning.', expires_at: 1_900_000_000 },
        },
      },
    ])
    expect(body.usage).toMatchObject({
      prompt_tokens_details: { audio_tokens: 20 },
      completion_tokens_details: { audio_tokens: 40 },
    })
    expect(sent()).toMatchObject({ modalities: ['text', 'audio'], audio })
  })

  test('streamed: each piece arrives as the provider sent it', async () => {
    upstream.script(replyRaw(stream('Good ', 'morning.')))
    const { status, text } = await ask({ stream: true, stream_options: { include_usage: true } })
    const { chunks, done, ...heard } = heardIn(text)
    expect([status, done]).toEqual([200, true])
    for (const chunk of chunks) expect(OpenAiChunk.parse(chunk)).toEqual(chunk)
    expect(heard.deltas).toEqual([
      { role: 'assistant', audio: { id: 'audio_1' } },
      { audio: { transcript: 'Good ' } },
      { audio: { data: base64('[Good ]') } },
      { audio: { transcript: 'morning.' } },
      { audio: { data: base64('[morning.]') } },
      { audio: { expires_at: 1_900_000_000 } },
      {},
    ])
    expect(chunks.at(-1).usage.completion_tokens_details.audio_tokens).toBe(40)
  })

  test("reaches OpenAI's own client; its id goes out again with the next turn", async () => {
    upstream.script(replyJson(said('Good morning.')), replyJson(said('Yes.')))
    const first = await client().chat.completions.create(spoken)
    const message = first.choices[0]?.message
    expect(message?.audio?.transcript).toBe('Good morning.')
    const messages = [
      ...spoken.messages,
      { role: 'assistant' as const, audio: { id: message?.audio?.id ?? '' } },
      { role: 'user' as const, content: 'Really?' },
    ]
    const second = await client().chat.completions.create({ ...spoken, messages })
    expect(second.choices[0]?.message.audio?.transcript).toBe('Yes.')
    expect((sent().messages as unknown[])[1]).toEqual({ role: 'assistant', content: null, audio: { id: 'audio_1' } })
    // Clients that append the whole message send its data and transcript too.
    upstream.script(replyJson(said('Yes.')))
    const whole = await ask({ messages: [...spoken.messages, message, ...spoken.messages] })
    expect([whole.status, whole.body.gateway.dropped]).toEqual([200, undefined])
    expect((sent().messages as unknown[])[1]).toEqual({ role: 'assistant', content: null, audio: { id: 'audio_1' } })
  })

  test('of text only has no audio', async () => {
    upstream.script(replyJson({ ...said(''), choices: [{ message: { content: 'No voice.' }, finish_reason: 'stop' }] }))
    const { body } = await ask()
    expect(body.choices[0].message).toEqual({ role: 'assistant', content: 'No voice.', refusal: null })
  })

  test('of several choices', async () => {
    const one = said('One.').choices[0]
    const choices = [one, { ...one, index: 1, message: said('Two.').choices[0]?.message }]
    upstream.script(replyJson({ ...said(''), choices }))
    const { body } = await ask({ n: 2 })
    const transcripts = body.choices.map(({ message }: { message: { audio: { transcript: string } } }) => message.audio)
    expect(transcripts).toMatchObject([{ transcript: 'One.' }, { transcript: 'Two.' }])
  })

  test('that breaks off ends with an error', async () => {
    const body = stream('Good ', 'morning.')
    const end = body.indexOf('"stop"')
    for (let at = 60; at < end; at += 97) {
      upstream.script(replyCut(body, at))
      const { status, text } = await ask({ stream: true })
      expect([at, status === 200 && heardIn(text).done]).toEqual([at, false])
    }
  })

  test('is never stored in the answer cache', async () => {
    const gateway = await startGateway({ cache: { enabled: true } })
    gateway.upstream.fallback(replyJson(said('Good morning.')))
    for (let at = 0; at < 2; at++) {
      const use = { headers: { 'x-aigw-cache': 'use' } }
      const { body } = await gateway.call('POST', PATH, { ...spoken, model: 'test/any' }, use)
      expect(body.gateway.cache).toEqual({ status: 'off', why: 'request' })
    }
    expect(gateway.upstream.requests).toHaveLength(2)
    await gateway.close()
  })
})

describe('guards and a spoken answer', () => {
  const CARD = '4111 1111 1111 1111'
  const pii = (action: string) => ({ pii: { enabled: true, action, direction: 'output' } })
  const under = async (policy: object) => {
    const tenant = await addGuardedTenant(shared.current, { policy })
    return { ...tenant, ask: (body: object = {}) => tenant.post(PATH, { ...spoken, ...body }) }
  }
  const streamed = (script: Script) => {
    upstream.script(script)
    return { stream: true }
  }

  test.each(['block', 'mask', 'remove'])('%s: audio whose transcript would change never leaves', async (action) => {
    const { ask: call, bills, incidents } = await under(pii(action))
    upstream.script(replyJson(said(`It is ${CARD}.`)))
    const whole = await call()
    expect([whole.status, whole.body]).toMatchObject([403, { verdict: 'BLOCK' }])
    const { text } = await call(streamed(replyRaw(stream('Your number is ', '4111 1111 ', '1111 1111', '.'))))
    const { chunks, done, data, transcript } = heardIn(text)
    expect([done, data, transcript]).toEqual([false, [], ''])
    expect(chunks.at(-1)).toMatchObject({ error: { code: 'content_blocked' }, verdict: 'BLOCK' })
    expect(text).not.toContain('1111 1111')
    expect((await bills()).map(({ outcome }) => outcome)).toEqual(['filtered', 'filtered'])
    expect(await incidents()).toHaveLength(2)
  })

  test('a harmless transcript passes unchanged, after it was inspected whole', async () => {
    const { ask: call } = await under(pii('block'))
    upstream.script(replyJson(said('Good morning.')))
    expect((await call()).body.choices[0].message.audio.transcript).toBe('Good morning.')
    const { text } = await call(streamed(replyRaw(stream('Good ', 'morning.'))))
    const { done, data, transcript, ids, expires } = heardIn(text)
    expect([done, ids, expires]).toEqual([true, ['audio_1'], [1_900_000_000]])
    expect([transcript, data]).toEqual(['Good morning.', ['[Good ]', '[morning.]']])
  })

  test('nothing of a broken answer leaves; its findings count', async () => {
    const { ask: call, incidents } = await under(pii('block'))
    const body = stream(`It is ${CARD}, `, 'and')
    const { text } = await call(streamed(replyCut(body, body.indexOf('"stop"'))))
    const { data, transcript, done } = heardIn(text)
    expect([data, transcript, done]).toEqual([[], '', false])
    expect(await incidents()).toHaveLength(1)
  })

  test('one blocked transcript blocks all choices', async () => {
    const { ask: call } = await under(pii('block'))
    const one = said('One.').choices[0]
    const choices = [one, { ...one, index: 1, message: said(CARD).choices[0]?.message }]
    upstream.script(replyJson({ ...said(''), choices }))
    expect((await call({ n: 2 })).status).toBe(403)
  })

  test('a rule that only counts does not hold the audio back', async () => {
    const { ask: call, incidents } = await under(pii('log'))
    const { text } = await call(streamed(replyRaw(stream('It is ', CARD))))
    expect([heardIn(text).done, heardIn(text).transcript]).toEqual([true, `It is ${CARD}`])
    expect(await incidents()).toMatchObject([{ action: 'log' }])
  })

  test('a written answer to a request for audio is redacted as usual', async () => {
    const { ask: call } = await under(pii('remove'))
    upstream.script(replyJson({ ...said(''), choices: [{ message: { content: CARD }, finish_reason: 'stop' }] }))
    const { status, body } = await call()
    expect([status, body.choices[0].message.content.includes('1111')]).toEqual([200, false])
  })

  test('the id of earlier audio counts as a file that guards cannot read', async () => {
    const { ask: call } = await under({ unreadFiles: { allowed: false } })
    const messages = [...spoken.messages, { role: 'assistant', audio: { id: 'audio_1' } }, ...spoken.messages]
    const { status, body } = await call({ messages })
    expect([status, body.error.message]).toEqual([403, expect.stringContaining('stored')])
  })
})

describe('a provider without spoken answers', () => {
  const refers = { ...spoken.messages[0], role: 'assistant', content: null, audio: { id: 'audio_1' } }

  test.each(['claude/c', 'gemini/g', 'newer/gpt-5', 'mistral/m', 'local/extract'])('%s rejects them', async (model) => {
    const before = upstream.requests.length
    const { status, body } = await ask({ model })
    expect([status, body.error.message]).toEqual([400, expect.stringMatching(/support audio\..*chat completions/)])
    const messages = [...spoken.messages, refers, ...spoken.messages]
    const later = await ask({ model, messages, audio: undefined, modalities: undefined })
    expect([later.status, later.body.error.message]).toEqual([400, expect.stringContaining('messages.audio')])
    expect(upstream.requests.length).toBe(before)
  })

  test('is skipped if a model of the chain has them', async () => {
    upstream.script(replyJson(said('Good morning.')))
    const { status, body } = await ask({ model: 'claude/c', fallback_models: ['openai/priced'] })
    expect([status, body.model]).toEqual([200, 'openai/priced'])
  })

  test('`modalities: ["text"]` is no option', async () => {
    upstream.script(replyJson({ ...said(''), choices: [{ message: { content: 'Hello.' }, finish_reason: 'stop' }] }))
    expect((await ask({ modalities: ['text'], audio: undefined })).status).toBe(200)
    expect(sent()).not.toHaveProperty('modalities')
  })

  test.each([
    { audio: 'alloy' },
    { audio: { voice: 'alloy' } },
    { audio: { voice: 7, format: 'wav' } },
    { modalities: ['image'] },
    { messages: [...spoken.messages, { ...refers, audio: { id: 'a secret' } }] },
    { messages: [...spoken.messages, { ...refers, audio: 'audio_1' }] },
  ])('malformed: %j', async (body) => {
    expect((await ask(body)).status).toBe(400)
  })
})

describe('the price of a spoken answer', () => {
  async function billOf(model: string) {
    upstream.script(replyJson(said('Good morning.')))
    expect((await ask({ model })).status).toBe(200)
    const rows = await shared.current.app.db
      .selectFrom('evidence_entries')
      .select(['id', 'created_at', 'tenant_id', 'payload'])
      .orderBy('seq', 'desc')
      .limit(1)
      .execute()
    return payloadOf(rows[0] as Parameters<typeof payloadOf>[0]) as unknown as { cost: object; usage: object }
  }

  test('tokens of audio have their own price', async () => {
    const { cost, usage: used } = await billOf('openai/priced')
    // 10 + 10 tokens of text, 20 of audio in the request, 40 of audio in the answer.
    expect(cost).toMatchObject({ nanos: 1_000 * (10 + 20 * 10 + 10 + 40 * 20) })
    expect(cost).not.toHaveProperty('assumed_price')
    expect(used).toMatchObject({ input_tokens: 30, audio_input_tokens: 20, output_tokens: 50, audio_output_tokens: 40 })
  })

  test('without a known price, the price of text applies, and receipt and log say so', async () => {
    expect((await billOf('openai/bare')).cost).toMatchObject({ nanos: 1_000 * 80, assumed_price: true })
    expect(shared.current.log).toContainEqual(
      expect.objectContaining({ level: 'error', message: expect.stringContaining('tokens of audio is unknown') }),
    )
  })

  test('of the bundled list is known', async () => {
    const { cost } = await billOf('openai/gpt-audio')
    expect(cost).toMatchObject({ nanos: 10 * 2_500 + 20 * 32_000 + 10 * 10_000 + 40 * 64_000 })
    expect(cost).not.toHaveProperty('assumed_price')
  })

  test('of an answer that broke off without counts is estimated from the length of the audio', async () => {
    const second = Buffer.alloc(48_000).toString('base64')
    const body = piece({ audio: { id: 'audio_1', transcript: 'Well' } }) + piece({ audio: { data: second } })
    upstream.script(replyCut(body, body.length))
    await ask({ stream: true })
    const [last] = (await shared.current.usage()).slice(-1)
    expect(last?.output_tokens).toBe(21)
  })
})
