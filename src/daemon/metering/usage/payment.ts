import type { BillingFallback, BillingMode, UsageByModel } from '../../../shared/wire/billing.ts'
import type { License } from '../../../shared/wire/users.ts'
import type { ReservedRequest } from '../../platform/db/spend-counters.ts'
import type { AppliedBudget } from '../budgets/applied-budgets.ts'

/** The billing mode and reservation of an accepted request. */
export type Payment = {
  readonly mode: BillingMode
  readonly fallback: BillingFallback | undefined
  /** The month in which the request is billed. */
  readonly period: string
  /** The maximum cost of the answer, reserved in the budget, in nano-dollars. Undefined if no budget applies. */
  readonly coveredNanos: number | undefined
  /** The reservation to delete in the transaction that stores the bill. */
  readonly reserved: ReservedRequest | undefined
  /** Call this when the bill is durable. */
  settled(charge: { amount: SpendAmount }): void
  /** Releases the reservation. Always call this when the request has ended. Never throws. */
  release(): Promise<void> | undefined
}

/** The cost of one request, either in dollars or in points; the other amount is 0. */
export type SpendAmount = { nanos: number; points: number }

/** The account that a request is billed to, and the budgets of groups, tags and the tenant that limit the request. */
export type Payer = {
  id: string
  license: License
  usageByModel: UsageByModel
  budgets?: readonly AppliedBudget[] | undefined
}
