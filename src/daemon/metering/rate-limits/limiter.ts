import type { Clock } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import type { Limiter } from '../../platform/http/admission.ts'
import type { Caller } from '../../platform/http/caller.ts'
import type { Log } from '../../platform/log.ts'
import type { Ledger } from '../../records/ledger/ledger.ts'
import { createMemoryLimiter } from './memory-limiter.ts'
import { createSharedLimiter } from './shared-limiter.ts'
import type { WindowName } from './windows.ts'

/** Requests of a key in the current windows. */
export type RequestCounts = Readonly<Record<WindowName, number>>

export type RateLimiter = Limiter & {
  /** What counts for this key by now, its running requests included. */
  usageOf(caller: Caller): Promise<RequestCounts>
}

export type LimiterDeps = {
  db: Db
  ledger: Ledger
  clock: Clock
  log: Pick<Log, 'error'>
  /** Above so many keys, idle ones are forgotten, where counts are kept in memory. */
  keysInMemory?: number
  /** Called when an event was stored, except through the ledger. */
  onEvents?(): void
}

/**
 * Counts the requests of every key and refuses those above its limits, exactly: on SQLite, which only one daemon can use,
 * in memory and through the ledger; on PostgreSQL, where there may be many, in rows that all of them share.
 */
export const createRateLimiter = (deps: LimiterDeps): RateLimiter =>
  engineOf(deps.db).name === 'sqlite' ? createMemoryLimiter(deps) : createSharedLimiter(deps)
