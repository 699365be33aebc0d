import type { Clock } from '../../shared/time.ts'
import type { Db } from '../db/database.ts'
import { engineOf } from '../db/engine.ts'
import type { Log } from '../log.ts'
import { isStored, type LedgerRecords, writeRecords } from './records.ts'

export type { LedgerRecords } from './records.ts'

/** A larger crowd is written in several transactions, which bounds the memory of one. */
const ENTRIES_PER_COMMIT = 500

/** Makes requests durable, many at a time (architecture §4). */
export type Ledger = {
  /**
   * Resolves when everything in `records` is on the disk, and rejects when nothing of it is. Records that the database
   * refuses (a request id that exists, for one) are refused alone; whoever shared their transaction is not harmed.
   */
  commit(records: LedgerRecords): Promise<void>
  /** Commits what is waiting, then refuses further records. */
  close(): Promise<void>
}

type Entry = { records: LedgerRecords; resolve: () => void; reject: (reason: unknown) => void }

export function createLedger({ db, clock, log }: { db: Db; clock: Clock; log: Pick<Log, 'error'> }): Ledger {
  const { failureOf } = engineOf(db)
  let waiting: Entry[] = []
  let gathering: NodeJS.Immediate | undefined
  let flushing: Promise<void> | undefined
  let closed = false

  // Idle -> gathering: a record came. Gathering -> flushing: this turn of the event loop is over, or we close.
  // Flushing -> flushing: records came meanwhile. Flushing -> idle: none came.
  //
  // No timer: while the disk works on one commit, everything that finishes gathers for the next, so a slower disk makes
  // larger batches by itself. The turn joins what one poll of the sockets brought.
  function schedule(): void {
    if (flushing !== undefined || waiting.length === 0) return
    if (closed) startFlush()
    else gathering ??= setImmediate(startFlush)
  }

  function startFlush(): void {
    clearImmediate(gathering)
    gathering = undefined
    flushing = flush().finally(() => {
      flushing = undefined
      // The loop has ended a moment ago; what came since would wait for the next request, maybe for good.
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
    try {
      await writeRecords(
        db,
        batch.map(({ records }) => records),
      )
      for (const { resolve } of batch) resolve()
    } catch (error) {
      const durationMs = Math.round(clock.monotonic() - startedAt)
      log.error({ error, requests: batch.length, durationMs }, 'a ledger commit failed')
      await settleFailed(batch, error)
    }
  }

  async function settleFailed(batch: readonly Entry[], error: unknown): Promise<void> {
    // A connection that broke during COMMIT leaves open whether it happened. Writing again finds out: the rows go in now,
    // or the primary keys say that they are in already.
    const mayBeStored = failureOf(error) === 'transient'
    if (failureOf(error) === 'other' || (failureOf(error) === 'row' && batch.length === 1)) {
      for (const { reject } of batch) reject(error)
      return
    }
    for (const [position, { records, resolve, reject }] of batch.entries()) {
      try {
        await writeRecords(db, [records])
        resolve()
      } catch (cause) {
        if (failureOf(cause) !== 'row') {
          // The store is gone. Asking it once for each of hundreds of requests would keep them all waiting.
          for (const entry of batch.slice(position)) entry.reject(cause)
          return
        }
        // When even that cannot be asked, the refusal stands.
        if (mayBeStored && (await isStored(db, records).catch(() => false))) resolve()
        else reject(cause)
      }
    }
  }

  return {
    commit(records) {
      if (closed) return Promise.reject(new Error('the ledger is closed'))
      return new Promise((resolve, reject) => {
        waiting.push({ records, resolve, reject })
        schedule()
      })
    },
    async close() {
      closed = true
      schedule()
      // One that winds up may start another, for what came meanwhile.
      while (flushing !== undefined) await flushing
    },
  }
}
