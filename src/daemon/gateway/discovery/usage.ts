import type { z } from 'zod'
import { isoTime } from '../../../shared/time.ts'
import type { UsageByModel } from '../../../shared/wire/billing.ts'
import type { UsageResponse } from '../../../shared/wire/discovery.ts'
import { toDollars, toNanos } from '../../metering/usage/money.ts'
import { periodAt } from '../../metering/usage/period.ts'
import type { SpendCounterRow } from '../../platform/db/tables.ts'
import type { Caller } from '../../platform/http/caller.ts'

/** Counts the requests of this key in the current UTC day and month. */
export type CountsOf = (caller: Caller) => Promise<{ day: number; month: number }>

type Usage = z.input<typeof UsageResponse>

export type UsageFacts = {
  counts: { day: number; month: number }
  /** The owner's spending this month. */
  spend: Pick<SpendCounterRow, 'nanos' | 'points'>
  /** The owner's points per month. Null means unlimited. */
  pointsLimit: number | null
  nowMs: number
}

/**
 * Returns the body of GET /usage. Points and dollars show what the finished requests of the key's owner have used. The
 * limits are the effective limits. The operator key has no limits.
 */
export function toUsage(
  { keyName, expiresAt, isOperator, settings, userUsageByModel }: Caller,
  { counts, spend, pointsLimit, nowMs }: UsageFacts,
): Usage {
  const { dailyLimit, monthlyLimit, rateLimit, billingMode } = settings
  const holding = (limit: number | null) => (isOperator ? null : limit)
  return {
    success: true,
    points: {
      remaining: pointsLimit === null ? null : Math.max(0, pointsLimit - spend.points),
      monthly_limit: pointsLimit,
      next_renewal: isoTime(periodAt(nowMs).endMs),
    },
    usage_by_model: toBudget(userUsageByModel, spend.nanos),
    api_key: {
      name: keyName,
      billing_mode: billingMode,
      daily: toCounter(counts.day, holding(dailyLimit)),
      monthly: toCounter(counts.month, holding(monthlyLimit)),
      rate_limit: {
        requests_per_minute: holding(rateLimit.requestsPerMinute),
        requests_per_hour: holding(rateLimit.requestsPerHour),
      },
      expires_at: expiresAt,
    },
  }
}

const toCounter = (used: number, limit: number | null) => ({
  used,
  limit,
  remaining: limit === null ? null : Math.max(0, limit - used),
})

function toBudget({ enabled, dollarLimit }: UsageByModel, spentNanos: number): Usage['usage_by_model'] {
  if (!enabled) return { enabled: false }
  return {
    enabled: true,
    dollar_limit: dollarLimit,
    current_spend: toDollars(spentNanos),
    remaining_budget: dollarLimit === null ? null : toDollars(Math.max(0, toNanos(dollarLimit) - spentNanos)),
  }
}
