import { GatewayError } from '../../../shared/errors.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { BillingFallback, BillingMode } from '../../../shared/wire/billing.ts'
import type { KeySettings } from '../../../shared/wire/keys.ts'
import type { License } from '../../../shared/wire/users.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Log } from '../../platform/log.ts'
import { type AppliedBudget, NO_BUDGETS } from '../budgets/applied-budgets.ts'
import type { PointAllowances } from '../config.ts'
import { toNanosLimit } from './money.ts'
import type { Payer, Payment } from './payment.ts'
import type { Period } from './period.ts'

/** The `Retry-After` value if the remaining budget is reserved but not spent. */
export const RESERVED_RETRY_AFTER_SECONDS = 2

/** The amount that one request may spend, and the limits that apply to it. A null limit means unlimited. */
export type SpendRequest = {
  requestId: string
  /** Whether nothing is sent or billed. */
  isDryRun?: boolean | undefined
  tenantId: string
  payerId: string
  keyId: string
  /** The billing mode of the key. */
  mode: BillingMode
  /** Whether the account has usage-by-model enabled. If so, it may be billed in dollars. */
  mayPayDollars: boolean
  license: License
  /** The maximum cost in points, over all models of the chain. */
  points: number
  pointsLimit: number | null
  userLimitNanos: number | null
  keyLimitNanos: number | null
  /** The budgets of groups, tags and the tenant that limit the request. */
  budgets: readonly AppliedBudget[]
  /** Returns the maximum cost of the answer in nano-dollars. */
  nanosAtMost(): number
  /**
   * Returns the maximum cost of the shortest useful answer, in nano-dollars. This cost is less than `nanosAtMost` only
   * if the gateway may limit the answer's length. It is higher while other requests have reservations (`isShared`).
   */
  nanosAtLeast(isShared: boolean): number
}

/** The amounts that were spent this month, and the amounts that running requests have reserved. */
export type Standing = {
  points: SpendState
  userNanos: SpendState
  keyNanos: SpendState
  /** In the order of the request's `budgets`. */
  budgets: readonly SpendState[]
}
export type SpendState = { readonly spent: number; readonly reserved: number }

/** Returns the limits for a request that is sent with this key and billed to this account. */
export function limitsOf(
  { license, usageByModel, budgets = NO_BUDGETS }: Payer,
  key: Pick<KeySettings, 'billingMode' | 'usageByModel'>,
  allowances: PointAllowances,
): Pick<
  SpendRequest,
  'mode' | 'mayPayDollars' | 'license' | 'pointsLimit' | 'userLimitNanos' | 'keyLimitNanos' | 'budgets'
> {
  return {
    mode: key.billingMode,
    mayPayDollars: usageByModel.enabled,
    license,
    pointsLimit: allowances[license] ?? null,
    userLimitNanos: toNanosLimit(usageByModel.dollarLimit),
    keyLimitNanos: key.usageByModel.enabled ? toNanosLimit(key.usageByModel.dollarLimit) : null,
    budgets,
  }
}

/** Whether a limit applies to the request. If so, the request needs a reservation. */
export const isLimited = (request: SpendRequest): boolean =>
  request.mode === 'user-completions'
    ? request.pointsLimit !== null && request.points > 0
    : hasBudget(request) && request.nanosAtMost() > 0

/**
 * Determines the billing mode of the request: the key's mode, or dollars if the key's points are exhausted. A request
 * that exceeds the remaining unreserved budget is rejected. A free request is never rejected.
 * @returns undefined if the request must be rejected
 */
export function modeFor(request: SpendRequest, standing: Standing): BillingMode | undefined {
  if (request.mode === 'user-completions' && fits(request.points, request.pointsLimit, standing.points))
    return request.mode
  return request.mayPayDollars && canPayDollars(request, standing) ? 'usage-by-model' : undefined
}

/** Whether a dollar budget limits the request. */
export const hasBudget = ({ userLimitNanos, keyLimitNanos, budgets }: SpendRequest): boolean =>
  userLimitNanos !== null || keyLimitNanos !== null || budgets.length > 0

/**
 * Returns the amount to reserve for a request that is billed in dollars: its maximum cost, or the remaining budget if
 * that is less. Call it after `modeFor`.
 */
export function nanosFor(request: SpendRequest, standing: Standing): number {
  const left = ({ spent, reserved }: SpendState, limit: number | null) =>
    limit === null ? Number.POSITIVE_INFINITY : Math.max(0, limit - spent - reserved)
  const { userNanos, keyNanos, budgets } = standing
  const ofBoth = Math.min(left(userNanos, request.userLimitNanos), left(keyNanos, request.keyLimitNanos))
  const ofBudgets = budgets.map((state, at) => left(state, request.budgets[at]?.limitNanos ?? null))
  return Math.min(request.nanosAtMost(), ofBoth, ...ofBudgets)
}

const canPayDollars = (request: SpendRequest, standing: Standing): boolean =>
  !hasBudget(request) || exceededLimit(request, standing) === undefined

/** A limit in dollars, the words for its holder in messages, and the holder's spend. */
type DollarLimit = { whose: string; limit: number; state: SpendState }

/** Returns the first limit that the request exceeds. */
function exceededLimit(request: SpendRequest, { userNanos, keyNanos, budgets }: Standing): DollarLimit | undefined {
  const { userLimitNanos, keyLimitNanos } = request
  if (userLimitNanos !== null && !fitsDollars(request, userLimitNanos, userNanos))
    return { whose: 'This account', limit: userLimitNanos, state: userNanos }
  if (keyLimitNanos !== null && !fitsDollars(request, keyLimitNanos, keyNanos))
    return { whose: 'This API key', limit: keyLimitNanos, state: keyNanos }
  for (const [at, budget] of request.budgets.entries()) {
    const state = budgets[at] as SpendState
    if (!fitsDollars(request, budget.limitNanos, state))
      return { whose: holderOf(budget), limit: budget.limitNanos, state }
  }
  return undefined
}

const holderOf = ({ scope, subject }: AppliedBudget): string =>
  scope === 'tag' ? `The tag "${subject}"` : scope === 'group' ? "This account's group" : 'This tenant'

const fitsDollars = (request: SpendRequest, limit: number | null, state: SpendState): boolean =>
  fits(request.nanosAtLeast(state.reserved > 0), limit, state)

const fits = (amount: number, limit: number | null, { spent, reserved }: SpendState): boolean =>
  amount === 0 || limit === null || spent + reserved + amount <= limit

/** Returns the billing fallback to report. Returns undefined if the request is billed in the key's mode. */
export const fallbackOf = (keyMode: BillingMode, mode: BillingMode): BillingFallback | undefined =>
  keyMode === mode ? undefined : { original_mode: keyMode, fallback_mode: mode, reason: 'quota_exhausted' }

/**
 * Returns the error for a request that `modeFor` rejects: COMPLETION_LIMIT_EXCEEDED or USAGE_BY_MODEL_BUDGET_EXCEEDED.
 */
export function refusalOf(request: SpendRequest, standing: Standing, period: Period, nowMs: number): GatewayError {
  const withoutOthers = {
    points: { ...standing.points, reserved: 0 },
    userNanos: { ...standing.userNanos, reserved: 0 },
    keyNanos: { ...standing.keyNanos, reserved: 0 },
    budgets: standing.budgets.map(({ spent }) => ({ spent, reserved: 0 })),
  }
  // True if the request would fit once all running requests had released their reservations. Most reservations are
  // released soon.
  const mayFitSoon = modeFor(request, withoutOthers) !== undefined
  const resetTime = isoTime(period.endMs)
  const when = mayFitSoon
    ? 'Running requests have reserved the rest. Retry in a moment.'
    : `The limit resets at ${resetTime}.`
  return new GatewayError(
    request.mode === 'user-completions' ? 'COMPLETION_LIMIT_EXCEEDED' : 'USAGE_BY_MODEL_BUDGET_EXCEEDED',
    `${request.mode === 'user-completions' ? outOfPoints(request, standing) : outOfDollars(request, mayFitSoon ? standing : withoutOthers)} ${when}`,
    {
      retryAfterSeconds: mayFitSoon ? RESERVED_RETRY_AFTER_SECONDS : Math.ceil((period.endMs - nowMs) / 1000),
      extra: { reset_time: resetTime },
    },
  )
}

function outOfPoints(
  { points, pointsLimit, license, mayPayDollars }: SpendRequest,
  { points: { spent } }: Standing,
): string {
  const ofBudget = mayPayDollars ? ' The dollar budget is used up too.' : ''
  return `The licence "${license}" has ${pointsLimit} points a month; ${spent} are used, and this request may cost ${points}.${ofBudget}`
}

/**
 * Describes the exhausted budget. Amounts are rounded to cents, except very small amounts. GET /usage returns the
 * details.
 */
function outOfDollars(request: SpendRequest, standing: Standing): string {
  const { whose, limit, state } = exceededLimit(request, standing) as DollarLimit
  const nanos = request.nanosAtLeast(state.reserved > 0)
  const needs = nanos < request.nanosAtMost() ? 'needs at least' : 'may cost'
  return `${whose} may spend ${cents(limit)} a month; ${cents(state.spent)} are spent, and this request ${needs} ${cents(nanos)}.`
}

const cents = (nanos: number): string => `$${(nanos / 1e9).toFixed(nanos < 1e7 && nanos > 0 ? 6 : 2)}`

export type Budgets = {
  /**
   * Reserves the request's maximum cost, capped by the remaining budget.
   * @throws COMPLETION_LIMIT_EXCEEDED, USAGE_BY_MODEL_BUDGET_EXCEEDED
   */
  reserve(request: SpendRequest): Payment | Promise<Payment>
  /** Stops background work. Call it after the last request has ended. */
  close(): void
}

export type BudgetsDeps = {
  db: Db
  /** Called after a request with a budget was billed in dollars. */
  onSpent?: (request: SpendRequest, period: string, nanos: number) => void
  /** Called for a request that a limit in points or dollars refused. */
  onRefused?: (request: SpendRequest, period: string) => void
  clock: Clock
  log: Pick<Log, 'error'>
  /** For budgets in memory: above this number of accounts or keys, idle accounts and keys are evicted. */
  accountsInMemory?: number
}
