import { engineOf } from '../../platform/db/engine.ts'
import { createMemoryBudgets } from './memory-budgets.ts'
import type { Budgets, BudgetsDeps } from './payment.ts'
import { createSharedBudgets } from './shared-budgets.ts'

/**
 * Keeps points and dollars within their limits, exactly, however many requests run at once: on SQLite, which only one
 * daemon can use, in memory; on PostgreSQL in rows that all daemons share.
 */
export const createBudgets = (deps: BudgetsDeps): Budgets =>
  engineOf(deps.db).name === 'sqlite' ? createMemoryBudgets(deps) : createSharedBudgets(deps)
