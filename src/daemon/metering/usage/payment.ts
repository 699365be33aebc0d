import type { Clock } from '../../../shared/time.ts'
import type { BillingFallback, BillingMode } from '../../../shared/wire/billing.ts'
import type { Db } from '../../platform/db/db.ts'
import type { ReservedRequest } from '../../platform/db/spend-counters.ts'
import type { Log } from '../../platform/log.ts'
import type { Wish } from './wish.ts'

/** What a request that was let in will be billed, and as what. */
export type Payment = {
  readonly mode: BillingMode
  readonly fallback: BillingFallback | undefined
  /** The month it counts in. */
  readonly period: string
  /** Dollars reserved within a budget, in nano-dollars: the answer may cost no more. Undefined where no budget limits it. */
  readonly coveredNanos: number | undefined
  /** What the commit of the bill has to end. */
  readonly reserved: ReservedRequest | undefined
  /** To be called once the bill is durable. */
  settled(charge: { drawn: Drawing }): void
  /** Gives back what was not settled. To be called at the end, whatever happened; never throws. */
  release(): Promise<void> | undefined
}

/** What one request draws on: one of the two is nothing. */
export type Drawing = { nanos: number; points: number }

export type Budgets = {
  /**
   * Reserves the most that the request can cost, or what a budget still covers of it; nothing where nothing limits it.
   * @throws COMPLETION_LIMIT_EXCEEDED, USAGE_BY_MODEL_BUDGET_EXCEEDED
   */
  reserve(wish: Wish): Payment | Promise<Payment>
  /** Ends what goes on beside the requests. Call it when none runs any more. */
  close(): void
}

export type BudgetsDeps = {
  db: Db
  clock: Clock
  log: Pick<Log, 'error'>
  /** Above so many accounts and keys, idle ones are forgotten, where they are kept in memory. */
  accountsInMemory?: number
}
