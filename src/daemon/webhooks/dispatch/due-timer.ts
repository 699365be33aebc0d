import type { Clock, Timer } from '../../../shared/time.ts'
import type { EndpointQueue } from './endpoint-queues.ts'

/** Calls `due` when the next delivery of an endpoint becomes due. */
export type DueTimer = {
  /** @param at milliseconds since 1970 */
  set(queue: EndpointQueue, at: number): void
  stop(): void
}

/** Creates one timer for all queues. The timer expires at the earliest due time of any queue. */
export function createDueTimer(
  { all, due }: { all(): Iterable<EndpointQueue>; due(queue: EndpointQueue): void },
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
    for (const queue of all()) {
      if (queue.dueAt <= elapsed) {
        queue.dueAt = Number.POSITIVE_INFINITY
        due(queue)
      } else next = Math.min(next, queue.dueAt)
    }
    if (next < Number.POSITIVE_INFINITY) arm(next)
  }

  return {
    set(queue, at) {
      const waitMs = at - now()
      if (waitMs <= 0) return due(queue)
      const dueAt = clock.monotonic() + waitMs
      queue.dueAt = Math.min(queue.dueAt, dueAt)
      arm(dueAt)
    },
    stop() {
      stopped = true
      timer?.cancel()
    },
  }
}
