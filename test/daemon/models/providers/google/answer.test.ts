import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { googleFormat } from '../../../../../src/daemon/models/providers/google/answer.ts'
import { assembleAnswer } from '../../../../../src/daemon/models/providers/stream/assembly.ts'
import { statusError } from '../../../../../src/daemon/models/providers/stream/failure.ts'
import { splitAt } from '../../../../upstream.ts'
import { fixtures, googleStream, playBody, playStream } from './playback.ts'

test('a stop after the token limit does not make the answer complete, as a stream and as a list', () => {
  const limited = { candidates: [{ content: { parts: [{ text: 'One.' }] }, finishReason: 'MAX_TOKENS', index: 0 }] }
  const stopped = { candidates: [{ finishReason: 'STOP', index: 0 }] }
  const events = [limited, stopped].map((event) => `data: ${JSON.stringify(event)}\n\n`)
  expect(playStream([Buffer.from(events.join(''))])).toMatchObject({ outcome: 'length' })
  expect(playBody(Buffer.from(JSON.stringify([limited, stopped])))).toMatchObject({ outcome: 'length' })
})

const said = (text: string, more: object = {}) =>
  `data: ${JSON.stringify({ candidates: [{ content: { parts: [{ text, ...more }] } }] })}\n\n`
const stopped = `data: ${JSON.stringify({ candidates: [{ finishReason: 'STOP' }] })}\n\n`
const busy = `{\n  "error": {\n    "code": 503,\n    "message": "The model is overloaded.",\n    "status": "UNAVAILABLE"\n  }\n}\n`
const answered = { text: 'One two', outcome: 'complete' }

test.each([
  ['an end marker', [said('One '), said('two'), stopped, 'data: [DONE]\n\n', said('three')], answered],
  ['an end marker before the end', [said('One '), 'data: [DONE]\n\n', stopped], { outcome: 'truncated' }],
  ['heartbeats', [said('One '), 'data: : keepalive\n\n', said('two'), stopped], answered],
  ['one newline between events', [[said('One '), said('two'), stopped].join('').replaceAll('\n\n', '\n')], answered],
  [
    'an event that is cut after its newline',
    [said('One two'), stopped, 'data: {"candidates"\n'],
    { outcome: 'truncated' },
  ],
  [
    'null for what a part does not hold',
    [said('One ', { functionCall: null, inlineData: null }), said('two', { executableCode: null }), stopped],
    answered,
  ],
  ['an error that is no event', [said('One '), busy], { reason: 'server_error', outcome: 'error' }],
  ['a limit that is no event', [said('One '), busy.replace('503', '429')], { reason: 'rate_limit', outcome: 'error' }],
])('a stream with %s gives the same result for any split', (_what, events, expected) => {
  const body = Buffer.from(events.join(''))
  const whole = playStream([body])
  expect(whole).toMatchObject(expected)
  const offsets = Array.from(body.keys())
  expect(offsets.filter((at) => JSON.stringify(playStream(splitAt(body, [at]))) !== JSON.stringify(whole))).toEqual([])
})

test('an unspecified block reason does not block an answer, unless it has no content', () => {
  const promptFeedback = { blockReason: 'BLOCK_REASON_UNSPECIFIED' }
  const candidates = [{ content: { parts: [{ text: 'One.' }] }, finishReason: 'STOP' }]
  const play = (body: object) => playBody(Buffer.from(JSON.stringify(body)))
  expect(play({ promptFeedback, candidates })).toMatchObject({ text: 'One.' })
  expect(play({ promptFeedback })).toMatchObject({ reason: 'content_filter' })
  expect(play({ promptFeedback: { blockReason: 'SAFETY' }, candidates })).toMatchObject({ reason: 'content_filter' })
})

test('two answers in one response are a failure', () => {
  const candidate = { content: { parts: [{ text: 'One.' }] }, finishReason: 'STOP' }
  expect(playBody(Buffer.from(JSON.stringify({ candidates: [candidate, candidate] })))).toMatchObject({
    reason: 'server_error',
  })
})

const streams = fixtures().filter(({ stream }) => stream)
const bodies = fixtures().filter(({ stream }) => !stream)

describe('recorded streams', () => {
  test.each(streams)('$file gives its documented result', ({ bytes, answer, failure }) => {
    expect(playStream([bytes])).toMatchObject(answer ?? failure ?? {})
  })

  test.each(streams)('$file gives the same result when split in two at any byte, and byte by byte', ({ bytes }) => {
    const whole = JSON.stringify(playStream([bytes]))
    const offsets = Array.from(bytes.keys())
    expect(offsets.filter((at) => JSON.stringify(playStream(splitAt(bytes, [at]))) !== whole)).toEqual([])
    expect(JSON.stringify(playStream(splitAt(bytes, offsets)))).toBe(whole)
  })

  test('any text and any arguments survive any split', () => {
    const cuts = fc.array(fc.nat(3000), { maxLength: 20 })
    const args = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue({ noUnicodeString: false }))
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary' })), args, fc.boolean(), cuts, (texts, given, crlf, offsets) => {
        const call = { functionCall: { name: 'tool', args: given } }
        const body = googleStream([...texts.map((text) => [{ text }]), [call]])
        const played = playStream(splitAt(crlf ? body.replaceAll('\n', '\r\n') : body, offsets))
        expect(played).toMatchObject({ text: texts.join(''), outcome: 'complete' })
        expect(played).toMatchObject({ toolCalls: [{ arguments: JSON.stringify(given) }] })
      }),
      { numRuns: 200 },
    )
  })

  test('no answer is complete without its last response, wherever the stream ends', () => {
    const body = Buffer.from(googleStream([[{ text: 'One ' }], [{ text: 'two ' }], [{ text: 'three.' }]]))
    const lastByte = body.length - 2
    for (let at = 0; at <= body.length; at++) {
      const { outcome } = playStream([body.subarray(0, at)])
      expect({ at, outcome }).toEqual({ at, outcome: at < lastByte ? 'truncated' : 'complete' })
    }
  })

  test('an event of a megabyte is one piece of text', () => {
    const text = 'ä'.repeat(500_000)
    const body = Buffer.from(googleStream([[{ text }]]))
    expect(playStream(splitAt(body, [1, 65_536, 65_537, 700_001]))).toMatchObject({ text, outcome: 'complete' })
  })

  test('one read gives one batch with all its parts', () => {
    const assembly = assembleAnswer(googleFormat)
    const call = { functionCall: { name: 'now' }, thoughtSignature: 'QUJD' }
    const parts = [...assembly.take(Buffer.from(googleStream([[{ text: 'a' }], [call]]))), ...assembly.take(null)]
    expect(parts.map(({ type }) => type)).toEqual(['text', 'reasoning', 'tool_call', 'end'])
  })
})

describe('recorded bodies', () => {
  test.each(bodies)('$file gives its documented result', ({ bytes, answer, failure }) => {
    expect(playBody(bytes)).toMatchObject(answer ?? failure ?? {})
  })
})

test("logprobs are passed with their text, in the callers' format", () => {
  const logprobsResult = {
    chosenCandidates: [{ token: 'é', tokenId: 7, logProbability: -0.5 }],
    topCandidates: [
      {
        candidates: [
          { token: 'é', logProbability: -0.5 },
          { token: 'e', logProbability: -1.5 },
        ],
      },
    ],
  }
  const candidate = { content: { parts: [{ text: 'é' }] }, finishReason: 'STOP', logprobsResult }
  const best = { token: 'é', logprob: -0.5, bytes: [195, 169] }
  expect(googleFormat.decodeBody({ candidates: [candidate] })[0]).toEqual({
    type: 'text',
    text: 'é',
    logprobs: { content: [{ ...best, top_logprobs: [best, { token: 'e', logprob: -1.5, bytes: [101] }] }] },
  })
})

describe('a status other than 200', () => {
  const failure = (code: number, status: string, message: string, details: object[] = []) =>
    statusError(code, {}, JSON.stringify({ error: { code, status, message, details } }), 0)

  test.each([
    [400, 'INVALID_ARGUMENT', 'Please use a valid role: user, model.', 'bad_request', false],
    [400, 'INVALID_ARGUMENT', 'API key not valid. Please pass a valid API key.', 'auth_failed', true],
    [400, 'FAILED_PRECONDITION', 'User location is not supported for the API use.', 'auth_failed', true],
    [400, 'INVALID_ARGUMENT', 'The input token count exceeds the maximum number of tokens', 'context_length', false],
    [403, 'PERMISSION_DENIED', 'no', 'auth_failed', true],
    [404, 'NOT_FOUND', 'models/x is not found', 'model_not_found', true],
    [429, 'RESOURCE_EXHAUSTED', 'Quota exceeded', 'rate_limit', false],
    [500, 'INTERNAL', 'x', 'server_error', false],
    [503, 'UNAVAILABLE', 'The model is overloaded.', 'server_error', false],
    [504, 'DEADLINE_EXCEEDED', 'x', 'server_error', false],
  ])('%i %s "%s" is %s, alarm %s', (code, status, message, reason, alarm) => {
    const error = failure(code, status, message)
    expect(error).toMatchObject({ reason, alarm, upstreamStatus: code })
    expect(error.message).toBe(`The provider answered ${code} (${status}).`)
  })

  test('reads the requested wait from the body, also from a list', () => {
    const retry = { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '39.4s' }
    expect(failure(429, 'RESOURCE_EXHAUSTED', 'x', [{ reason: 'RATE' }, retry]).retryAfterSeconds).toBe(40)
    const list = JSON.stringify([{ error: { code: 429, status: 'RESOURCE_EXHAUSTED', details: [retry] } }])
    const error = statusError(429, { 'retry-after': '3' }, list, 0)
    expect(error).toMatchObject({ retryAfterSeconds: 3, message: 'The provider answered 429 (RESOURCE_EXHAUSTED).' })
    expect(statusError(429, {}, list, 0).retryAfterSeconds).toBe(40)
  })
})
