import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bedrockFormat } from '../../../../../src/daemon/models/providers/bedrock/answer.ts'
import { assembleAnswer } from '../../../../../src/daemon/models/providers/stream/assembly.ts'
import { statusError } from '../../../../../src/daemon/models/providers/stream/failure.ts'
import { splitAt } from '../../../../upstream.ts'
import { argumentPieces } from '../../argument-pieces.ts'
import {
  answerEvents,
  bodyFixtures,
  type Event,
  encode,
  encodeAll,
  plainBytes,
  playBody,
  playStream,
  streamFixtures,
} from './playback.ts'

const streams = streamFixtures()

describe('recorded streams', () => {
  test.each(streams)('$name gives its documented result', ({ events, answer, failure }) => {
    const played = playStream([encodeAll(events)])
    if (answer) expect(played).toEqual(answer)
    else expect(played).toMatchObject(failure ?? { reason: 'an expectation is missing' })
  })

  test.each(streams)('$name gives the same result when split in two at any byte, and byte by byte', ({ events }) => {
    const bytes = encodeAll(events)
    const whole = JSON.stringify(playStream([bytes]))
    const offsets = Array.from(bytes.keys())
    expect(offsets.filter((at) => JSON.stringify(playStream(splitAt(bytes, [at]))) !== whole)).toEqual([])
    expect(JSON.stringify(playStream(splitAt(bytes, offsets)))).toBe(whole)
  })

  test('reads the bytes of the published format', () => {
    expect(playStream([plainBytes()])).toEqual(streams[0]?.answer)
  })

  test('any texts and arguments survive any split', () => {
    const cuts = fc.array(fc.nat(6000), { maxLength: 20 })
    const texts = fc.array(fc.string({ unit: 'binary' }))
    fc.assert(
      fc.property(texts, argumentPieces, cuts, (said, pieces, offsets) => {
        const call: Event[] = [
          ['contentBlockStart', { contentBlockIndex: 1, start: { toolUse: { toolUseId: 'id', name: 'tool' } } }],
          ...pieces.map(
            (input): Event => ['contentBlockDelta', { contentBlockIndex: 1, delta: { toolUse: { input } } }],
          ),
        ]
        const [start, ...rest] = answerEvents(said)
        const bytes = encodeAll([start as Event, ...call, ...rest])
        expect(playStream(splitAt(bytes, offsets))).toMatchObject({
          text: said.join(''),
          toolCalls: [{ id: 'id', name: 'tool', arguments: pieces.join('') || '{}' }],
          outcome: 'complete',
        })
      }),
      { numRuns: 100 },
    )
  })

  test('the end of an unknown call, and a better end after a worse one, are rejected', () => {
    const call = encodeAll(answerEvents(['One.'], { stopReason: 'tool_use' }))
    expect(playStream([call])).toMatchObject({ reason: 'server_error', outcome: 'error' })
    const limited = answerEvents(['One.'], { stopReason: 'max_tokens' })
    const twice = [...limited.slice(0, -1), ['messageStop', { stopReason: 'end_turn' }] as Event, ...limited.slice(-1)]
    expect(playStream([encodeAll(twice)])).toMatchObject({ outcome: 'length' })
  })

  test('no answer is complete without its stop, wherever the stream ends', () => {
    const events = answerEvents(['One ', 'two ', 'three.'])
    const bytes = encodeAll(events)
    const stopped = bytes.length - encode(events.at(-1) as Event).length
    for (let at = 0; at <= bytes.length; at++) {
      const { outcome } = playStream([bytes.subarray(0, at)])
      expect({ at, outcome }).toEqual({ at, outcome: at < stopped ? 'truncated' : 'complete' })
    }
  })

  test('a corrupted byte never gives a valid answer', () => {
    const events = answerEvents(['One.']).slice(0, -1)
    const bytes = encodeAll(events)
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed.writeUInt8((bytes[at] as number) ^ 0x40, at)
      expect({ at, outcome: playStream([changed]).outcome }).not.toMatchObject({ outcome: 'complete' })
    }
  })

  test('text before a corruption in the same bytes is still passed on', () => {
    const [start, text, stop] = answerEvents(['One.']).map(encode) as [Buffer, Buffer, Buffer]
    stop.writeUInt8(stop.readUInt8(20) ^ 1, 20)
    const assembly = assembleAnswer(bedrockFormat)
    expect(assembly.take(Buffer.concat([start, text, stop]))).toEqual([{ type: 'text', text: 'One.' }])
    expect(() => assembly.take(null)).toThrow('The provider sent a damaged event.')
  })

  test('an event of a megabyte is one piece of text, and one over the limit ends the answer early', () => {
    const text = 'ä'.repeat(500_000)
    const bytes = encodeAll(answerEvents([text]))
    expect(playStream(splitAt(bytes, [1, 65_536, 65_537, 700_001]))).toMatchObject({ text, outcome: 'complete' })
    expect(playStream([Buffer.from([0x01, 0x00, 0x00, 0x01])])).toMatchObject({ reason: 'server_error' })
  })
})

describe('recorded bodies', () => {
  test.each(bodyFixtures())('$name gives its documented result', ({ body, answer, failure }) => {
    const played = playBody(body)
    if (answer) expect(played).toEqual(answer)
    else expect(played).toMatchObject(failure ?? { reason: 'an expectation is missing' })
  })
})

describe('a status other than 200', () => {
  test.each([
    [400, 'ValidationException', 'The value at toolConfig is empty.', 'bad_request', false],
    [400, 'ValidationException', 'Input is too long for requested model.', 'context_length', false],
    [400, 'ValidationException', 'prompt is too long: 208310 tokens > 200000 maximum', 'context_length', false],
    [400, 'ValidationException', 'Input Tokens Exceeded: Number of input tokens exceeds', 'context_length', false],
    [400, 'ServiceQuotaExceededException', 'Your request exceeds the quota.', 'quota_exhausted', true],
    [400, 'IncompleteSignature', 'x', 'auth_failed', true],
    [403, 'AccessDeniedException', 'You have no access to the model.', 'auth_failed', true],
    [403, 'ExpiredTokenException', 'The security token is expired', 'auth_failed', true],
    [404, 'ResourceNotFoundException', 'x', 'model_not_found', true],
    [408, 'ModelTimeoutException', 'x', 'timeout', false],
    [424, 'ModelErrorException', 'x', 'server_error', false],
    [429, 'ThrottlingException', 'Too many tokens, please wait', 'rate_limit', false],
    [429, 'ModelNotReadyException', 'x', 'rate_limit', false],
    [500, 'InternalServerException', 'x', 'server_error', false],
    [503, 'ServiceUnavailableException', 'x', 'server_error', false],
  ])('%i %s "%s" is %s, alarm %s', (status, type, message, reason, alarm) => {
    const headers = { 'x-amzn-errortype': `${type}:http://internal.amazon.com/coral/com.amazon.bedrock/` }
    const error = statusError(status, headers, JSON.stringify({ message }), 0)
    expect(error).toMatchObject({ reason, alarm, upstreamStatus: status })
    expect(error.message).toBe(`The provider answered ${status} (${type}).`)
  })
})
