import type { Clock } from '../../../shared/time.ts'
import type { Billing } from './billing.ts'
import type { Payment } from './payment.ts'
import { periodAt } from './period.ts'

/** Billing for free requests, which are accepted regardless of the account's budget. */
export const unbilled = (billing: Billing, clock: Clock): Billing => ({
  ...billing,
  reserve: ({ caller }): Payment => ({
    mode: caller.settings.billingMode,
    fallback: undefined,
    period: periodAt(clock.now()).name,
    coveredNanos: undefined,
    reserved: undefined,
    settled() {},
    release: () => undefined,
  }),
  charge: (_order, { mode, period }) => ({
    amount: { nanos: 0, points: 0 },
    columns: { billing_mode: mode, billing_period: period, cost_nanos: 0, points: 0, price_missing: 0 },
    spend: [],
  }),
})
