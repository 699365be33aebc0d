import { type Clock, systemClock } from '../../../src/shared/time.ts'

/** A clock whose date changes only by `forward`. Timers run in real time. */
export type Calendar = Clock & { forward(ms: number): void }

export function createCalendar(): Calendar {
  let now = Date.parse('2026-01-01T00:00:00.000Z')
  return {
    ...systemClock,
    now: () => now,
    forward(ms) {
      now += ms
    },
  }
}
