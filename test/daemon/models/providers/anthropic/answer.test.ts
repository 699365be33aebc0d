import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ProviderError } from '../../../../../src/daemon/models/provider.ts'
import { anthropicFormat } from '../../../../../src/daemon/models/providers/anthropic/answer.ts'
import { assembleAnswer } from '../../../../../src/daemon/models/providers/stream/assembly.ts'
import { splitAt } from '../../../../upstream.ts'
import { argumentPieces } from '../../argument-pieces.ts'
import { anthropicStream } from './anthropic-stream.ts'
import { fixtures, playBody, playStream } from './playback.ts'

const streams = fixtures().filter(({ stream }) => stream)
const bodies = fixtures().filter(({ stream }) => !stream)

describe('recorded streams', () => {
  test.each(streams)('$file gives its documented result', ({ bytes, answer, failure }) => {
    const played = playStream([bytes])
    if (answer) expect(played).toEqual(answer)
    else expect(played).toMatchObject(failure as object)
  })

  test.each(streams)('$file gives the same result when split in two at any byte, and byte by byte', ({ bytes }) => {
    const whole = JSON.stringify(playStream([bytes]))
    const offsets = Array.from(bytes.keys())
    expect(offsets.filter((at) => JSON.stringify(playStream(splitAt(bytes, [at]))) !== whole)).toEqual([])
    expect(JSON.stringify(playStream(splitAt(bytes, offsets)))).toBe(whole)
  })

  test('any text, reasoning and arguments survive any split', () => {
    const texts = fc.array(fc.string({ unit: 'binary' }), { maxLength: 6 })
    const cuts = fc.array(fc.nat(4000), { maxLength: 20 })
    fc.assert(
      fc.property(texts, texts, argumentPieces, fc.boolean(), cuts, (thoughts, said, pieces, crlf, offsets) => {
        const body = anthropicStream({ thoughts, texts: said, toolCalls: [pieces] })
        const played = playStream(splitAt(crlf ? body.replaceAll('\n', '\r\n') : body, offsets))
        const thinking = thoughts.join('')
        expect(played).toMatchObject({
          text: said.join(''),
          reasoning: thoughts.length > 0 ? [{ text: thinking, origin: 'anthropic', signature: 'c2lnbmVk' }] : [],
          toolCalls: [{ id: 'toolu_0', name: 'tool_0', arguments: pieces.join('') || '{}' }],
          outcome: 'complete',
        })
      }),
      { numRuns: 300 },
    )
  })

  test('no answer is complete without its stop reason, wherever the stream ends', () => {
    const body = Buffer.from(anthropicStream({ texts: ['One ', 'two ', 'three.'] }))
    const stopEnd = body.indexOf('\n', body.indexOf('"end_turn"'))
    for (let at = 0; at <= body.length; at++) {
      const { outcome } = playStream([body.subarray(0, at)])
      expect({ at, outcome }).toEqual({ at, outcome: at < stopEnd ? 'truncated' : 'complete' })
    }
  })

  test('the end of an unknown call, and truncated arguments, make the answer fail', () => {
    expect(playStream([Buffer.from(anthropicStream({ texts: ['One.'], stopReason: 'tool_use' }))])).toMatchObject({
      reason: 'server_error',
      outcome: 'error',
    })
    expect(playStream([Buffer.from(anthropicStream({ toolCalls: [['{"ci']] }))])).toMatchObject({
      outcome: 'truncated',
    })
    const limited = anthropicStream({ toolCalls: [['{"ci']], stopReason: 'max_tokens' })
    expect(playStream([Buffer.from(limited)])).toMatchObject({ outcome: 'length' })
  })

  test('a better end after a worse one does not replace it', () => {
    const body = anthropicStream({ texts: ['One.'], stopReason: 'max_tokens' })
    const again = body.slice(body.indexOf('event: message_delta'), body.indexOf('event: message_stop'))
    const twice = body.replace(again, again + again.replace('max_tokens', 'end_turn'))
    expect(playStream([Buffer.from(twice)])).toMatchObject({ outcome: 'length', nativeFinishReason: 'max_tokens' })
  })

  const oneNewline = (body: string) => body.replaceAll('\n\n', '\n')
  const thinking = anthropicStream({ thoughts: ['Hm'] })
  /** In the thinking block, after its signature. */
  const inThinking = (delta: object) =>
    thinking.replace('event: content_block_stop', (stop) => {
      const data = { type: 'content_block_delta', index: 0, delta }
      return `event: content_block_delta\ndata: ${JSON.stringify(data)}\n\n${stop}`
    })
  const zeros = { input_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 }
  const signed = [{ text: 'Hm', origin: 'anthropic', signature: 'c2lnbmVk' }]

  test.each([
    ['one newline between events', oneNewline(anthropicStream({ texts: ['One ', 'two'] })), { text: 'One two' }],
    [
      'heartbeats in the place of data',
      anthropicStream({ texts: ['One'] }).replace('\n\n', '\n\ndata: : keepalive\n\n'),
      { text: 'One', outcome: 'complete' },
    ],
    [
      'text in the block of the thinking',
      inThinking({ type: 'text_delta', text: 'One' }),
      { text: 'One', reasoning: signed, outcome: 'complete' },
    ],
    [
      'arguments in the block of the thinking',
      inThinking({ type: 'input_json_delta', partial_json: '{}' }),
      { reason: 'server_error' },
    ],
    [
      'text in the block of a tool of the server',
      inThinking({ type: 'text_delta', text: 'One' }).replace('"type":"thinking"', '"type":"server_tool_use"'),
      { reason: 'server_error' },
    ],
    [
      'zeros for the counts of the start',
      anthropicStream({ texts: ['One'] })
        .replace('"input_tokens":12', '"input_tokens":12,"cache_read_input_tokens":3')
        .replace('"usage":{"output_tokens":5', `"usage":{${JSON.stringify(zeros).slice(1, -1)},"output_tokens":5`),
      { usage: { inputTokens: 15, outputTokens: 5, cacheReadTokens: 3 } },
    ],
  ])('a stream with %s gives the same result for any split', (_what, stream, expected) => {
    const body = Buffer.from(stream)
    const whole = playStream([body])
    expect(whole).toMatchObject(expected)
    const cuts = Array.from(body.keys()).filter(
      (at) => JSON.stringify(playStream(splitAt(body, [at]))) !== JSON.stringify(whole),
    )
    expect(cuts).toEqual([])
  })

  test('a line of a megabyte is one text', () => {
    const long = 'Ünï '.repeat(262_144)
    expect(playStream([Buffer.from(`\u{feff}${anthropicStream({ texts: [long] })}`)])).toMatchObject({ text: long })
  })

  test('one read gives one batch with all its parts', () => {
    const assembly = assembleAnswer(anthropicFormat)
    const parts = assembly.take(Buffer.from(anthropicStream({ texts: ['a', 'b', 'c'] })))
    expect(parts.map(({ type }) => type)).toEqual(['text', 'text', 'text', 'end'])
  })
})

describe('recorded bodies', () => {
  test.each(bodies)('$file gives its documented result', ({ bytes, answer, failure }) => {
    const played = playBody(bytes)
    if (answer) expect(played).toEqual(answer)
    else expect(played).toMatchObject(failure as object)
  })

  test('any JSON body is an answer with one end or a failure of the provider', () => {
    const block = fc.oneof(
      fc.jsonValue(),
      fc.record({ type: fc.constantFrom('text', 'thinking', 'tool_use', 'redacted_thinking'), text: fc.jsonValue() }),
    )
    const body = fc.oneof(
      fc.jsonValue(),
      fc.record({
        content: fc.array(block),
        stop_reason: fc.oneof(fc.jsonValue(), fc.constant('end_turn')),
        usage: fc.jsonValue(),
      }),
    )
    fc.assert(
      fc.property(body, (value) => {
        try {
          const parts = anthropicFormat.decodeBody(value)
          expect(parts.filter(({ type }) => type === 'end')).toHaveLength(1)
        } catch (error) {
          expect(error).toBeInstanceOf(ProviderError)
        }
      }),
    )
  })
})
