import { GatewayError } from '../../../shared/errors.ts'
import { RESERVED_RETRY_AFTER_SECONDS } from '../../../shared/spec-limits.ts'
import { isoTime } from '../../../shared/time.ts'
import type { BillingFallback, BillingMode, UsageByModel } from '../../../shared/wire/billing.ts'
import type { KeySettings } from '../../../shared/wire/keys.ts'
import type { License } from '../../../shared/wire/users.ts'
import type { PointAllowances } from '../config.ts'
import { toNanosLimit } from './money.ts'
import type { Period } from './period.ts'

/** The account that a request is billed to. */
export type Payer = { id: string; license: License; usageByModel: UsageByModel }

/** What one request may spend, and the limits that apply to it. Null is no limit. */
export type Wish = {
  requestId: string
  tenantId: string
  payerId: string
  keyId: string
  /** The billing mode of the key. */
  mode: BillingMode
  /** The account has usage-by-model enabled, so it may be billed in dollars. */
  mayPayDollars: boolean
  license: License
  /** The maximum cost in points, over all models of the chain. */
  points: number
  pointsLimit: number | null
  userLimitNanos: number | null
  keyLimitNanos: number | null
  /** The maximum cost of the answer in nano-dollars. */
  nanosAtMost(): number
  /**
   * The maximum cost of the shortest useful answer, in nano-dollars. Less than `nanosAtMost` only if the gateway may limit
   * the answer's length. Higher while other requests have reservations (`isShared`).
   */
  nanosAtLeast(isShared: boolean): number
}

/** What was spent this month, and what running requests have reserved. */
export type Standing = {
  points: Drawn
  userNanos: Drawn
  keyNanos: Drawn
}
export type Drawn = { readonly spent: number; readonly reserved: number }

/** The limits for a request of this key that is billed to this account. */
export function limitsOf(
  { license, usageByModel }: Payer,
  key: Pick<KeySettings, 'billingMode' | 'usageByModel'>,
  allowances: PointAllowances,
): Pick<Wish, 'mode' | 'mayPayDollars' | 'license' | 'pointsLimit' | 'userLimitNanos' | 'keyLimitNanos'> {
  return {
    mode: key.billingMode,
    mayPayDollars: usageByModel.enabled,
    license,
    pointsLimit: allowances[license] ?? null,
    userLimitNanos: toNanosLimit(usageByModel.dollarLimit),
    keyLimitNanos: key.usageByModel.enabled ? toNanosLimit(key.usageByModel.dollarLimit) : null,
  }
}

/** Whether a limit applies to the request, so that it needs a reservation. */
export const isLimited = (wish: Wish): boolean =>
  wish.mode === 'user-completions'
    ? wish.pointsLimit !== null && wish.points > 0
    : hasBudget(wish) && wish.nanosAtMost() > 0

/**
 * The billing mode of the request: the key's mode, or dollars if the key's points are used up. A request that exceeds the
 * remaining unreserved budget is rejected; a free request never is.
 * @returns undefined when the request must be rejected
 */
export function modeFor(wish: Wish, standing: Standing): BillingMode | undefined {
  if (wish.mode === 'user-completions' && fits(wish.points, wish.pointsLimit, standing.points)) return wish.mode
  return wish.mayPayDollars && canPayDollars(wish, standing) ? 'usage-by-model' : undefined
}

/** Whether a dollar budget limits the request. */
export const hasBudget = ({ userLimitNanos, keyLimitNanos }: Wish): boolean =>
  userLimitNanos !== null || keyLimitNanos !== null

/** The reservation of a request billed in dollars: its maximum cost or the remaining budget. Call it after `modeFor`. */
export function nanosFor(wish: Wish, { userNanos, keyNanos }: Standing): number {
  const left = ({ spent, reserved }: Drawn, limit: number | null) =>
    limit === null ? Number.POSITIVE_INFINITY : Math.max(0, limit - spent - reserved)
  return Math.min(wish.nanosAtMost(), left(userNanos, wish.userLimitNanos), left(keyNanos, wish.keyLimitNanos))
}

function canPayDollars(wish: Wish, { userNanos, keyNanos }: Standing): boolean {
  const { userLimitNanos, keyLimitNanos } = wish
  if (!hasBudget(wish)) return true
  return fitsDollars(wish, userLimitNanos, userNanos) && fitsDollars(wish, keyLimitNanos, keyNanos)
}

const fitsDollars = (wish: Wish, limit: number | null, drawn: Drawn): boolean =>
  fits(wish.nanosAtLeast(drawn.reserved > 0), limit, drawn)

const fits = (amount: number, limit: number | null, { spent, reserved }: Drawn): boolean =>
  amount === 0 || limit === null || spent + reserved + amount <= limit

/** The fallback to report when the request is not billed in the key's mode. */
export const fallbackOf = (wished: BillingMode, mode: BillingMode): BillingFallback | undefined =>
  wished === mode ? undefined : { original_mode: wished, fallback_mode: mode, reason: 'quota_exhausted' }

/** The error for a request that `modeFor` rejects: COMPLETION_LIMIT_EXCEEDED or USAGE_BY_MODEL_BUDGET_EXCEEDED. */
export function refusalOf(wish: Wish, standing: Standing, period: Period, nowMs: number): GatewayError {
  const withoutOthers = {
    points: { ...standing.points, reserved: 0 },
    userNanos: { ...standing.userNanos, reserved: 0 },
    keyNanos: { ...standing.keyNanos, reserved: 0 },
  }
  // Most reserved amounts are released when the running requests end.
  const mayFitSoon = modeFor(wish, withoutOthers) !== undefined
  const resetTime = isoTime(period.endMs)
  const when = mayFitSoon
    ? 'Running requests hold the rest; try again in a moment.'
    : `They are renewed at ${resetTime}.`
  return new GatewayError(
    wish.mode === 'user-completions' ? 'COMPLETION_LIMIT_EXCEEDED' : 'USAGE_BY_MODEL_BUDGET_EXCEEDED',
    `${wish.mode === 'user-completions' ? outOfPoints(wish, standing) : outOfDollars(wish, mayFitSoon ? standing : withoutOthers)} ${when}`,
    {
      retryAfterSeconds: mayFitSoon ? RESERVED_RETRY_AFTER_SECONDS : Math.ceil((period.endMs - nowMs) / 1000),
      extra: { reset_time: resetTime },
    },
  )
}

function outOfPoints({ points, pointsLimit, license, mayPayDollars }: Wish, { points: { spent } }: Standing): string {
  const ofBudget = mayPayDollars ? ', and so is the budget of dollars' : ''
  return `Of the ${pointsLimit} points a month of the licence "${license}", ${spent} are used up; this request may cost ${points}${ofBudget}.`
}

/** Names the budget that rejects the request, in cents; GET /usage has the details. */
function outOfDollars(wish: Wish, { userNanos, keyNanos }: Standing): string {
  const ofUser = !fitsDollars(wish, wish.userLimitNanos, userNanos)
  const [whose, limit, drawn] = ofUser
    ? ['account', wish.userLimitNanos, userNanos]
    : (['API key', wish.keyLimitNanos, keyNanos] as const)
  const nanos = wish.nanosAtLeast(drawn.reserved > 0)
  const needs = nanos < wish.nanosAtMost() ? 'needs at least' : 'may cost'
  return `Of the dollars of this ${whose}, ${cents(limit as number)} a month, ${cents(drawn.spent)} are spent; this request ${needs} ${cents(nanos)}.`
}

const cents = (nanos: number): string => `$${(nanos / 1e9).toFixed(nanos < 1e7 && nanos > 0 ? 6 : 2)}`
