import { expect, test } from 'vitest'
import { ProviderError } from '../../../../src/daemon/providers/provider.ts'
import { createSseReader } from '../../../../src/daemon/providers/stream/sse.ts'
import { PROVIDER_EVENT_BYTES } from '../../../../src/shared/spec-limits.ts'

test('an event with name and several data lines comes as one', () => {
  const sse = createSseReader()
  const bytes = Buffer.from(': hello\nevent: delta\nid: 4\ndata: one\ndata:two\ndata\n\ndata: next\n\n')
  expect(sse.read(bytes)).toEqual([
    { name: 'delta', data: 'one\ntwo\n', cut: false },
    { name: undefined, data: 'next', cut: false },
  ])
})

test('an event without its blank line comes at the end, marked as cut', () => {
  for (const ending of ['', '\n', '\r', '\r\n']) {
    const sse = createSseReader()
    expect(sse.read(Buffer.from(`data: last${ending}`))).toEqual([])
    expect(sse.end()).toEqual([{ name: undefined, data: 'last', cut: true }])
  }
})

test('a byte order mark at the start is dropped, also in pieces, and only there', () => {
  const sse = createSseReader()
  const bytes = Buffer.from('\u{feff}data: \u{feff}one\n\n')
  const events = [...bytes].flatMap((byte) => [...sse.read(Buffer.of(byte))])
  expect(events).toEqual([{ name: undefined, data: '\u{feff}one', cut: false }])
})

test('nothing at all has no events', () => {
  const sse = createSseReader()
  expect(sse.end()).toEqual([])
})

test('a line of 8 MB in small reads comes whole', () => {
  const sse = createSseReader()
  const line = Buffer.from(`data: ${'é'.repeat(4_194_304)}\n\n`)
  const events = []
  for (let at = 0; at < line.length; at += 1401) events.push(...sse.read(line.subarray(at, at + 1401)))
  expect(events.map(({ data }) => data.length)).toEqual([4_194_304])
})

test('an event over PROVIDER_EVENT_BYTES is refused, as one line and as many', () => {
  for (const piece of ['data: '.padEnd(1_000_000, 'x'), `data: ${'x'.repeat(999_000)}\n`]) {
    const sse = createSseReader()
    const bytes = Buffer.from(piece)
    const readOn = () => {
      for (let read = 0; read <= 2 * PROVIDER_EVENT_BYTES; read += bytes.length) Array.from(sse.read(bytes))
    }
    expect(readOn).toThrow(ProviderError)
  }
})
