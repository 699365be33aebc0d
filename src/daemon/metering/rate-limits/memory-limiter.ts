import type { OutboxEventRow, RateCounterRow } from '../../platform/db/tables.ts'
import type { Admission } from '../../platform/http/admission.ts'
import type { Caller } from '../../platform/http/caller.ts'
import type { Route } from '../../platform/http/route.ts'
import { insertEvent } from '../../records/events/outbox.ts'
import { Counter, emptyRow } from './counter.ts'
import { decided, QuotaUsage } from './quota-usage.ts'
import { quotasOf } from './quotas.ts'
import type { LimiterDeps, RateLimiter } from './rate-limiter.ts'
import { findCounters } from './store.ts'
import { WINDOWS, type WindowName } from './windows.ts'

/** Above this number of keys, keys that were idle for IDLE_MS are evicted. Their counters remain in the store. */
const KEYS_IN_MEMORY = 10_000
const IDLE_MS = 60_000
/**
 * Minimum time between evictions. If most keys are in use, an eviction run for each new key would evict almost no key.
 */
const SWEEP_EVERY_MS = 10_000

/**
 * Rate limiter for the only daemon of a store. The counters in memory are authoritative, so admission is synchronous
 * and exact. Counters are durable before the response is sent. Only the first request of a key waits for the store.
 */
export function createMemoryLimiter({
  db,
  ledger,
  clock,
  log,
  keysInMemory = KEYS_IN_MEMORY,
  onEvents,
}: LimiterDeps): RateLimiter {
  const keys = new Map<string, CountedKey>()
  const loading = new Map<string, Promise<CountedKey>>()
  let sweptAtMs = Number.NEGATIVE_INFINITY

  function load(caller: Caller): Promise<CountedKey> {
    const { tenantId, keyId } = caller
    const known = loading.get(keyId)
    if (known) return known
    const loaded = findCounters(db, tenantId, keyId)
      .then((rows) => {
        if (keys.size >= keysInMemory && clock.now() - sweptAtMs >= SWEEP_EVERY_MS) sweep()
        const key = new CountedKey(caller, rows, clock.now())
        keys.set(keyId, key)
        return key
      })
      .finally(() => loading.delete(keyId))
    loading.set(keyId, loaded)
    return loaded
  }

  function sweep(): void {
    const nowMs = clock.now()
    for (const [keyId, key] of keys) if (key.isIdle(nowMs)) keys.delete(keyId)
    sweptAtMs = nowMs
  }

  function admitTo(key: CountedKey, caller: Caller, route: Route): Admission | Promise<Admission> {
    const nowMs = clock.now()
    key.lastUsedMs = nowMs
    const quotaUsage = key.quotaUsageOf(caller, route, nowMs)
    if (!quotaUsage.take(nowMs)) return refuse(quotaUsage, nowMs)
    key.running += 1
    return new Admitted(key, key.rowsToStore(quotaUsage), quotaUsage.headers(nowMs), commit)
  }

  function refuse(quotaUsage: QuotaUsage, nowMs: number): Admission | Promise<Admission> {
    const refused = decided(quotaUsage.headers(nowMs), quotaUsage.refusal(nowMs), quotaUsage.reached())
    const writing = quotaUsage.usedUp(nowMs).flatMap(({ counter, event }) => {
      counter.announced ??= announce(counter, event)
      return counter.announced === 'durably' ? [] : [counter.announced]
    })
    return writing.length === 0 ? refused : Promise.all(writing).then(() => refused)
  }

  function announce(counter: Counter, event: OutboxEventRow): Promise<void> {
    const writing = insertEvent(db, event).then(
      () => {
        onEvents?.()
        return 'durably' as const
      },
      (error: unknown) => {
        // The rejection stays valid. The next rejected request tries to store the event again.
        log.error({ error, event: event.id }, 'an event could not be stored')
        return undefined
      },
    )
    const announcing: Promise<void> = writing.then((announced) => {
      // Checks the promise, because a new window may have started while the event was being stored.
      if (counter.announced === announcing) counter.announced = announced
    })
    return announcing
  }

  async function commit(key: CountedKey, rows: readonly RateCounterRow[]): Promise<void> {
    try {
      await ledger.commit({ counters: rows })
    } catch (error) {
      // The request has already taken effect, so its response is sent anyway. The counters stay in memory and are
      // stored with the next request.
      key.hasUnstored = true
      log.error({ error }, 'counters of a request could not be stored')
    }
  }

  return {
    admit(caller, route) {
      const key = keys.get(caller.keyId)
      if (key === undefined) return load(caller).then((loaded) => admitTo(loaded, caller, route))
      return admitTo(key, caller, route)
    },
    async usageOf(caller) {
      const key = keys.get(caller.keyId) ?? (await load(caller))
      return key.used(clock.now())
    },
  }
}

/** The counters of one key. */
class CountedKey {
  /** Number of admitted requests whose counters might not be durable yet. */
  running = 0
  /** True after a commit of the key's counters has failed. */
  hasUnstored = false
  lastUsedMs: number
  readonly #counters = new Map<string, Counter>()
  readonly #stored: Map<string, RateCounterRow>
  /** Cached by route. Replaced when the caller's limits change. Keeps no route of an earlier configuration in memory. */
  #quotaUsages = new WeakMap<Route, QuotaUsage>()
  #caller: Caller

  constructor(caller: Caller, rows: readonly RateCounterRow[], nowMs: number) {
    this.#caller = caller
    this.lastUsedMs = nowMs
    this.#stored = new Map(rows.map((row) => [row.counter, row]))
  }

  quotaUsageOf(caller: Caller, route: Route, nowMs: number): QuotaUsage {
    if (caller !== this.#caller) {
      this.#caller = caller
      this.#quotaUsages = new WeakMap()
    }
    const known = this.#quotaUsages.get(route)
    if (known) return known
    const quotas = quotasOf(caller, route)
    const quotaUsage = new QuotaUsage(
      caller,
      quotas,
      quotas.map(({ counter, window }) => this.#counterOf(counter, window, nowMs)),
    )
    this.#quotaUsages.set(route, quotaUsage)
    return quotaUsage
  }

  /**
   * The rows to store after a request: the counters of the request's quotas. If an earlier commit failed, all counters
   * of the key.
   */
  rowsToStore(quotaUsage: QuotaUsage): readonly RateCounterRow[] {
    if (!this.hasUnstored) return quotaUsage.rows
    this.hasUnstored = false
    return [...this.#counters.values()].map(({ row }) => row)
  }

  used(nowMs: number): Record<WindowName, number> {
    const used = { minute: 0, hour: 0, day: 0, month: 0 }
    for (const window of WINDOWS) {
      const counter = this.#counterOf(window, window, nowMs)
      counter.moveTo(nowMs)
      used[window] = counter.used
    }
    return used
  }

  /** Whether the key can be evicted without losing counts. */
  isIdle(nowMs: number): boolean {
    return this.running === 0 && !this.hasUnstored && nowMs - this.lastUsedMs >= IDLE_MS
  }

  #counterOf(name: string, window: WindowName, nowMs: number): Counter {
    const known = this.#counters.get(name)
    if (known) return known
    const key = { tenant_id: this.#caller.tenantId, api_key_id: this.#caller.keyId, counter: name }
    const counter = new Counter(window, this.#stored.get(name) ?? emptyRow(key, window, nowMs))
    this.#counters.set(name, counter)
    return counter
  }
}

type Commit = (key: CountedKey, rows: readonly RateCounterRow[]) => Promise<void>

class Admitted implements Admission {
  readonly headers: Readonly<Record<string, string>>
  readonly refusal = undefined
  readonly #key: CountedKey
  readonly #rows: readonly RateCounterRow[]
  readonly #commit: Commit
  #areStored = false

  constructor(
    key: CountedKey,
    rows: readonly RateCounterRow[],
    headers: Readonly<Record<string, string>>,
    commit: Commit,
  ) {
    this.headers = headers
    this.#key = key
    this.#rows = rows
    this.#commit = commit
  }

  unstoredCounters(): readonly RateCounterRow[] {
    return this.#areStored ? [] : this.#rows
  }

  countersStored(): void {
    this.#areStored = true
  }

  finish(): Promise<void> | undefined {
    if (this.#areStored) {
      this.#key.running -= 1
      return undefined
    }
    // The rows contain totals, so storing them twice is harmless.
    return this.#commit(this.#key, this.#rows).finally(() => {
      this.#key.running -= 1
    })
  }
}
