import type { Clock, Timer } from '../../../shared/time.ts'
import type { Lane } from './lanes.ts'

/** Tells of each lane when its next delivery comes due. */
export type DueTimer = {
  /** @param at milliseconds since 1970 */
  set(lane: Lane, at: number): void
  stop(): void
}

/** One timer for all lanes, set to the earliest. */
export function createDueTimer(
  { all, due }: { all(): Iterable<Lane>; due(lane: Lane): void },
  clock: Clock,
  now: () => number,
): DueTimer {
  let timer: Timer | undefined
  let timerAt = Number.POSITIVE_INFINITY
  let stopped = false

  function arm(dueAt: number): void {
    if (stopped || dueAt >= timerAt) return
    timer?.cancel()
    timerAt = dueAt
    timer = clock.after(dueAt - clock.monotonic(), look)
  }

  function look(): void {
    timerAt = Number.POSITIVE_INFINITY
    const elapsed = clock.monotonic()
    let next = Number.POSITIVE_INFINITY
    for (const lane of all()) {
      if (lane.dueAt <= elapsed) {
        lane.dueAt = Number.POSITIVE_INFINITY
        due(lane)
      } else next = Math.min(next, lane.dueAt)
    }
    if (next < Number.POSITIVE_INFINITY) arm(next)
  }

  return {
    set(lane, at) {
      const waitMs = at - now()
      if (waitMs <= 0) return due(lane)
      const dueAt = clock.monotonic() + waitMs
      lane.dueAt = Math.min(lane.dueAt, dueAt)
      arm(dueAt)
    },
    stop() {
      stopped = true
      timer?.cancel()
    },
  }
}
