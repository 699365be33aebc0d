import type { Clock } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf, type WriteFailure } from '../../platform/db/engine.ts'
import { isStoreFailure } from '../../platform/db/store-failure.ts'
import type { Log } from '../../platform/log.ts'
import { markWithoutEndpoints } from '../events/outbox.ts'
import { isPositionTaken, type Sealer } from '../evidence/sealing.ts'
import type { LedgerMetrics } from './metrics.ts'
import { ClaimLostError, type EntryDraft, isStored, type LedgerRecords, writeRecords } from './records.ts'
import { createStoreWrites, type StoreWrites } from './store-writes.ts'

/** A larger batch is split into several transactions, so that each transaction uses limited memory. */
const ENTRIES_PER_COMMIT = 500
/** The maximum time that a record waits for other records that can share its commit. */
const GATHERING_MS = 2

/** Makes the records of requests durable, many in one commit. */
export type Ledger = {
  /**
   * Resolves once all `records` are durable. Rejects if none of them is durable. If the database rejects a record, for
   * example because of a duplicate request id, only the records of that request fail. Other requests in the same
   * transaction are unaffected.
   * If the store fails, all waiting records are rejected, because another timeout would only delay the rejection.
   * @throws ClaimLostError if another daemon has taken over the request's Idempotency-Key.
   */
  commit(records: LedgerRecords): Promise<void>
  /**
   * Call this before each call of a model, because an answer that cannot be stored is paid for but lost.
   * @throws OVERLOADED with Retry-After from a failed commit until a probe of the store succeeds
   */
  requireWritable(): void
  /** See `StoreWrites.check`. */
  isWritable(): Promise<boolean>
  /** Commits pending records, then rejects further records. */
  close(): Promise<void>
}

type Entry = { records: LedgerRecords; resolve: () => void; reject: (reason: unknown) => void }

export type LedgerDeps = {
  db: Db
  clock: Clock
  log: Pick<Log, 'error' | 'info'>
  /** Appends evidence to its chains. Without a sealer, records with evidence are rejected. */
  sealer?: Sealer
  metrics?: LedgerMetrics | undefined
  /** Called after a commit that may have stored events for endpoints. */
  onEvents?(): void
}

export function createLedger({ db, clock, log, sealer, metrics, onEvents }: LedgerDeps): Ledger {
  const engine = engineOf(db)
  const failureOf = (error: unknown): WriteFailure =>
    error instanceof ClaimLostError ? 'row' : engine.failureOf(error)
  const writes: StoreWrites = createStoreWrites({ db, clock, log })
  /** Whether the last failure concerns the whole store. Otherwise, counters can still be stored. */
  let isUnavailable = false
  let waiting: Entry[] = []
  let gathering: NodeJS.Immediate | undefined
  let gatheringSinceMs = 0
  let gathered = 0
  let flushing: Promise<void> | undefined
  let closed = false

  // Transitions:
  //   idle -> gathering: a record arrived.
  //   gathering -> gathering: another record arrived in this turn of the event loop.
  //   gathering -> flushing: no record arrived in this turn, GATHERING_MS have passed, or the ledger is closing.
  //   flushing -> flushing: records arrived during the flush.
  //   flushing -> idle: no record arrived during the flush.
  // There is no timer: a single request waits for one idle turn. During one commit, further records are collected for
  // the next commit, so batches are larger on a slower disk. Under concurrent load, a batch waits for records that are
  // about to arrive and contains nearly all of them. With 50 clients, a batch contained 47 records (measured), but only
  // 28 if GATHERING_MS was halved.
  function schedule(): void {
    if (flushing !== undefined || waiting.length === 0) return
    if (closed) startFlush()
    else if (gathering === undefined) {
      gatheringSinceMs = clock.monotonic()
      gathered = 0
      gathering = setImmediate(gather)
    }
  }

  function gather(): void {
    const goesOn = waiting.length > gathered && clock.monotonic() - gatheringSinceMs < GATHERING_MS
    gathered = waiting.length
    if (goesOn) gathering = setImmediate(gather)
    else startFlush()
  }

  function startFlush(): void {
    clearImmediate(gathering)
    gathering = undefined
    flushing = flush().finally(() => {
      flushing = undefined
      // Without this call, records that arrive just after the end of the flush loop would wait for the next request.
      schedule()
    })
  }

  async function flush(): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting.slice(0, ENTRIES_PER_COMMIT)
      waiting = waiting.slice(ENTRIES_PER_COMMIT)
      await settle(batch)
    }
  }

  async function settle(batch: readonly Entry[]): Promise<void> {
    const startedAt = clock.monotonic()
    const events = batch.flatMap(({ records }) => records.events ?? [])
    try {
      // Unmarked events are dispatched as well. If the store is down, the write itself fails.
      if (events.length > 0) await markWithoutEndpoints(db, events).catch(() => {})
      await write(batch)
      for (const { resolve } of batch) resolve()
      metrics?.committed(batch.length, clock.monotonic() - startedAt)
      if (!batch.every(({ records }) => isOnlyCounters(records))) writes.succeeded()
    } catch (error) {
      const durationMs = Math.round(clock.monotonic() - startedAt)
      metrics?.failed()
      log.error({ error, requests: batch.length, durationMs }, 'a ledger commit failed')
      await settleFailed(batch, error)
    }
    if (events.some((event) => event.fanned_out_at == null)) onEvents?.()
  }

  /** Writes records and their evidence in one transaction. Chain heads always come from stored entries. */
  async function write(batch: readonly Entry[]): Promise<void> {
    const records: LedgerRecords[] = []
    const drafts: EntryDraft[] = []
    for (const entry of batch) {
      records.push(entry.records)
      if (entry.records.evidence !== undefined) drafts.push(...entry.records.evidence)
    }
    if (drafts.length === 0) return writeRecords(db, records)
    if (sealer === undefined) throw new Error('this ledger has no chains and cannot store evidence')
    for (let attempt = 1; ; attempt++) {
      try {
        const { inserts, stored } = await sealer.seal(drafts)
        await writeRecords(db, records, inserts)
        return stored()
      } catch (error) {
        sealer.forgetHeads()
        // If the position is taken, another daemon uses our data directory. On the first attempt, there is another
        // possible cause: our own earlier commit, if its response was lost.
        if (!isPositionTaken(db, error) || attempt === 3) throw error
        if (attempt === 2) sealer.leaveChains()
      }
    }
  }

  async function settleFailed(batch: readonly Entry[], error: unknown): Promise<void> {
    // If the connection broke during COMMIT, the result is unknown. Writing again resolves the uncertainty: either the
    // rows are inserted now, or the primary keys show that they exist.
    const mayBeStored = failureOf(error) === 'transient'
    if (failureOf(error) === 'other') return storeFailed(batch, error)
    if (failureOf(error) === 'row' && batch.length === 1) {
      batch[0]?.reject(error)
      return
    }
    for (const [position, entry] of batch.entries()) {
      const { records, resolve, reject } = entry
      try {
        await write([entry])
        resolve()
      } catch (cause) {
        // The store is down. Reject the remaining requests, because retrying hundreds of them one by one would delay
        // all of them.
        if (failureOf(cause) !== 'row') return storeFailed(batch.slice(position), cause)
        // If this query fails too, the request is rejected.
        if (mayBeStored && (await isStored(db, records).catch(() => false))) resolve()
        else reject(cause)
      }
    }
  }

  /** Rejects these entries. If the cause is the store, also rejects all waiting entries. */
  function storeFailed(entries: readonly Entry[], cause: unknown): void {
    let rejected = entries
    // On PostgreSQL, a bug in our own code also counts as `transient`. It must not affect other requests.
    if (isStoreFailure(cause) || failureOf(cause) === 'other') {
      isUnavailable = isStoreFailure(cause)
      writes.failed(cause)
      rejected = [...entries, ...waiting]
      waiting = []
    }
    for (const { reject } of rejected) reject(cause)
  }

  return {
    requireWritable: writes.require,
    isWritable: writes.check,
    commit(records) {
      if (closed) return Promise.reject(new Error('the ledger is closed'))
      // The caller keeps the counters and stores them with a later request.
      if (writes.isBlocked() && isUnavailable && isOnlyCounters(records)) {
        return Promise.reject(new Error('the store rejects writes at the moment'))
      }
      return new Promise((resolve, reject) => {
        waiting.push({ records, resolve, reject })
        schedule()
      })
    },
    async close() {
      closed = true
      schedule()
      // When a flush ends, another flush may start, for records that arrived in the meantime.
      while (flushing !== undefined) await flushing
      writes.close()
    },
  }
}

const isOnlyCounters = ({ counters, ...others }: LedgerRecords): boolean =>
  counters !== undefined && Object.keys(others).length === 0
