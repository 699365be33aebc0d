import { WEBHOOK_WAITS_MS } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'

/** Maximum difference of the clocks of daemons that share a store. */
const WEBHOOK_CLOCK_SLACK_MS = 300_000

/**
 * The time of day in milliseconds since 1970, which never goes back. A wait that was computed with it lasts as long as
 * intended, even if the system clock is changed meanwhile.
 */
export function createSteadyTime(clock: Pick<Clock, 'now' | 'monotonic'>): () => number {
  let zero = Number.NEGATIVE_INFINITY
  return () => {
    const elapsed = clock.monotonic()
    zero = Math.max(zero, clock.now() - elapsed)
    return zero + elapsed
  }
}

/**
 * Whether an attempt is due. A due time further ahead than the longest retry wait comes from a clock that was set back
 * in the meantime, so that attempt is due at once.
 * @param dueAt ISO 8601 @param now milliseconds since 1970
 */
export const isDue = (dueAt: string, now: number): boolean =>
  dueAt <= isoTime(now) || dueAt > isoTime(now + Math.max(...WEBHOOK_WAITS_MS) + WEBHOOK_CLOCK_SLACK_MS)
