import { WEBHOOK_FAILURES_BEFORE_DISABLE, WEBHOOK_WAITS_MS } from '../../../shared/spec-limits.ts'

/** The operator is warned when an endpoint reaches these failure counts. */
const WEBHOOK_FAILURES_WARNED: readonly number[] = [10, 15]

/** The health of an endpoint, as stored in its row. */
export type Health = { enabled: number; failures: number }

/** The final result of a delivery. */
export type Ending = 'delivered' | 'failed'

/**
 * Returns the health of an endpoint after one more delivery has ended. After an endpoint has been disabled, its health
 * no longer changes, even if another result arrives.
 */
export function afterDelivery({ enabled, failures }: Health, ending: Ending): Health {
  if (enabled === 0) return { enabled, failures }
  if (ending === 'delivered') return { enabled, failures: 0 }
  const more = failures + 1
  return { enabled: more >= WEBHOOK_FAILURES_BEFORE_DISABLE ? 0 : 1, failures: more }
}

/** Whether to warn the operator about this failure, before the endpoint is disabled. */
export const isWarned = ({ enabled, failures }: Health): boolean =>
  enabled === 1 && WEBHOOK_FAILURES_WARNED.includes(failures)

/**
 * Returns the wait before the next attempt, in milliseconds from the end of the last attempt. `attempts` is the number
 * of failed attempts. Returns undefined if no more attempts are made.
 */
export const waitAfter = (attempts: number): number | undefined => WEBHOOK_WAITS_MS[attempts]
