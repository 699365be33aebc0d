import type { Clock } from '../../../shared/time.ts'
import type { BillingFallback, BillingMode } from '../../../shared/wire/billing.ts'
import type { Db } from '../../platform/db/db.ts'
import type { ReservedRequest } from '../../platform/db/spend-counters.ts'
import type { Log } from '../../platform/log.ts'
import type { SpendRequest } from './spend-request.ts'

/** The billing mode and reservation of an accepted request. */
export type Payment = {
  readonly mode: BillingMode
  readonly fallback: BillingFallback | undefined
  /** The month that it is billed in. */
  readonly period: string
  /** The maximum cost of the answer, reserved in the budget, in nano-dollars. Undefined if no budget applies. */
  readonly coveredNanos: number | undefined
  /** The reservation that the commit of the bill must delete. */
  readonly reserved: ReservedRequest | undefined
  /** Call it once the bill is durable. */
  settled(charge: { amount: SpendAmount }): void
  /** Releases the reservation. Always call it when the request has ended. Never throws. */
  release(): Promise<void> | undefined
}

/** The cost of one request, in dollars or in points; the other is 0. */
export type SpendAmount = { nanos: number; points: number }

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
  clock: Clock
  log: Pick<Log, 'error'>
  /** For budgets in memory: above this number of accounts or keys, idle ones are evicted. */
  accountsInMemory?: number
}
