import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { CompletionChunk, CompletionResponse } from '../../../../../src/shared/wire/completions.ts'
import { describeEachEngine } from '../../../../engines.ts'
import { sharedGateway, startGateway } from '../../../../harness.ts'
import { chatJson, chatStream, replyCut, replyJson, replyRaw } from '../../../../upstream.ts'

const PATH = '/v1/completions'
const usage = { prompt_tokens: 12, completion_tokens: 7, total_tokens: 19 }
const hello = { model: 'test/any', prompt: 'Once upon a time' }

describeEachEngine('a completion', (engine) => {
  test('is the answer to the prompt, billed once, and replayed for a repeat', async () => {
    const gateway = await startGateway({ engine })
    gateway.upstream.script(replyJson(chatJson('there was a lift.', { usage })))
    const ask = () => gateway.call('POST', PATH, hello, { headers: { 'idempotency-key': 'k' } })
    const { status, headers, body, text } = await ask()
    expect([status, body]).toEqual([
      200,
      {
        id: String(headers['x-request-id']).replace('req-', 'cmpl-'),
        object: 'text_completion',
        created: expect.any(Number),
        model: 'test/any',
        choices: [{ text: 'there was a lift.', index: 0, logprobs: null, finish_reason: 'stop' }],
        usage: expect.objectContaining({ prompt_tokens: 12, completion_tokens: 7, total_tokens: 19 }),
        gateway: expect.objectContaining({ served_model: 'test/any' }),
      },
    ])
    expect(CompletionResponse.safeParse(body).error).toBeUndefined()
    expect(gateway.upstream.requests.at(-1)?.body).toEqual({
      model: 'any',
      stream: false,
      messages: [{ role: 'user', content: 'Once upon a time' }],
    })
    expect((await ask()).text).toBe(text)
    expect(await gateway.usage()).toMatchObject([{ route: '/api/external/v1/completions', output_tokens: 7 }])
  })
})

const shared = sharedGateway()
const client = () => new OpenAI({ apiKey: shared.current.adminKey, baseURL: `${shared.current.url}/v1`, maxRetries: 0 })
const post = (body: object) => shared.current.call('POST', PATH, { ...hello, ...body })

describe("OpenAI's own client", () => {
  test('gets a stream with its usage', async () => {
    shared.current.upstream.script(replyRaw(chatStream(['there ', 'was'], { finishReason: 'length', usage })))
    const stream = await client().completions.create({
      ...hello,
      stream: true,
      stream_options: { include_usage: true },
    })
    const chunks = []
    for await (const chunk of stream) chunks.push(chunk)
    for (const chunk of chunks) expect(CompletionChunk.safeParse(chunk).error).toBeUndefined()
    expect(
      chunks
        .flatMap(({ choices }) => choices)
        .map(({ text }) => text)
        .join(''),
    ).toBe('there was')
    expect(chunks.flatMap(({ choices }) => choices).at(-1)?.finish_reason).toBe('length')
    expect(chunks.at(-1)?.usage).toMatchObject({ total_tokens: 19 })
  })

  test('gets an error for a stream that breaks', async () => {
    const whole = chatStream(['there ', 'was'], { usage })
    shared.current.upstream.script(replyCut(whole, whole.indexOf('was') + 10))
    const stream = await client().completions.create({ ...hello, stream: true })
    const texts: string[] = []
    await expect(
      (async () => {
        for await (const { choices } of stream) texts.push(choices[0]?.text ?? '')
      })(),
    ).rejects.toThrow('incomplete')
    expect(texts.join('')).toBe('there ')
  })
})

test('options are forwarded, and unknown members are reported', async () => {
  const { body } = await post({
    prompt: ['Hi'],
    max_tokens: 5,
    stop: 'END',
    best_of: 1,
    echo: false,
    suffix: null,
    logit_bias: {},
  })
  expect(shared.current.upstream.requests.at(-1)?.body).toMatchObject({
    max_tokens: 5,
    stop: ['END'],
    messages: [{ role: 'user', content: 'Hi' }],
  })
  expect(body.gateway.dropped).toEqual([{ field: 'logit_bias', why: 'gateway' }])
})

test.each([
  [{ prompt: ['one', 'two'] }, 'one text'],
  [{ prompt: [1, 2] }, 'not tokens'],
  [{ prompt: '' }, 'must not be empty'],
  [{ suffix: 'the end' }, 'suffix is not supported'],
  [{ echo: true }, 'echo is not supported'],
  [{ best_of: 2 }, 'best_of must be 1'],
  [{ n: 0 }, 'n must be at least 1'],
  [{ logprobs: 3 }, '/v1/chat/completions'],
  [{ model: undefined }, 'must provide a model'],
])('a 400 says what is wrong: %#', async (body, message) => {
  const answer = await post(body)
  expect([answer.status, answer.body.error.message]).toEqual([400, expect.stringContaining(message)])
})
