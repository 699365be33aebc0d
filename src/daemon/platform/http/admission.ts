import type { GatewayError } from '../../../shared/errors.ts'
import type { RateCounterRow } from '../db/tables.ts'
import type { Caller } from './caller.ts'
import type { Route } from './route.ts'

/**
 * Decides whether a key is allowed to make one more request. This is the first check after authentication on every
 * route that requires a key.
 */
export type Limiter = {
  /** Counts the request, unless it is rejected. */
  admit(caller: Caller, route: Route): Admission | Promise<Admission>
}

/** A limit of a key on all requests, or on the requests to one route. */
export type ReachedLimit = { limit: 'minute' | 'hour' | 'day' | 'month'; scope: 'key' | 'route' }

/** The decision on one request. */
export type Admission = {
  /** `RateLimit-*` headers for the response, regardless of its status. Empty if no limit applies. */
  readonly headers: Readonly<Record<string, string>>
  /** The rejection's error; undefined if the request is admitted. */
  readonly refusal: GatewayError | undefined
  /** The limit that rejected the request, for metrics. */
  readonly reached?: ReachedLimit | undefined
  /** Returns the counters that are not durable yet. They must be durable before the response's last byte is sent. */
  unstoredCounters(): readonly RateCounterRow[]
  /** Call this when the handler has committed the counters. */
  countersStored(): void
  /**
   * Commits the counters unless the handler has already committed them. Called once for each admitted request, before
   * its response is sent. Never rejects.
   */
  finish(): Promise<void> | undefined
}
