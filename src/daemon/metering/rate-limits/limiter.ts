import { engineOf } from '../../platform/db/engine.ts'
import { createMemoryLimiter } from './memory-limiter.ts'
import type { LimiterDeps, RateLimiter } from './rate-limiter.ts'
import { createSharedLimiter } from './shared-limiter.ts'

/**
 * Counts the requests of every key and refuses those above its limits, exactly: on SQLite, which only one daemon can use,
 * in memory and through the ledger; on PostgreSQL, where there may be many, in rows that all of them share.
 */
export const createRateLimiter = (deps: LimiterDeps): RateLimiter =>
  engineOf(deps.db).name === 'sqlite' ? createMemoryLimiter(deps) : createSharedLimiter(deps)
