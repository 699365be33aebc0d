import { LRUCache } from 'lru-cache'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import type { OutboxEventRow, RateCounterRow } from '../../platform/db/tables.ts'
import type { Admission } from '../../platform/http/admission.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { saveCounters } from '../../records/ledger/records.ts'
import { Counter, type CounterKey, emptyRow } from './counter.ts'
import { decided, QuotaUsage } from './quota-usage.ts'
import { type Quota, quotasOf } from './quotas.ts'
import type { LimiterDeps, RateLimiter } from './rate-limiter.ts'
import { findCounters, lockCounters } from './store.ts'
import { WINDOWS } from './windows.ts'

/**
 * Larger groups of requests are split into several transactions, so that the first requests need not wait for the last.
 */
const REQUESTS_PER_TRANSACTION = 500
const EVENTS_CACHED = 10_000

type Waiting = {
  caller: Caller
  quotas: readonly Quota[]
  resolve(admission: Admission): void
  reject(reason: unknown): void
}

/**
 * Rate limiter for any number of daemons on one PostgreSQL store. The rows are authoritative, and are locked while
 * requests are decided. The limits are therefore exact across daemons. Requests that arrive during a transaction are
 * decided together in the next one.
 */
export function createSharedLimiter({
  db,
  clock,
  onEvents,
}: Pick<LimiterDeps, 'db' | 'clock' | 'onEvents'>): RateLimiter {
  const { failureOf } = engineOf(db)
  const storedEvents = new LRUCache<string, true>({ max: EVENTS_CACHED })
  let waiting: Waiting[] = []
  let isRunning = false

  function schedule(): void {
    if (isRunning) return
    isRunning = true
    setImmediate(decideWaiting)
  }

  async function decideWaiting(): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting.slice(0, REQUESTS_PER_TRANSACTION)
      waiting = waiting.slice(REQUESTS_PER_TRANSACTION)
      try {
        const admissions = await decide(batch)
        for (const [at, { resolve }] of batch.entries()) resolve(admissions[at] as Admission)
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    isRunning = false
  }

  async function decide(batch: readonly Waiting[]): Promise<Admission[]> {
    let isDecided = false
    const attempt = () =>
      db.transaction().execute(async (tx) => {
        const decision = await decideIn(tx, batch)
        isDecided = true
        return decision
      })
    const { admissions, events } = await attempt().catch((error: unknown) => {
      // After a lost connection, runs the transaction again, unless COMMIT was running: the requests may then already
      // be counted.
      if (isDecided || failureOf(error) !== 'transient') throw error
      return attempt()
    })
    for (const { id } of events) storedEvents.set(id, true)
    if (events.length > 0) onEvents?.()
    return admissions
  }

  async function decideIn(tx: Db, batch: readonly Waiting[]) {
    const counters = await lockAll(tx, batch)
    // Reads the clock only after locking, because waiting for the locks may have taken a while.
    const nowMs = clock.now()
    const counted = new Set<RateCounterRow>()
    const events = new Map<string, OutboxEventRow>()
    const admissions = batch.map(({ caller, quotas }) => {
      const quotaUsage = new QuotaUsage(
        caller,
        quotas,
        quotas.map(({ counter }) => counters.get(nameOf(toKey(caller, counter))) as Counter),
      )
      if (quotaUsage.take(nowMs)) {
        for (const row of quotaUsage.rows) counted.add(row)
        return decided(quotaUsage.headers(nowMs))
      }
      for (const { event } of quotaUsage.usedUp(nowMs)) if (!storedEvents.has(event.id)) events.set(event.id, event)
      return decided(quotaUsage.headers(nowMs), quotaUsage.refusal(nowMs), quotaUsage.reached())
    })
    await saveCounters(tx, [...counted])
    await insertRows(tx, 'outbox_events', [...events.values()], { onConflict: 'ignore' })
    return { admissions, events: [...events.values()] }
  }

  async function lockAll(tx: Db, batch: readonly Waiting[]): Promise<Map<string, Counter>> {
    const nowMs = clock.now()
    const wanted = new Map<string, { quota: Quota; row: RateCounterRow }>()
    for (const { caller, quotas } of batch) {
      for (const quota of quotas) {
        const key = toKey(caller, quota.counter)
        const name = nameOf(key)
        if (!wanted.has(name)) wanted.set(name, { quota, row: emptyRow(key, quota.window, nowMs) })
      }
    }
    // All daemons lock counters in this order, so they cannot deadlock.
    const names = [...wanted.keys()].sort()
    const rows = await lockCounters(
      tx,
      names.flatMap((name) => wanted.get(name)?.row ?? []),
    )
    return new Map(
      rows.map((row) => {
        const name = nameOf(row)
        return [name, new Counter((wanted.get(name) as { quota: Quota }).quota.window, row)]
      }),
    )
  }

  return {
    admit(caller, route) {
      return new Promise((resolve, reject) => {
        waiting.push({ caller, quotas: quotasOf(caller, route), resolve, reject })
        schedule()
      })
    },
    async usageOf({ tenantId, keyId }) {
      const nowMs = clock.now()
      const rows = await findCounters(db, tenantId, keyId)
      const used = { minute: 0, hour: 0, day: 0, month: 0 }
      for (const window of WINDOWS) {
        const row = rows.find(({ counter }) => counter === window)
        if (row === undefined) continue
        const counter = new Counter(window, row)
        counter.moveTo(nowMs)
        used[window] = counter.used
      }
      return used
    },
  }
}

const toKey = ({ tenantId, keyId }: Caller, counter: string): CounterKey => ({
  tenant_id: tenantId,
  api_key_id: keyId,
  counter,
})

/** The name is unique, because all ids have the same length. */
const nameOf = ({ tenant_id, api_key_id, counter }: CounterKey): string => `${tenant_id} ${api_key_id} ${counter}`
