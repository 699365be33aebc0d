import { expect, test } from 'vitest'
import { anthropicFormat } from '../../../../../src/daemon/models/providers/anthropic/answer.ts'
import { assembleAnswer } from '../../../../../src/daemon/models/providers/stream/assembly.ts'
import { anthropicStream } from '../anthropic/anthropic-stream.ts'

const whole = anthropicStream({ texts: ['One ', 'two ', 'three.'] })
const start = whole.slice(0, whole.indexOf('event: content_block_start'))

test('counts before the first word belong to an answer only with that word, and are then reported once', () => {
  const assembly = assembleAnswer(anthropicFormat)
  expect(assembly.take(Buffer.from(start))).toEqual([])
  const upToWords = whole.slice(start.length, whole.indexOf('event: content_block_delta', whole.indexOf('One ')))
  const types = assembly.take(Buffer.from(upToWords)).map(({ type }) => type)
  expect(types).toEqual(['text', 'usage'])
  expect(assembly.take(Buffer.from(': still there\n\n'))).toEqual([])
})

test('an answer that is counted at its end reports that there and only there', () => {
  const parts = assembleAnswer(anthropicFormat).take(Buffer.from(whole))
  expect(parts.map(({ type }) => type)).toEqual(['text', 'text', 'text', 'end'])
  expect(parts.at(-1)).toMatchObject({ usage: { estimated: false } })
})

test('an answer that continues after its last counts reports them as partial, without counts at its end', () => {
  const uncounted = whole.replace(/,"usage":\{[^}]*\}(?=\}\s+event: message_stop)/, '')
  expect(uncounted).not.toBe(whole)
  const parts = assembleAnswer(anthropicFormat).take(Buffer.from(uncounted))
  expect(parts.map(({ type }) => type)).toEqual(['text', 'text', 'text', 'usage', 'end'])
  expect(parts.at(-1)).toMatchObject({ usage: undefined })
})
