import { expect, test } from 'vitest'
import { createPacer, PACE_MS } from '../../../../src/daemon/platform/pacing.ts'
import { screenInSlices } from '../../../../src/daemon/safety/guards/long-text.ts'
import { screenText } from '../../../../src/daemon/safety/guards/redaction.ts'
import { armAll } from './stream/sample-detectors.ts'

const armed = armAll(() => 'mask')

test('all texts of a request share one time slice, so other work runs even if each is short', async () => {
  let nowMs = 0
  const pacer = createPacer(() => {
    nowMs += 0.25
    return nowMs
  })
  let turns = 0
  let isOver = false
  const count = () => {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  let looks = 0
  for (let slot = 0; slot < 100; slot++) {
    const screened = screenInSlices(`a key: ABCD is 12345 (${slot})`, 'text', armed, undefined, pacer)
    looks += armed.length
    expect((await screened).text).toContain('[DIGITS]')
  }
  isOver = true
  expect(turns).toBeGreaterThanOrEqual((looks * 0.25) / PACE_MS - 1)
})

test('a short text scanned in time needs no promise', () => {
  const pacer = createPacer(() => 0)
  expect(screenInSlices('12345', 'text', armed, undefined, pacer)).toEqual(screenText('12345', 'text', armed))
})

test('a text in pieces gives the same result as at once', async () => {
  const long = 'a key: ABCD is 12345, mail jo@x or <<not\nthis>> 123456789 1234. '.repeat(800)
  expect(await screenInSlices(long, 'text', armed)).toMatchObject(screenText(long, 'text', armed))
})
