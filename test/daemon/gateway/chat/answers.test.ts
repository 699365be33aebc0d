import { expect, test } from 'vitest'
import { ChatFrame, ChatResponse } from '../../../../src/shared/wire/chat.ts'
import { describeEachEngine } from '../../../engines.ts'
import { startGateway, textOf } from '../../../harness.ts'
import { chatJson, chatStream, replyJson, replyRaw, replySplit } from '../../../upstream.ts'

const usage = { prompt_tokens: 12, completion_tokens: 7 }

describeEachEngine('a chat answered by an OpenAI-compatible upstream', (engine) => {
  test('complete: envelope, usage and metadata follow the contract, with one usage row', async () => {
    const gateway = await startGateway({ engine })
    gateway.upstream.script(replyJson(chatJson('Forty-two.', { usage })))
    const { status, headers, body } = await gateway.chat({ prompt: 'What is it?', conversation_id: 'conv-1' })
    expect(status).toBe(200)
    expect(headers['content-type']).toBe('application/json')
    expect(body).toEqual({
      success: true,
      id: headers['x-request-id'],
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'test/any',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Forty-two.' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 12, completion_tokens: 7, total_tokens: 19, input_tokens: 12, output_tokens: 7 },
      metadata: {
        conversation_id: 'conv-1',
        index_used: 'Zero-Knowledge',
        smltp_policy_used: 'internal',
        smltp_policy_source: 'system_default',
        smltp_policy_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
        prompt_shield_policy: null,
        served_model: 'test/any',
        requested_model: 'test/any',
        smltp: {
          bundle_id: headers['x-smltp-bundle-id'],
          receipt_url: `/api/external/receipts/${headers['x-smltp-bundle-id']}`,
        },
        rag_enabled: false,
        documents_retrieved: 0,
        sources: [],
      },
    })
    expect(ChatResponse.parse(body)).toEqual(body)
    expect(await gateway.usage()).toEqual([
      expect.objectContaining({
        request_id: body.id,
        outcome: 'complete',
        streamed: 0,
        served_model: 'test/any',
        input_tokens: 12,
        output_tokens: 7,
        tokens_estimated: 0,
      }),
    ])
  })

  test('streamed: metadata, chunks, usage, [DONE], in that order, and one usage row', async () => {
    const gateway = await startGateway({ engine })
    gateway.upstream.script(replyRaw(chatStream(['Forty', '-two', '.'], { usage })))
    const { status, headers, frames, done } = await gateway.stream({ prompt: 'What is it?' })
    expect(status).toBe(200)
    expect(headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
    })
    expect(done).toBe(true)
    for (const frame of frames) expect(ChatFrame.parse(frame)).toEqual(frame)
    expect(frames.map((frame) => frame.type)).toEqual(['metadata', 'chunk', 'chunk', 'chunk', 'chunk', 'usage'])
    const id = headers['x-request-id']
    expect(frames[0]?.data).toMatchObject({ success: true, id, object: 'chat.completion', model: 'test/any' })
    expect(frames[1]?.data).toEqual({
      id,
      object: 'chat.completion.chunk',
      model: 'test/any',
      choices: [{ index: 0, delta: { role: 'assistant', content: 'Forty' }, finish_reason: null }],
    })
    expect(frames[2]?.data).toMatchObject({ choices: [{ delta: { content: '-two' }, finish_reason: null }] })
    expect(frames[4]?.data).toMatchObject({ choices: [{ delta: {}, finish_reason: 'stop' }] })
    expect(frames[5]?.data).toEqual({ usage: { prompt_tokens: 12, completion_tokens: 7, total_tokens: 19 } })
    expect(await gateway.usage()).toEqual([
      expect.objectContaining({ request_id: id, outcome: 'complete', streamed: 1, input_tokens: 12, output_tokens: 7 }),
    ])
  })

  test('a stream split into single bytes gives the same result', async () => {
    const gateway = await startGateway({ engine })
    const body = chatStream(['Grüße', ' 👋🏽', ' "quoted"\n'], { usage })
    gateway.upstream.script(replySplit(body, [...Buffer.from(body).keys()]))
    const { frames, done } = await gateway.stream({ prompt: 'hi' })
    expect(textOf(frames)).toBe('Grüße 👋🏽 "quoted"\n')
    expect(done).toBe(true)
  })

  test('finish_reason reports the token limit and withheld text', async () => {
    const gateway = await startGateway({ engine })
    gateway.upstream.script(
      replyJson(chatJson('cut', { finishReason: 'length', usage })),
      replyRaw(chatStream(['withheld'], { finishReason: 'content_filter', usage })),
    )
    expect((await gateway.chat({ prompt: 'hi' })).body.choices[0]?.finish_reason).toBe('length')
    const { frames } = await gateway.stream({ prompt: 'hi' })
    expect(frames.at(-2)?.data).toMatchObject({ choices: [{ finish_reason: 'content_filter' }] })
    expect((await gateway.usage()).map((row) => row.outcome)).toEqual(['length', 'filtered'])
  })

  test('an upstream without token counts is billed by our own count, marked as an estimate', async () => {
    const gateway = await startGateway({ engine })
    gateway.upstream.script(replyJson(chatJson('A short answer.')))
    const { body } = await gateway.chat({ prompt: 'A question of some words?' })
    expect(body.usage.prompt_tokens).toBeGreaterThan(0)
    expect(body.usage.completion_tokens).toBeGreaterThan(0)
    expect(await gateway.usage()).toEqual([
      expect.objectContaining({ tokens_estimated: 1, output_tokens: body.usage.completion_tokens }),
    ])
  })
})
