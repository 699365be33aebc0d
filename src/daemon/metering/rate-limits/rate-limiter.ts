import type { Clock } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Limiter } from '../../platform/http/admission.ts'
import type { Caller } from '../../platform/http/caller.ts'
import type { Log } from '../../platform/log.ts'
import type { Ledger } from '../../records/ledger/ledger.ts'
import type { WindowName } from './windows.ts'

/** The number of requests of a key in each current window. */
export type RequestCounts = Readonly<Record<WindowName, number>>

export type RateLimiter = Limiter & {
  /** The current counts of this key, including running requests. */
  usageOf(caller: Caller): Promise<RequestCounts>
}

export type LimiterDeps = {
  db: Db
  ledger: Ledger
  clock: Clock
  log: Pick<Log, 'error'>
  /** The number of keys above which idle keys are evicted; applies only to counters in memory. */
  keysInMemory?: number
  /** Called after an event was stored, unless the ledger stored it. */
  onEvents?(): void
}
