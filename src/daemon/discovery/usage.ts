import type { z } from 'zod'
import { isoTime } from '../../shared/time.ts'
import type { UsageResponse } from '../../shared/wire/discovery.ts'
import type { Caller } from '../http/caller.ts'

/** How many requests of this key count in the current UTC day and month. */
export type CountsOf = (caller: Caller) => Promise<{ day: number; month: number }>

type Usage = z.input<typeof UsageResponse>

/**
 * Body of GET /usage (named-endpoints §8). No points are kept, so none run out. Limits are those that really hold: none for
 * the operator key.
 */
export function toUsage(
  { keyName, expiresAt, isOperator, settings }: Caller,
  { counts, nowMs }: { counts: { day: number; month: number }; nowMs: number },
): Usage {
  const { dailyLimit, monthlyLimit, rateLimit, billingMode } = settings
  const holding = (limit: number | null) => (isOperator ? null : limit)
  return {
    success: true,
    points: { remaining: null, monthly_limit: null, next_renewal: startOfNextMonth(nowMs) },
    usage_by_model: toBudget(settings.usageByModel),
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

/** Chat refuses keys that would draw on such a budget, so nothing of it can have been spent. */
function toBudget({ enabled, dollarLimit }: Caller['settings']['usageByModel']): Usage['usage_by_model'] {
  if (!enabled) return { enabled: false }
  return { enabled: true, dollar_limit: dollarLimit, current_spend: 0, remaining_budget: dollarLimit }
}

function startOfNextMonth(nowMs: number): string {
  const now = new Date(nowMs)
  return isoTime(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1))
}
