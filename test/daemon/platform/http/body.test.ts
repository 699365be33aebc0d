import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { JSON_VALUES, parsingBody, readBody } from '../../../../src/daemon/platform/http/body.ts'
import { BodyMemory } from '../../../../src/daemon/platform/http/body-memory.ts'
import { REQUEST_TIMEOUT_MS } from '../../../../src/shared/spec-limits.ts'
import { createFakeClock } from '../../../fake-clock.ts'

test('a body that stalls is aborted after the request timeout, and no timer is left', async () => {
  const clock = createFakeClock()
  const request = Object.assign(new PassThrough(), { headers: {}, complete: false })
  const body = readBody(request, 100, clock, new AbortController().signal, new BodyMemory(1e9).open('t'))
  request.write('{"half":')
  clock.advance(REQUEST_TIMEOUT_MS)
  await expect(body).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT' })
  expect(clock.pending).toBe(0)
})

test('a body of unknown length is the same bytes, whatever its chunks', async () => {
  for (const [size, chunk] of [
    [200_000, 1],
    [200_000, 70_000],
    [65_536, 65_536],
    [5, 2],
  ] as const) {
    const bytes = Buffer.from(Array.from({ length: size }, (_, at) => at % 251))
    const request = Object.assign(new PassThrough(), { headers: {}, complete: false })
    const clock = createFakeClock()
    const body = readBody(request, 200_000, clock, new AbortController().signal, new BodyMemory(1e9).open('t'))
    for (let at = 0; at < size; at += chunk) request.write(bytes.subarray(at, at + chunk))
    request.end()
    expect((await body).equals(bytes)).toBe(true)
  }
})

test('a body that is nested too deep, or has too many values, is rejected before it is parsed', () => {
  const parse = (text: string) => {
    const steps = parsingBody(Buffer.from(text), z.unknown(), new BodyMemory(1e9).open('t'), 3)
    for (;;) {
      const { done, value } = steps.next()
      if (done) return value
    }
  }
  expect(parse('[[[1]],"[[[[",{"a":"\\"[[[[","b\\\\":[]}]')).toEqual([[[1]], '[[[[', { a: '"[[[[', 'b\\': [] }])
  expect(() => parse('[[[[1]]]]')).toThrow('at most 3 levels deep')
  expect(() => parse('[[[['.repeat(1_000_000))).toThrow('at most 3 levels deep')
  expect(() => parse('{"a":[{"b":"\\"')).toThrow('must be a JSON object')
  expect(() => parse(`[${'{},'.repeat(500_001)}{}]`)).toThrow(`at most ${JSON_VALUES} values`)
})

test('a large body may take longer while it arrives, but never below the minimum rate', async () => {
  const read = () => {
    const clock = createFakeClock()
    const request = Object.assign(new PassThrough(), { headers: {}, complete: false })
    return {
      clock,
      request,
      body: readBody(request, 1e8, clock, new AbortController().signal, new BodyMemory(1e9).open('t')),
    }
  }
  const piece = Buffer.alloc(2 * 1024 * 1024, 'x')
  const steady = read()
  for (let seconds = 0; seconds < 300; seconds += 20) {
    steady.request.write(piece)
    await new Promise(setImmediate)
    steady.clock.advance(20_000)
  }
  steady.request.end()
  expect((await steady.body).length).toBe(15 * piece.length)
  expect(steady.clock.pending).toBe(0)

  const trickling = read()
  trickling.request.write(piece)
  const refused = expect(trickling.body).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT' })
  for (let seconds = 0; seconds < 60; seconds += 1) {
    trickling.request.write('x')
    await new Promise(setImmediate)
    trickling.clock.advance(1000)
  }
  await refused
  expect(trickling.clock.pending).toBe(0)
})
