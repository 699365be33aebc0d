import { WEBHOOK_CLOCK_SLACK_MS, WEBHOOK_WAITS_MS } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'

/**
 * The time of day, in milliseconds since 1970, which is never set back: whoever waits for a moment that was computed with it
 * waits as long as was meant, whatever becomes of the system's clock meanwhile.
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
 * Whether an attempt is due. One that lies further ahead than any wait between two was timed by a clock that has been set
 * back since then, in an earlier run: nobody has to wait for that moment to come again.
 * @param dueAt ISO 8601 @param now milliseconds since 1970
 */
export const isDue = (dueAt: string, now: number): boolean =>
  dueAt <= isoTime(now) || dueAt > isoTime(now + Math.max(...WEBHOOK_WAITS_MS) + WEBHOOK_CLOCK_SLACK_MS)
