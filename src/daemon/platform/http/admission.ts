import type { GatewayError } from '../../../shared/errors.ts'
import type { RateCounterRow } from '../db/tables.ts'
import type { Caller } from './caller.ts'
import type { Route } from './route.ts'

/** Decides whether a key may make one more request. It runs first on every route that needs a key. */
export type Limiter = {
  /** Counts the request, unless it is rejected. */
  admit(caller: Caller, route: Route): Admission | Promise<Admission>
}

/** The decision on one request. */
export type Admission = {
  /** `RateLimit-*` headers for the response, whatever its status. Empty when no limit applies. */
  readonly headers: Readonly<Record<string, string>>
  /** Why the request is rejected. */
  readonly refusal: GatewayError | undefined
  /** The counters that must be durable before the last byte of the response. The caller commits them, or throws. */
  takeCounters(): readonly RateCounterRow[]
  /**
   * Commits the counters that were not taken, or that a handler took before it threw (`thrown`): it may have failed
   * before the commit. Called once for each admitted request, before its response is sent. Never rejects.
   */
  finish(ending: 'answered' | 'thrown'): Promise<void> | undefined
}
