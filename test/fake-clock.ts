import type { Clock } from '../src/shared/time.ts'

export type FakeClock = Clock & {
  /** Advances time by `ms`. Due timers run in order, each at its own time, including timers that they start. */
  advance(ms: number): void
  /** Number of waiting timers. If some remain at the end of a test, the daemon leaks timers. */
  readonly pending: number
  /** Whether a timer is due in exactly `ms`. */
  dueIn(ms: number): boolean
}

type Waiting = { dueMs: number; order: number; run: () => void }

/** A clock that only `advance` moves. `start` is in milliseconds since 1970. */
export function createFakeClock(start: number = Date.parse('2026-01-01T00:00:00.000Z')): FakeClock {
  const waiting = new Set<Waiting>()
  let elapsedMs = 0
  let order = 0

  const nextDue = (untilMs: number): Waiting | undefined => {
    let first: Waiting | undefined
    for (const timer of waiting) {
      if (timer.dueMs > untilMs) continue
      if (!first || timer.dueMs < first.dueMs || (timer.dueMs === first.dueMs && timer.order < first.order))
        first = timer
    }
    return first
  }

  return {
    now: () => start + elapsedMs,
    monotonic: () => elapsedMs,
    after(ms, run) {
      const timer: Waiting = { dueMs: elapsedMs + Math.max(0, ms), order: order++, run }
      waiting.add(timer)
      return { cancel: () => void waiting.delete(timer) }
    },
    advance(ms) {
      const untilMs = elapsedMs + ms
      for (let timer = nextDue(untilMs); timer; timer = nextDue(untilMs)) {
        waiting.delete(timer)
        elapsedMs = timer.dueMs
        timer.run()
      }
      elapsedMs = untilMs
    },
    dueIn: (ms) => [...waiting].some(({ dueMs }) => dueMs === elapsedMs + ms),
    get pending() {
      return waiting.size
    },
  }
}
