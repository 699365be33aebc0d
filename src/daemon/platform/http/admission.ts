import type { GatewayError } from '../../../shared/errors.ts'
import type { RateCounterRow } from '../db/tables.ts'
import type { Caller } from './caller.ts'
import type { Route } from './route.ts'

/** Says whether a key may make one more request; asked for every route that needs a key, before anything else is looked at. */
export type Limiter = {
  /** Counts the request, unless it is refused. */
  admit(caller: Caller, route: Route): Admission | Promise<Admission>
}

/** What was decided on one request. */
export type Admission = {
  /** `RateLimit-*`, for whatever the answer will be. None when nothing limits. */
  readonly headers: Readonly<Record<string, string>>
  /** Why the request is not let in. */
  readonly refusal: GatewayError | undefined
  /** The counters that are to be durable before the last byte of the answer; whoever takes them commits them, or throws. */
  takeCounters(): readonly RateCounterRow[]
  /**
   * Makes durable what nobody took, or what was taken by a handler that has `thrown`: it may not have come so far. Called
   * once for each admitted request, before its answer leaves. Never rejects.
   */
  finish(ending: 'answered' | 'thrown'): Promise<void> | undefined
}
