import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isoTime } from '../../src/shared/time.ts'

const MAX_DATE_MS = 8_640_000_000_000_000

test('any time is written as JavaScript writes it, independent of earlier calls', () => {
  const moment = fc.oneof(
    fc.integer({ min: -MAX_DATE_MS, max: MAX_DATE_MS }),
    fc.double({ min: -1e6, max: 1e6, noNaN: true }),
    fc.integer({ min: 1_700_000_000_000, max: 1_700_000_002_000 }),
  )
  fc.assert(
    fc.property(fc.array(moment, { minLength: 1, maxLength: 5 }), (moments) => {
      expect(moments.map(isoTime)).toEqual(moments.map((ms) => new Date(ms).toISOString()))
    }),
    { numRuns: 1_000 },
  )
})

test('an invalid time is rejected', () => {
  for (const ms of [Number.NaN, Number.POSITIVE_INFINITY, MAX_DATE_MS + 1000])
    expect(() => isoTime(ms)).toThrow(RangeError)
})
