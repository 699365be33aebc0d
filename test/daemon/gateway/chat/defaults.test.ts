import { describe, expect, test } from 'vitest'
import { sharedGateway, startGateway, upstreamProvider } from '../../../harness.ts'
import { chatJson, replyJson, startUpstream } from '../../../upstream.ts'

describe('the conversion of a chat request for the model', () => {
  const gateway = sharedGateway()

  async function sent(body: Record<string, unknown>): Promise<Record<string, unknown>> {
    const answer = await gateway.current.chat(body)
    expect(answer.status, answer.text).toBe(200)
    return (await gateway.current.upstream.nextRequest()).body as Record<string, unknown>
  }

  test.each([
    ['temperature defaults to 0.7', {}, { temperature: 0.7 }],
    ['temperature is clamped to 2', { temperature: 9 }, { temperature: 2 }],
    ['temperature is clamped to 0', { temperature: -1 }, { temperature: 0 }],
    ['temperature null is the default', { temperature: null }, { temperature: 0.7 }],
    ['max_tokens defaults to 1000', {}, { max_tokens: 1000 }],
    ['max_tokens is capped at 4000', { max_tokens: 100_000 }, { max_tokens: 4000 }],
    ['max_tokens far above is capped too', { max_tokens: 1e16 }, { max_tokens: 4000 }],
    ['max_tokens 1 stays', { max_tokens: 1 }, { max_tokens: 1 }],
    ['the model loses its provider prefix only', { model: 'test/meta-llama/llama-3' }, { model: 'meta-llama/llama-3' }],
    ['`models` overrides `model`', { models: ['test/b'] }, { model: 'b' }],
    ['a prompt is one user message', {}, { messages: [{ role: 'user', content: 'hi' }] }],
    [
      'system_message comes first',
      { system_message: 'Be brief.' },
      {
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'hi' },
        ],
      },
    ],
  ])('%s', async (_promise, body, expected) => {
    expect(await sent({ prompt: 'hi', ...body })).toMatchObject(expected)
  })

  test('messages keep their order and their system message', async () => {
    const messages = [
      { role: 'system', content: 's' },
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
      { role: 'user', content: 'c' },
    ]
    expect(await sent({ messages })).toMatchObject({ messages })
  })

  test('100 messages and exactly 256 KB are accepted', async () => {
    const messages = Array.from({ length: 100 }, () => ({ role: 'user', content: 'x'.repeat(2621) }))
    messages.push({ role: 'user', content: 'x'.repeat(262_144 - 99 * 2621) })
    messages.shift()
    await sent({ messages })
  })

  test('the upstream never receives the caller’s key, only the provider’s', async () => {
    await gateway.current.chat({ prompt: 'hi' })
    const { headers, rawBody } = await gateway.current.upstream.nextRequest()
    expect(headers.authorization).toBe('Bearer sk-upstream-secret')
    expect(JSON.stringify(headers) + rawBody).not.toContain(gateway.current.adminKey)
  })

  test('conversation_id is generated if absent, and the source of a requested policy is reported', async () => {
    const { body } = await gateway.current.chat({ prompt: 'hi', smltp_policy: 'public' })
    expect(body.metadata).toMatchObject({
      conversation_id: expect.stringMatching(/^conv-[0-9a-f]{24}$/),
      smltp_policy_used: 'public',
      smltp_policy_source: 'request',
    })
    await gateway.current.upstream.nextRequest()
  })

  test('gateway fields are not forwarded', async () => {
    const body = await sent({ prompt: 'hi', use_rag: false, smltp_policy: 'public', conversation_id: 'c1' })
    expect(Object.keys(body).sort()).toEqual(['max_tokens', 'messages', 'model', 'stream', 'temperature'])
  })
})

test("a model that rejects a temperature does not get our default, only the caller's value", async () => {
  const upstream = await startUpstream()
  upstream.fallback(replyJson(chatJson('Hello.')))
  const gateway = await startGateway({ providers: [upstreamProvider('openai', upstream.url)] })
  const sent = async (model: string, given: object = {}) => {
    expect((await gateway.chat({ prompt: 'hi', model, ...given })).status).toBe(200)
    return (await upstream.nextRequest()).body as Record<string, unknown>
  }
  const silent = await sent('openai/gpt-5')
  expect(silent).toMatchObject({ max_completion_tokens: 1000 })
  expect(silent).not.toHaveProperty('temperature')
  expect(await sent('openai/gpt-5', { temperature: 1 })).toMatchObject({ temperature: 1 })
  expect(await sent('openai/gpt-4o')).toMatchObject({ temperature: 0.7 })
  await upstream.close()
})
