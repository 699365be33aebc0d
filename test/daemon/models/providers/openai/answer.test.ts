import { inspect } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { assembleAnswer } from '../../../../../src/daemon/models/providers/stream/assembly.ts'
import { chatStream, splitAt } from '../../../../upstream.ts'
import { argumentPieces } from '../../argument-pieces.ts'
import { fixtures, formatFor, playBody, playStream, readStream, toToolCalls } from './playback.ts'

const streams = fixtures().filter(({ stream }) => stream)
const bodies = fixtures().filter(({ stream }) => !stream)

describe('recorded streams', () => {
  test.each(streams)(
    '$file gives the same result when split in two at any byte, and byte by byte',
    ({ bytes, ...asked }) => {
      const whole = JSON.stringify(playStream([bytes], asked))
      const offsets = Array.from(bytes.keys())
      expect(offsets.filter((at) => JSON.stringify(playStream(splitAt(bytes, [at]), asked)) !== whole)).toEqual([])
      expect(JSON.stringify(playStream(splitAt(bytes, offsets), asked))).toBe(whole)
    },
  )

  test('any stream gives the same result for any split', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...streams),
        fc.array(fc.nat(6000), { maxLength: 60 }),
        ({ bytes, ...asked }, offsets) => {
          expect(playStream(splitAt(bytes, offsets), asked)).toEqual(playStream([bytes], asked))
        },
      ),
      { numRuns: 300 },
    )
  })

  test('any text survives any split', () => {
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

  test('one read gives one batch with all its parts', () => {
    const assembly = assembleAnswer(formatFor())
    const parts = assembly.take(Buffer.from(chatStream(['a', 'b', 'c'])))
    expect(parts.map(({ type }) => type)).toEqual(['text', 'text', 'text', 'end'])
  })
})

describe('recorded bodies', () => {
  test.each(bodies)('$file gives its documented result', ({ bytes, answer, failure, ...asked }) => {
    expect(playBody(bytes, asked)).toMatchObject(answer ?? failure ?? {})
  })
})

const event = (choice: object) => `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`
const bytesOf = (...texts: string[]) => texts.map((text) => Buffer.from(text))

test('the arguments of tool calls arrive unchanged, for any number and split', () => {
  const call = fc.record({ name: fc.string({ minLength: 1 }), pieces: argumentPieces })
  fc.assert(
    fc.property(fc.array(call, { minLength: 1, maxLength: 4 }), fc.array(fc.nat(3000)), (calls, offsets) => {
      const deltas = calls.flatMap(({ name, pieces }, index) => [
        { index, id: `call_${index}x`, function: { name, arguments: '' } },
        ...pieces.map((text) => ({ index, function: { arguments: text } })),
      ])
      const body = [
        ...deltas.map((delta) => event({ delta: { tool_calls: [delta] }, finish_reason: null })),
        event({ delta: {}, finish_reason: 'tool_calls' }),
      ].join('')
      expect(playStream(splitAt(body, offsets), { tools: true })).toMatchObject({
        outcome: 'complete',
        toolCalls: calls.map(({ name, pieces }, index) => ({
          id: `call_${index}x`,
          name,
          arguments: pieces.join(''),
        })),
      })
    }),
    { numRuns: 200 },
  )
})

test('any stream of tool calls is read or fails with a ProviderError', () => {
  const format = formatFor({ tools: [{ name: 'any' }] })
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), fc.constantFrom('tool_calls', 'stop'), (deltas, reason) => {
      const body = deltas.map((delta) => event({ delta: { tool_calls: delta } })).join('')
      try {
        toToolCalls(readStream(bytesOf(body, event({ delta: {}, finish_reason: reason })), format))
      } catch (error) {
        expect(error).toMatchObject({ name: 'ProviderError' })
      }
    }),
    { numRuns: 300 },
  )
})

test('a call of a forbidden tool is treated like one of an unknown tool', () => {
  const stream = bytesOf(
    event({ delta: { tool_calls: [{ index: 0, id: 'a', function: { name: 'look', arguments: '{}' } }] } }),
    event({ delta: {}, finish_reason: 'tool_calls' }),
  )
  const format = formatFor({ tools: [{ name: 'look' }], toolChoice: 'none' })
  expect(() => readStream(stream, format)).toThrow('a tool call instead of an answer')
})

test('log probabilities are passed with their text if they were requested, otherwise dropped', () => {
  const logprobs = { content: [{ token: 'Hi', logprob: -0.1 }] }
  const stream = bytesOf(event({ delta: { content: 'Hi' }, logprobs }), event({ delta: {}, finish_reason: 'stop' }))
  expect(readStream(stream, formatFor({ logprobs: true }))[0]).toEqual({ type: 'text', text: 'Hi', logprobs })
  expect(readStream(stream, formatFor())[0]).toEqual({ type: 'text', text: 'Hi' })
})

test('sealed reasoning carries no readable data, and its name alone does not make data sealed', () => {
  const details = [
    { type: 'reasoning.encrypted', data: 'c2VjcmV0', id: 'rs_1', content: 'Ada lives here.', summary: ['Ada'] },
    { type: 'reasoning.encrypted', data: 'Ada lives at the lake.' },
    { type: 'reasoning.summary', data: 'QWRh' },
    { type: 'reasoning.text', text: 'Hm', signature: 'c2ln', id: 'ada@example.com' },
  ]
  const stream = bytesOf(
    event({ delta: { reasoning_details: details } }),
    event({ delta: { content: '4' }, finish_reason: 'stop' }),
  )
  const parts = readStream(stream, formatFor(undefined, 'openrouter'))
  expect(parts.flatMap((part) => (part.type === 'reasoning' && part.data ? JSON.parse(part.data) : []))).toEqual([
    { type: 'reasoning.encrypted', data: 'c2VjcmV0', id: 'rs_1' },
    { type: 'reasoning.text', signature: 'c2ln' },
  ])
})

test('an event that is not JSON fails without its text in the error', () => {
  try {
    readStream(bytesOf('data: Ada lives at the lake\n\n'), formatFor())
    expect.unreachable()
  } catch (error) {
    expect(inspect(error, { depth: 9 })).not.toContain('Ada')
  }
})

test('reasoning is marked with its provider, and sealed data is kept unchanged', () => {
  const details = [
    { type: 'reasoning.summary', summary: 'Counting.', format: 'openai-responses-v1', index: 0 },
    { type: 'reasoning.encrypted', data: 'c2VjcmV0', id: 'rs_1', format: 'openai-responses-v1', index: 0 },
    { type: 'reasoning.text', text: '2+2', signature: 'c2ln', format: 'anthropic-claude-v1', index: 1 },
  ]
  const stream = bytesOf(
    event({ delta: { reasoning_details: details } }),
    event({ delta: { content: '4' }, finish_reason: 'stop' }),
  )
  const { text: _, ...signed } = details[2] as { text?: string }
  expect(readStream(stream, formatFor(undefined, 'openrouter')).slice(0, 4)).toEqual([
    { type: 'reasoning', text: 'Counting.', origin: 'openrouter' },
    { type: 'reasoning', text: '', origin: 'openrouter', data: JSON.stringify(details[1]) },
    { type: 'reasoning', text: '2+2', origin: 'openrouter' },
    { type: 'reasoning', text: '', origin: 'openrouter', data: JSON.stringify(signed) },
  ])
})
