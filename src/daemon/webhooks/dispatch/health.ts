import {
  WEBHOOK_FAILURES_BEFORE_DISABLE,
  WEBHOOK_FAILURES_WARNED,
  WEBHOOK_WAITS_MS,
} from '../../../shared/spec-limits.ts'

/** What an endpoint's row knows of how it is doing. */
export type Health = { enabled: number; failures: number }

/** How a delivery ended for good. */
export type Ending = 'delivered' | 'failed'

/**
 * The endpoint after one more delivery has ended (spec: States). One that is disabled stays as it is: what was under way
 * when it happened neither counts again nor enables it.
 */
export function afterDelivery({ enabled, failures }: Health, ending: Ending): Health {
  if (enabled === 0) return { enabled, failures }
  if (ending === 'delivered') return { enabled, failures: 0 }
  const more = failures + 1
  return { enabled: more >= WEBHOOK_FAILURES_BEFORE_DISABLE ? 0 : 1, failures: more }
}

/** Whether an operator should be told of the last failure before it is too late. */
export const isWarned = ({ enabled, failures }: Health): boolean =>
  enabled === 1 && WEBHOOK_FAILURES_WARNED.includes(failures)

/**
 * How long to wait for the next attempt after so many have failed, in milliseconds from the end of the last; undefined when
 * they are used up.
 */
export const waitAfter = (attempts: number): number | undefined => WEBHOOK_WAITS_MS[attempts]
