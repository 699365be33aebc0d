import type { Wish } from '../../../../src/daemon/metering/usage/wish.ts'
import { newId, newRequestId } from '../../../../src/shared/ids.ts'

/** A request that nothing limits, but for what a test says. */
export const wishOf = ({ nanos = 0, ...given }: Partial<Wish> & { nanos?: number } = {}): Wish => ({
  requestId: newRequestId(),
  tenantId: newId(),
  payerId: newId(),
  keyId: newId(),
  mode: 'user-completions',
  mayPayDollars: false,
  license: 'Essential',
  points: 1,
  pointsLimit: null,
  userLimitNanos: null,
  keyLimitNanos: null,
  nanosAtMost: () => nanos,
  nanosAtLeast: () => nanos,
  ...given,
})
