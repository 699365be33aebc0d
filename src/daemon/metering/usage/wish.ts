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

/** What one request wants to draw on, and the limits that hold for it. Null is no limit. */
export type Wish = {
  requestId: string
  tenantId: string
  payerId: string
  keyId: string
  /** What the key draws on. */
  mode: BillingMode
  /** The account has agreed to be billed in dollars. */
  mayPayDollars: boolean
  license: License
  /** The most points that its answer can cost, whichever model of its chain gives it. */
  points: number
  pointsLimit: number | null
  userLimitNanos: number | null
  keyLimitNanos: number | null
  /** The most that its answer can cost in nano-dollars. */
  nanosAtMost(): number
  /**
   * What the shortest answer worth asking for can cost; less than the most only where its length may be limited. It is more
   * while other requests hold reservations (`isShared`).
   */
  nanosAtLeast(isShared: boolean): number
}

/** What was drawn on in this month, and what running requests may still draw. */
export type Standing = {
  points: Drawn
  userNanos: Drawn
  keyNanos: Drawn
}
export type Drawn = { readonly spent: number; readonly reserved: number }

/** The limits that hold for a request of this key that this account pays. */
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

/** Whether anything that the request can draw on is limited, so that others have to be asked about. */
export const isLimited = (wish: Wish): boolean =>
  wish.mode === 'user-completions'
    ? wish.pointsLimit !== null && wish.points > 0
    : hasBudget(wish) && wish.nanosAtMost() > 0

/**
 * What the request draws on: what its key says, or dollars when that is points and they are used up. A request is let in
 * only when the least it can cost fits into what is left, and what costs nothing always does (named-endpoints §9).
 * @returns undefined when nothing is left for it
 */
export function modeFor(wish: Wish, standing: Standing): BillingMode | undefined {
  if (wish.mode === 'user-completions' && fits(wish.points, wish.pointsLimit, standing.points)) return wish.mode
  return wish.mayPayDollars && canPayDollars(wish, standing) ? 'usage-by-model' : undefined
}

/** Whether a budget of dollars limits the request. */
export const hasBudget = ({ userLimitNanos, keyLimitNanos }: Wish): boolean =>
  userLimitNanos !== null || keyLimitNanos !== null

/** What a request that pays in dollars reserves: the most it can cost, or what is left. Call it after `modeFor`. */
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

/** Named-endpoints §9: shown when a request could not be paid as its key says. */
export const fallbackOf = (wished: BillingMode, mode: BillingMode): BillingFallback | undefined =>
  wished === mode ? undefined : { original_mode: wished, fallback_mode: mode, reason: 'quota_exhausted' }

/** COMPLETION_LIMIT_EXCEEDED or USAGE_BY_MODEL_BUDGET_EXCEEDED, for a request that `modeFor` has nothing for. */
export function refusalOf(wish: Wish, standing: Standing, period: Period, nowMs: number): GatewayError {
  const withoutOthers = {
    points: { ...standing.points, reserved: 0 },
    userNanos: { ...standing.userNanos, reserved: 0 },
    keyNanos: { ...standing.keyNanos, reserved: 0 },
  }
  // Most of what is reserved comes back as soon as the requests that run are done.
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

/** Names the budget that is the first to say no, in cents: more is for GET /usage. */
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
