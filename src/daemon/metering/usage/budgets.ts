import { engineOf } from '../../platform/db/engine.ts'
import { createMemoryBudgets } from './memory-budgets.ts'
import { createSharedBudgets } from './shared-budgets.ts'
import type { Budgets, BudgetsDeps } from './spend-request.ts'

/**
 * Enforces the limits in points and dollars exactly, even for concurrent requests. An SQLite store has only one daemon,
 * which counts in memory. On PostgreSQL, all daemons share the counter rows.
 */
export const createBudgets = (deps: BudgetsDeps): Budgets =>
  engineOf(deps.db).name === 'sqlite' ? createMemoryBudgets(deps) : createSharedBudgets(deps)
