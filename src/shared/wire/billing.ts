import { z } from 'zod'
import { DOLLAR_LIMIT_MAX } from '../spec-limits.ts'
import { flag } from './common.ts'

/** The unit in which a request is billed: the points or the dollars of the account. */
export const BILLING_MODES = ['user-completions', 'usage-by-model'] as const
export type BillingMode = (typeof BILLING_MODES)[number]

/** `usageByModel` of a user and of a key: a monthly budget in dollars. */
export const usageByModelFields = {
  enabled: flag('usageByModel.enabled'),
  dollarLimit: z
    .number({ error: 'usageByModel.dollarLimit must be a number of dollars, or null for no limit' })
    .min(0, { error: 'usageByModel.dollarLimit must not be negative' })
    .max(DOLLAR_LIMIT_MAX, { error: `usageByModel.dollarLimit may be at most ${DOLLAR_LIMIT_MAX}` })
    .nullable(),
}
export const IS_USAGE_BY_MODEL = 'usageByModel must be an object {enabled, dollarLimit}'

export const UsageByModel = z.object(usageByModelFields, { error: IS_USAGE_BY_MODEL })
export type UsageByModel = z.output<typeof UsageByModel>

/** This member is reported if a request was billed in dollars because the account's points were used up. */
export const BillingFallback = z.object({
  original_mode: z.enum(BILLING_MODES),
  fallback_mode: z.enum(BILLING_MODES),
  reason: z.literal('quota_exhausted'),
})
export type BillingFallback = z.infer<typeof BillingFallback>
