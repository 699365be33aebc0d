import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openAiFormat, toOpenAiRequest } from '../../../../src/daemon/providers/openai/wire.ts'
import { assembleAnswer } from '../../../../src/daemon/providers/stream/assembly.ts'
import { chatStream, splitAt } from '../../../upstream.ts'
import { fixtures, playBody, playStream } from './playback.ts'

const streams = fixtures().filter(({ stream }) => stream)
const bodies = fixtures().filter(({ stream }) => !stream)

describe('recorded streams', () => {
  test.each(streams)('$file comes to what it says, whole', ({ bytes, answer, failure }) => {
    expect(playStream([bytes])).toMatchObject(answer ?? failure ?? {})
  })

  test.each(streams)('$file comes to the same when cut in two at any byte, and byte by byte', ({ bytes }) => {
    const whole = JSON.stringify(playStream([bytes]))
    const offsets = Array.from(bytes.keys())
    expect(offsets.filter((at) => JSON.stringify(playStream(splitAt(bytes, [at]))) !== whole)).toEqual([])
    expect(JSON.stringify(playStream(splitAt(bytes, offsets)))).toBe(whole)
  })

  test('any stream comes to the same however it is cut', () => {
    fc.assert(
      fc.property(fc.constantFrom(...streams), fc.array(fc.nat(6000), { maxLength: 60 }), ({ bytes }, offsets) => {
        expect(playStream(splitAt(bytes, offsets))).toEqual(playStream([bytes]))
      }),
      { numRuns: 300 },
    )
  })

  test('any text survives any cut', () => {
    const cuts = fc.array(fc.nat(3000), { maxLength: 20 })
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary' })), fc.boolean(), cuts, (texts, crlf, offsets) => {
        const body = chatStream(texts)
        const played = playStream(splitAt(crlf ? body.replaceAll('\n', '\r\n') : body, offsets))
        expect(played).toMatchObject({ text: texts.join(''), outcome: 'complete' })
      }),
      { numRuns: 300 },
    )
  })

  test('no answer is complete without its last chunk, wherever the stream ends', () => {
    const body = Buffer.from(
      chatStream(['One ', 'two ', 'three.'], { usage: { prompt_tokens: 3, completion_tokens: 3 } }),
    )
    const finishAt = body.indexOf('"stop"')
    const finishEnd = body.indexOf('\n', finishAt)
    for (let at = 0; at <= body.length; at++) {
      const { outcome } = playStream([body.subarray(0, at)])
      expect({ at, outcome }).toEqual({ at, outcome: at < finishEnd ? 'truncated' : 'complete' })
    }
  })

  test('one read comes to one batch with all its parts', () => {
    const assembly = assembleAnswer(openAiFormat)
    const parts = assembly.take(Buffer.from(chatStream(['a', 'b', 'c'])))
    expect(parts.map(({ type }) => type)).toEqual(['text', 'text', 'text', 'end'])
  })
})

describe('recorded bodies', () => {
  test.each(bodies)('$file comes to what it says', ({ bytes, answer, failure }) => {
    expect(playBody(bytes)).toMatchObject(answer ?? failure ?? {})
  })
})

test('the request puts the system prompt first and asks for usage only when streamed', () => {
  const call = {
    model: 'vendor/small-1',
    system: 'Be brief.',
    messages: [{ role: 'user', content: 'Hi' }],
    grounding: null,
    temperature: 0.3,
    maxTokens: 50,
    stream: true,
    timeouts: { attemptMs: 1000, firstTokenMs: 1000, stallMs: 1000 },
  } as const
  expect(toOpenAiRequest(call)).toEqual({
    model: 'vendor/small-1',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
    ],
    temperature: 0.3,
    max_tokens: 50,
    stream: true,
    stream_options: { include_usage: true },
  })
  const plain = toOpenAiRequest({ ...call, system: '', stream: false })
  expect(plain).toMatchObject({ messages: [{ role: 'user', content: 'Hi' }], stream: false })
  expect(plain).not.toHaveProperty('stream_options')
})
