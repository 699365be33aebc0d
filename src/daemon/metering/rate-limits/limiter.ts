import { engineOf } from '../../platform/db/engine.ts'
import { createMemoryLimiter } from './memory-limiter.ts'
import type { LimiterDeps, RateLimiter } from './rate-limiter.ts'
import { createSharedLimiter } from './shared-limiter.ts'

/**
 * Counts the requests of every key, and rejects exactly the requests that exceed the key's limits. An SQLite store has
 * only one daemon. This daemon counts in memory and stores its counters through the ledger. On PostgreSQL, all daemons
 * share the counter rows.
 */
export const createRateLimiter = (deps: LimiterDeps): RateLimiter =>
  engineOf(deps.db).name === 'sqlite' ? createMemoryLimiter(deps) : createSharedLimiter(deps)
