import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Envelope } from '../../../../../src/daemon/gateway/chat/answer-contract.ts'
import { responsesWording } from '../../../../../src/daemon/gateway/surfaces/responses/events.ts'
import { responsesSurface } from '../../../../../src/daemon/gateway/surfaces/responses/response.ts'
import { toTools } from '../../../../../src/daemon/gateway/surfaces/responses/tools.ts'
import type { ChatPart } from '../../../../../src/daemon/models/provider.ts'
import type { ChatMetadata } from '../../../../../src/shared/wire/chat.ts'
import { ResponsesEvent, ResponsesRequest, ResponsesResponse } from '../../../../../src/shared/wire/responses.ts'

const metadata: ChatMetadata = {
  conversation_id: 'c',
  index_used: 'Zero-Knowledge',
  smltp_policy_used: 'internal',
  smltp_policy_source: 'request',
  smltp_policy_hash: null,
  prompt_shield_policy: null,
  served_model: 'p/m',
  smltp: { bundle_id: 'jti-1', receipt_url: '/api/external/receipts/jti-1' },
  requested_model: 'p/m',
  rag_enabled: false,
  documents_retrieved: 0,
  sources: [],
}
const envelope: Envelope = { id: 'req-1', created: 7, model: 'p/m', metadata, changed: [], dropped: [] }
const usage = {
  ...{ inputTokens: 3, outputTokens: 2, cacheReadTokens: 1, cacheWriteTokens: 0, reasoningTokens: 1 },
  estimated: false,
}
const fault = { error: 'e', message: 'The answer is incomplete.', reason: 'server_error', retryable: true }

function asked(fields: object = {}) {
  const request = ResponsesRequest.parse({ model: 'p/m', input: 'hi', ...fields })
  return { request, tools: toTools(request), dropped: [] }
}

function eventsOf(frames: string): ResponsesEvent[] {
  return frames
    .split('\n\n')
    .slice(0, -1)
    .map((frame) => {
      const [, name, data = ''] = /^event: (\S+)\ndata: (.*)$/.exec(frame) ?? []
      const event = ResponsesEvent.parse(JSON.parse(data))
      expect(event.type).toBe(name)
      return event
    })
}

const ENDS = ['response.completed', 'response.incomplete', 'response.failed']

/** Checks the rules of every stream, and returns its events. */
function check(frames: string): ResponsesEvent[] {
  const events = eventsOf(frames)
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at))
  expect(events.slice(0, 2).map(({ type }) => type)).toEqual(['response.created', 'response.in_progress'])
  expect(events.filter(({ type }) => ENDS.includes(type))).toHaveLength(1)
  expect(ENDS).toContain(events.at(-1)?.type)
  return events
}

const text = (words: string): ChatPart => ({ type: 'text', text: words })
const call = (index: number, piece: { id?: string; name?: string; arguments: string }): ChatPart => ({
  type: 'tool_call',
  index,
  ...piece,
})

test('a text has the events of the original, in order', () => {
  const wording = responsesWording(envelope, asked())
  const events = check(wording.say([text('Hel')]) + wording.say([text('lo')]) + wording.end('stop', usage))
  expect(events.map(({ type }) => type)).toEqual([
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.delta',
    'response.output_text.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.completed',
  ])
  expect(events.at(-1)).toMatchObject({
    response: {
      id: 'resp_1',
      object: 'response',
      created_at: 7,
      status: 'completed',
      store: false,
      error: null,
      incomplete_details: null,
      model: 'p/m',
      output: [
        { id: 'msg_1_0', type: 'message', status: 'completed', role: 'assistant', content: [{ text: 'Hello' }] },
      ],
      usage: {
        input_tokens: 3,
        input_tokens_details: { cached_tokens: 1 },
        output_tokens: 2,
        output_tokens_details: { reasoning_tokens: 1 },
        total_tokens: 5,
      },
      gateway: { served_model: 'p/m' },
    },
  })
})

test('an answer without parts is a complete stream too', () => {
  const events = check(responsesWording(envelope, asked()).end('stop', usage))
  expect(events.at(-1)).toMatchObject({ response: { status: 'completed', output: [] } })
})

test.each([
  ['length', 'max_output_tokens'],
  ['content_filter', 'content_filter'],
] as const)('finish %s is incomplete', (finish, reason) => {
  const wording = responsesWording(envelope, asked())
  const events = check(wording.say([text('Hel')]) + wording.end(finish, usage))
  expect(events.at(-1)).toMatchObject({
    type: 'response.incomplete',
    response: {
      status: 'incomplete',
      incomplete_details: { reason },
      output: [{ status: 'incomplete', content: [{ text: 'Hel' }] }],
    },
  })
})

test('a broken answer is failed, and its open item never done', () => {
  const wording = responsesWording(envelope, asked())
  const events = check(wording.say([text('Hel')]) + wording.fail({ ...fault, reason: 'rate_limit' }))
  expect(events.map(({ type }) => type)).not.toContain('response.output_item.done')
  expect(events.at(-1)).toMatchObject({
    type: 'response.failed',
    response: {
      status: 'failed',
      error: { code: 'rate_limit_exceeded', message: fault.message },
      output: [{ status: 'incomplete', content: [{ text: 'Hel' }] }],
      usage: null,
    },
    error: { code: 'rate_limit_exceeded', message: fault.message },
  })
})

test('an answer that breaks before its first part is failed', () => {
  const verdict = { verdict: 'BLOCK' as const, attack_category: null, trace_id: 't' }
  const events = check(responsesWording(envelope, asked()).fail({ ...fault, verdict }))
  expect(events.at(-1)).toMatchObject({ type: 'response.failed', verdict: 'BLOCK', trace_id: 't' })
})

test('reasoning is a summary, with what its provider needs to get back', () => {
  const wording = responsesWording(envelope, asked())
  const frames = wording.say([
    { type: 'reasoning', text: 'Hm', origin: 'anthropic' },
    { type: 'reasoning', text: '', origin: 'anthropic', signature: 'sig' },
    text('Yes.'),
  ])
  const events = check(frames + wording.end('stop', usage))
  expect(events.map(({ type }) => type).slice(2, 8)).toEqual([
    'response.output_item.added',
    'response.reasoning_summary_part.added',
    'response.reasoning_summary_text.delta',
    'response.reasoning_summary_text.done',
    'response.reasoning_summary_part.done',
    'response.output_item.done',
  ])
  expect(events.at(-1)).toMatchObject({
    response: {
      output: [
        {
          type: 'reasoning',
          summary: [{ type: 'summary_text', text: 'Hm' }],
          encrypted_content: expect.stringMatching(/^aigw\./),
        },
        { type: 'message' },
      ],
    },
  })
})

const CUSTOM = { tools: [{ type: 'custom', name: 'apply_patch' }] }

test('a call of a custom tool has its input as text', () => {
  const wording = responsesWording(envelope, asked(CUSTOM))
  const frames = wording.say([
    call(0, { id: 'c0', name: 'apply_patch', arguments: '{"inp' }),
    call(0, { arguments: 'ut":"*** Begin\\n\\"x\\""}' }),
  ])
  const events = check(frames + wording.end('stop', usage))
  const input = '*** Begin\n"x"'
  expect(events.slice(2, -1)).toMatchObject([
    { type: 'response.output_item.added', item: { type: 'custom_tool_call', input: '', status: 'in_progress' } },
    { type: 'response.custom_tool_call_input.delta', delta: input },
    { type: 'response.custom_tool_call_input.done', input },
    {
      type: 'response.output_item.done',
      item: { call_id: 'c0', name: 'apply_patch', input, status: 'completed' },
    },
  ])
})

test('a call that the token limit cut off is incomplete', () => {
  const wording = responsesWording(envelope, asked())
  const frames = wording.say([call(0, { id: 'c0', name: 'look', arguments: '{"at":' })])
  const events = check(frames + wording.end('length', usage))
  expect(events.at(-1)).toMatchObject({
    response: { output: [{ type: 'function_call', status: 'incomplete', arguments: '{"at":' }] },
  })
})

test('a piece of an unknown call is a failure of the provider', () => {
  const wording = responsesWording(envelope, asked())
  expect(() => wording.say([call(0, { arguments: '{}' })])).toThrow('out of order')
})

/** Parts as providers send them: text, reasoning and calls whose pieces may be interleaved. */
const anyParts = fc
  .array(
    fc.oneof(
      fc.string({ minLength: 1 }).map((words) => [text(words)]),
      fc
        .tuple(fc.string({ minLength: 1 }), fc.constantFrom('anthropic', 'google'), fc.option(fc.base64String()))
        .map(([words, origin, signature]): ChatPart[] => [
          { type: 'reasoning', text: words, origin },
          ...(signature === null ? [] : [{ type: 'reasoning' as const, text: '', origin, signature }]),
        ]),
      fc
        .array(fc.tuple(fc.constantFrom('look', 'apply_patch'), fc.string()), { minLength: 1, maxLength: 3 })
        .map((calls): ChatPart[] => [
          ...calls.map(([name], at) => call(at, { id: `c${at}`, name, arguments: '{"input":' })),
          ...calls.map(([, words], at) => call(at, { arguments: `${JSON.stringify(words)}}` })),
        ]),
    ),
    { maxLength: 6 },
  )
  .map((groups) => {
    let calls = 0
    return groups.map((group) => {
      const base = calls
      calls += group.filter((part) => part.type === 'tool_call' && part.id !== undefined).length
      return group.map((part) =>
        part.type === 'tool_call'
          ? { ...part, index: part.index + base, ...(part.id && { id: `c${part.index + base}` }) }
          : part,
      )
    })
  })

describe('any answer', () => {
  test('adds and ends each item once, and equals the answer that is not streamed', async () => {
    await fc.assert(
      fc.asyncProperty(anyParts, fc.constantFrom('stop', 'length'), async (groups, finish) => {
        const given = asked(CUSTOM)
        const wording = responsesWording(envelope, given)
        const events = check(groups.map((parts) => wording.say(parts)).join('') + wording.end(finish, usage))
        const at = (type: string) =>
          events.flatMap((event) => (event.type === type && 'output_index' in event ? event.output_index : []))
        const last = events.at(-1)
        const response = last && 'response' in last ? last.response : undefined
        const indexes = response?.output.map((_, index) => index) ?? []
        expect(at('response.output_item.added')).toEqual(indexes)
        expect(at('response.output_item.done').sort((a, b) => a - b)).toEqual(indexes)
        const done = events.flatMap((event) => (event.type === 'response.output_item.done' ? [event] : []))
        for (const { output_index, item } of done) expect(response?.output[output_index]).toEqual(item)

        const whole = responsesSurface(given).whole(envelope)
        whole.add(groups.flat())
        const { body: text } = await whole.close(finish, usage, false)
        const body: unknown = JSON.parse(text)
        expect(ResponsesResponse.parse(body)).toEqual(response)
      }),
    )
  })

  test('may break anywhere, and is then failed', () => {
    fc.assert(
      fc.property(anyParts, fc.nat(20), (groups, cut) => {
        const wording = responsesWording(envelope, asked(CUSTOM))
        const events = check(wording.say(groups.flat().slice(0, cut)) + wording.fail(fault))
        expect(events.at(-1)?.type).toBe('response.failed')
      }),
    )
  })
})
