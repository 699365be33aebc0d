import { WEBHOOK_FAILURES_BEFORE_DISABLE, WEBHOOK_WAITS_MS } from '../../../shared/spec-limits.ts'

/** The operator is warned at these counts. */
const WEBHOOK_FAILURES_WARNED: readonly number[] = [10, 15]

/** The health of an endpoint, as its row stores it. */
export type Health = { enabled: number; failures: number }

/** The final result of a delivery. */
export type Ending = 'delivered' | 'failed'

/**
 * The health of an endpoint after one more delivery has ended. A disabled endpoint does not change: deliveries that
 * were in flight neither count nor enable it.
 */
export function afterDelivery({ enabled, failures }: Health, ending: Ending): Health {
  if (enabled === 0) return { enabled, failures }
  if (ending === 'delivered') return { enabled, failures: 0 }
  const more = failures + 1
  return { enabled: more >= WEBHOOK_FAILURES_BEFORE_DISABLE ? 0 : 1, failures: more }
}

/** Whether this failure warns the operator, before the endpoint is disabled. */
export const isWarned = ({ enabled, failures }: Health): boolean =>
  enabled === 1 && WEBHOOK_FAILURES_WARNED.includes(failures)

/**
 * The wait before the next attempt after so many failures, in milliseconds from the end of the last one. Undefined when
 * no attempt is left.
 */
export const waitAfter = (attempts: number): number | undefined => WEBHOOK_WAITS_MS[attempts]
