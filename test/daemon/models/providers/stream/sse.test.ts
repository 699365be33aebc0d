import { expect, test } from 'vitest'
import { ProviderError } from '../../../../../src/daemon/models/provider.ts'
import { createSseReader } from '../../../../../src/daemon/models/providers/stream/sse.ts'
import { PROVIDER_EVENT_BYTES } from '../../../../../src/shared/spec-limits.ts'

test('an event with name and several data lines is one event', () => {
  const sse = createSseReader()
  const bytes = Buffer.from(': hello\nevent: delta\nid: 4\ndata: one\ndata:two\ndata\n\ndata: next\n\n')
  expect(sse.read(bytes)).toEqual([
    { name: 'delta', data: 'one\ntwo\n', cut: false },
    { name: undefined, data: 'next', cut: false },
  ])
})

test('lines that are separate events are separate, the last one with the name', () => {
  const sse = createSseReader()
  const bytes = Buffer.from('data: {"a":1}\nevent: b\ndata: : hi\ndata: {"b":2}\n\ndata: {\ndata: "c":3}\n\n')
  expect(sse.read(bytes)).toEqual([
    { name: undefined, data: '{"a":1}', cut: false },
    { name: undefined, data: ': hi', cut: false },
    { name: 'b', data: '{"b":2}', cut: false },
    { name: undefined, data: '{\n"c":3}', cut: false },
  ])
  expect(sse.read(Buffer.from('data: {"a":1}\ndata: {"b'))).toEqual([])
  expect(sse.end()).toEqual([
    { name: undefined, data: '{"a":1}', cut: false },
    { name: undefined, data: '{"b', cut: true },
  ])
})

test('an event without its blank line is passed at the end, marked as cut', () => {
  for (const ending of ['', '\n', '\r', '\r\n']) {
    const sse = createSseReader()
    expect(sse.read(Buffer.from(`data: last${ending}`))).toEqual([])
    expect(sse.end()).toEqual([{ name: undefined, data: 'last', cut: true }])
  }
})

test('a byte order mark is dropped only at the start, also in pieces', () => {
  const sse = createSseReader()
  const bytes = Buffer.from('\u{feff}data: \u{feff}one\n\n')
  const events = [...bytes].flatMap((byte) => [...sse.read(Buffer.of(byte))])
  expect(events).toEqual([{ name: undefined, data: '\u{feff}one', cut: false }])
})

const bare = (error: object) => JSON.stringify({ error }, null, 2)

test.each([
  [
    'an error over several lines',
    `${bare({ code: 503, message: 'x', details: [{ a: 1 }] })}\n`,
    'an error in its answer',
  ],
  ['the same without a last newline', bare({ code: 503 }), 'an error in its answer'],
  ['an error that breaks off', bare({ code: 503 }).slice(0, -1), 'not part of an event'],
  ['an error among which there is an event', `{\n\ndata: {}\n\n"error": {}\n}`, 'not part of an event'],
  ['an object that is no error', '{\n  "choices": []\n}\n', 'not part of an event'],
])('%s fails after the events before it, however it is cut', (_what, text, failure) => {
  const bytes = Buffer.from(`data: one\n\n${text}`)
  for (let at = 0; at <= bytes.length; at++) {
    const sse = createSseReader()
    const told: string[] = []
    const readAll = () => {
      for (const piece of [bytes.subarray(0, at), bytes.subarray(at)]) {
        for (const { data } of sse.read(piece)) told.push(data)
      }
      for (const { data } of sse.end()) told.push(data)
    }
    expect(readAll).toThrow(failure)
    expect(told).toEqual(['one'])
  }
})

test('an empty stream has no events', () => {
  const sse = createSseReader()
  expect(sse.end()).toEqual([])
})

test('a line of 8 MB in small reads is complete', () => {
  const sse = createSseReader()
  const line = Buffer.from(`data: ${'é'.repeat(4_194_304)}\n\n`)
  const events = []
  for (let at = 0; at < line.length; at += 1401) events.push(...sse.read(line.subarray(at, at + 1401)))
  expect(events.map(({ data }) => data.length)).toEqual([4_194_304])
})

test('an event over PROVIDER_EVENT_BYTES is rejected, as one line and as many', () => {
  for (const piece of ['data: '.padEnd(1_000_000, 'x'), `data: ${'x'.repeat(999_000)}\n`]) {
    const sse = createSseReader()
    const bytes = Buffer.from(piece)
    const readOn = () => {
      for (let read = 0; read <= 2 * PROVIDER_EVENT_BYTES; read += bytes.length) Array.from(sse.read(bytes))
    }
    expect(readOn).toThrow(ProviderError)
  }
})
