import { GatewayError } from '../../../shared/errors.ts'
import { isoTime } from '../../../shared/time.ts'
import type { OutboxEventRow, RateCounterRow } from '../../platform/db/tables.ts'
import type { Admission, ReachedLimit } from '../../platform/http/admission.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { type LimitReached, limitReached } from '../../records/events/events.ts'
import type { Counter } from './counter.ts'
import { leftOf, type Quota, strictest } from './quotas.ts'
import type { WindowName } from './windows.ts'

const NO_HEADERS: Readonly<Record<string, string>> = Object.freeze({})

const LIMIT_TYPES: Record<WindowName, LimitReached['limitType']> = {
  minute: 'minute',
  hour: 'hour',
  day: 'daily',
  month: 'monthly',
}

/** The usage of a key under all quotas that apply to one route. */
export class QuotaUsage {
  /** The rows to store for the counters. */
  readonly rows: readonly RateCounterRow[]
  readonly #caller: Caller
  readonly #quotas: readonly Quota[]
  readonly #counters: readonly Counter[]
  #strictest: number | undefined
  #policy = ''
  #policyEndMs = 0

  /** @param counters one per quota, in the same order; routes of the same key may share counters. */
  constructor(caller: Caller, quotas: readonly Quota[], counters: readonly Counter[]) {
    this.rows = counters.map(({ row }) => row)
    this.#caller = caller
    this.#quotas = quotas
    this.#counters = counters
  }

  /**
   * Counts a request against all quotas and returns true. If a quota is exhausted, counts nothing and returns false.
   */
  take(nowMs: number): boolean {
    for (const counter of this.#counters) counter.moveTo(nowMs)
    const at = strictest(this.#quotas, this.#counters)
    this.#strictest = at
    if (at !== undefined && this.#leftAt(at) === 0) return false
    // Every request counts in the minute window, so the start of this window is the minute in which the key was last
    // used.
    const lastUsedAt = (this.rows[0] as RateCounterRow).window_start
    for (const row of this.rows) {
      row.used += 1
      row.last_used_at = lastUsedAt
    }
    return true
  }

  /**
   * The `RateLimit-*` headers. They describe the quota with the fewest requests left; only the policy header lists all
   * quotas. Call it after `take`.
   */
  headers(nowMs: number): Readonly<Record<string, string>> {
    const at = this.#strictest
    if (at === undefined) return NO_HEADERS
    return {
      'ratelimit-limit': String(this.#limitAt(at)),
      'ratelimit-remaining': String(this.#leftAt(at)),
      'ratelimit-reset': String(this.#secondsLeft(at, nowMs)),
      'ratelimit-policy': this.#policyAt(nowMs),
    }
  }

  /** The error RATE_LIMIT_EXCEEDED. Call it after `take` has returned false. */
  refusal(nowMs: number): GatewayError {
    const at = this.#strictest as number
    const { window, endpoint } = this.#quotas[at] as Quota
    const allowed = this.#limitAt(at)
    const limit = `${allowed} request${allowed === 1 ? '' : 's'} per ${window}`
    const resetTime = isoTime(this.#counterAt(at).endMs)
    return new GatewayError(
      'RATE_LIMIT_EXCEEDED',
      `This key is limited to ${limit}${endpoint === undefined ? '' : ` to ${endpoint}`}. Retry after ${resetTime}.`,
      { retryAfterSeconds: this.#secondsLeft(at, nowMs), extra: { reset_time: resetTime } },
    )
  }

  /** The limit that rejected the request. Call it after `take` has returned false. */
  reached(): ReachedLimit {
    const { window, endpoint } = this.#quotas[this.#strictest as number] as Quota
    return { limit: window, scope: endpoint === undefined ? 'key' : 'route' }
  }

  /** The exhausted counters, each with its event. Call it after `take` has returned false. */
  usedUp(nowMs: number): { counter: Counter; event: OutboxEventRow }[] {
    return this.#quotas.flatMap((quota, at) => {
      const counter = this.#counterAt(at)
      return leftOf(quota, counter) > 0 ? [] : [{ counter, event: this.#eventAt(at, nowMs) }]
    })
  }

  #eventAt(at: number, nowMs: number): OutboxEventRow {
    const { tenantId, keyId, keyName, userId } = this.#caller
    const { counter, window, endpoint } = this.#quotas[at] as Quota
    const { row, used, endMs } = this.#counterAt(at)
    return limitReached(
      { tenantId, createdAt: isoTime(nowMs), counter, windowStart: row.window_start },
      {
        apiKeyId: keyId,
        keyName,
        userId,
        limitType: LIMIT_TYPES[window],
        endpoint: endpoint ?? null,
        limit: this.#limitAt(at),
        used,
        resetTime: isoTime(endMs),
      },
    )
  }

  /**
   * The policy header is cached: it changes only when a month starts that differs in length from the previous month.
   */
  #policyAt(nowMs: number): string {
    if (nowMs < this.#policyEndMs) return this.#policy
    this.#policy = this.#quotas
      .flatMap(({ limit }, at) => {
        const { startMs, endMs } = this.#counterAt(at)
        return limit === null ? [] : `${limit};w=${(endMs - startMs) / 1000}`
      })
      .join(', ')
    this.#policyEndMs = Math.max(...this.#counters.map(({ endMs }) => endMs))
    return this.#policy
  }

  #secondsLeft(at: number, nowMs: number): number {
    return Math.ceil((this.#counterAt(at).endMs - nowMs) / 1000)
  }

  #leftAt(at: number): number {
    return leftOf(this.#quotas[at] as Quota, this.#counterAt(at))
  }

  #limitAt(at: number): number {
    return (this.#quotas[at] as Quota).limit as number
  }

  #counterAt(at: number): Counter {
    return this.#counters[at] as Counter
  }
}

/** An admission decision without counters to store. */
export const decided = (
  headers: Readonly<Record<string, string>>,
  refusal?: GatewayError,
  reached?: ReachedLimit,
): Admission => ({
  headers,
  refusal,
  reached,
  unstoredCounters: () => [],
  countersStored() {},
  finish: () => undefined,
})
