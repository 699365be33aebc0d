import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { CLOCK_SKEW_MS, isCurrent, WINDOWS, windowAt } from '../../../../src/daemon/metering/rate-limits/windows.ts'
import { isoTime } from '../../../../src/shared/time.ts'

const moment = fc.integer({ min: Date.UTC(1970, 0), max: Date.UTC(2400, 0) })
const name = fc.constantFrom(...WINDOWS)
const DAY_MS = 86_400_000

/** The window as text, which contains its start and end independently of the tested arithmetic. */
const spanOf = (window: (typeof WINDOWS)[number], at: string) => {
  const { startMs, endMs } = windowAt(window, Date.parse(at))
  return [isoTime(startMs), isoTime(endMs)]
}

describe('a window', () => {
  test('contains its moment, and all its moments have the same window', () => {
    fc.assert(
      fc.property(name, moment, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (window, at, part) => {
        const found = windowAt(window, at)
        expect(found.startMs).toBeLessThanOrEqual(at)
        expect(found.endMs).toBeGreaterThan(at)
        const inside = found.startMs + Math.floor(part * (found.endMs - found.startMs))
        expect(windowAt(window, inside)).toEqual(found)
      }),
    )
  })

  test('is followed by the next one without gap or overlap', () => {
    fc.assert(
      fc.property(name, moment, (window, at) => {
        const { startMs, endMs } = windowAt(window, at)
        expect(windowAt(window, endMs).startMs).toBe(endMs)
        expect(windowAt(window, startMs - 1).endMs).toBe(startMs)
      }),
    )
  })

  test('of a minute is in one hour, of an hour in one day, of a day in one month', () => {
    fc.assert(
      fc.property(moment, (at) => {
        const spans = WINDOWS.map((window) => windowAt(window, at))
        for (const [position, { startMs, endMs }] of spans.entries()) {
          const wider = spans[position + 1]
          if (wider === undefined) continue
          expect(startMs).toBeGreaterThanOrEqual(wider.startMs)
          expect(endMs).toBeLessThanOrEqual(wider.endMs)
        }
      }),
    )
  })

  test('starts at the UTC calendar boundary', () => {
    fc.assert(
      fc.property(moment, (at) => {
        const text = isoTime(at)
        expect(isoTime(windowAt('minute', at).startMs)).toBe(`${text.slice(0, 16)}:00.000Z`)
        expect(isoTime(windowAt('hour', at).startMs)).toBe(`${text.slice(0, 13)}:00:00.000Z`)
        expect(isoTime(windowAt('day', at).startMs)).toBe(`${text.slice(0, 10)}T00:00:00.000Z`)
        expect(isoTime(windowAt('month', at).startMs)).toBe(`${text.slice(0, 7)}-01T00:00:00.000Z`)
      }),
    )
  })

  test('of a month has as many days as that month, in leap years too', () => {
    const isLeap = (year: number) => (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0
    fc.assert(
      fc.property(fc.integer({ min: 1970, max: 2400 }), fc.integer({ min: 0, max: 11 }), (year, month) => {
        const days = [31, isLeap(year) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month] as number
        const { startMs, endMs } = windowAt('month', Date.UTC(year, month, days, 23, 59, 59, 999))
        expect((endMs - startMs) / DAY_MS).toBe(days)
      }),
    )
  })

  test.each([
    ['month', '2024-02-29T23:59:59.999Z', '2024-02-01T00:00:00.000Z', '2024-03-01T00:00:00.000Z'],
    ['month', '2023-02-28T23:59:59.999Z', '2023-02-01T00:00:00.000Z', '2023-03-01T00:00:00.000Z'],
    ['month', '2100-02-28T12:00:00.000Z', '2100-02-01T00:00:00.000Z', '2100-03-01T00:00:00.000Z'],
    ['month', '2026-12-31T23:59:59.999Z', '2026-12-01T00:00:00.000Z', '2027-01-01T00:00:00.000Z'],
    ['month', '2027-01-01T00:00:00.000Z', '2027-01-01T00:00:00.000Z', '2027-02-01T00:00:00.000Z'],
    ['day', '2024-02-29T00:00:00.000Z', '2024-02-29T00:00:00.000Z', '2024-03-01T00:00:00.000Z'],
    ['hour', '2026-12-31T23:59:59.999Z', '2026-12-31T23:00:00.000Z', '2027-01-01T00:00:00.000Z'],
    ['minute', '2024-02-29T23:59:00.000Z', '2024-02-29T23:59:00.000Z', '2024-03-01T00:00:00.000Z'],
  ] as const)('%s of %s is %s to %s', (window, at, start, end) => {
    expect(spanOf(window, at)).toEqual([start, end])
  })
})

test('a started window continues until its end, also for a clock that is slightly behind', () => {
  fc.assert(
    fc.property(name, moment, (window, at) => {
      const begun = windowAt(window, at)
      expect(
        [begun.startMs, begun.endMs - 1, begun.startMs - CLOCK_SKEW_MS].map((now) => isCurrent(begun, now)),
      ).toEqual([true, true, true])
      expect([begun.endMs, begun.startMs - CLOCK_SKEW_MS - 1].map((now) => isCurrent(begun, now))).toEqual([
        false,
        false,
      ])
    }),
  )
})
