import type { SpendRequest } from '../../../../src/daemon/metering/usage/spend-request.ts'
import { newId, newRequestId } from '../../../../src/shared/ids.ts'

/** An unlimited request; a test may override its members. */
export const spendRequestOf = ({
  nanos = 0,
  ...given
}: Partial<SpendRequest> & { nanos?: number } = {}): SpendRequest => ({
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
  budgets: [],
  nanosAtMost: () => nanos,
  nanosAtLeast: () => nanos,
  ...given,
})
