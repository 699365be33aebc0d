import { WEBHOOK_WAITS_MS } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'

/** The maximum clock difference between daemons that share a store. */
const WEBHOOK_CLOCK_SLACK_MS = 300_000

/**
 * Returns milliseconds since 1970. The value never decreases. If a wait is computed from these values, it has the
 * intended duration even if the system clock is changed during the wait.
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
 * Whether an attempt is due. An attempt is also due if its due time is further ahead than the longest retry wait. In
 * this case, the clock was set back after the due time was computed.
 * @param dueAt ISO 8601 @param now milliseconds since 1970
 */
export const isDue = (dueAt: string, now: number): boolean =>
  dueAt <= isoTime(now) || dueAt > isoTime(now + Math.max(...WEBHOOK_WAITS_MS) + WEBHOOK_CLOCK_SLACK_MS)
