import type { Clock } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf, type WriteFailure } from '../../platform/db/engine.ts'
import type { Log } from '../../platform/log.ts'
import type { EntryDraft } from '../evidence/entry-draft.ts'
import { isPlaceTaken, type Sealer } from '../evidence/sealing.ts'
import { ClaimLostError, isStored, type LedgerRecords, writeRecords } from './records.ts'

export { ClaimLostError, type LedgerRecords } from './records.ts'

/** A larger crowd is written in several transactions, which bounds the memory of one. */
const ENTRIES_PER_COMMIT = 500
/** How long a record may wait for others of a crowd. */
const GATHERING_MS = 2

/** Makes requests durable, many at a time (architecture §4). */
export type Ledger = {
  /**
   * Resolves when everything in `records` is on the disk, and rejects when nothing of it is. Records that the database
   * refuses (a request id that exists, for one) are refused alone; whoever shared their transaction is not harmed.
   * @throws ClaimLostError when another daemon has taken the request's Idempotency-Key over.
   */
  commit(records: LedgerRecords): Promise<void>
  /** Commits what is waiting, then refuses further records. */
  close(): Promise<void>
}

type Entry = { records: LedgerRecords; resolve: () => void; reject: (reason: unknown) => void }

export type LedgerDeps = {
  db: Db
  clock: Clock
  log: Pick<Log, 'error'>
  /** Puts evidence into its chains; without one, records that have evidence are refused. */
  sealer?: Sealer
  /** Called after a commit that may have stored events. */
  onEvents?(): void
}

export function createLedger({ db, clock, log, sealer, onEvents }: LedgerDeps): Ledger {
  const engine = engineOf(db)
  const failureOf = (error: unknown): WriteFailure =>
    error instanceof ClaimLostError ? 'row' : engine.failureOf(error)
  let waiting: Entry[] = []
  let gathering: NodeJS.Immediate | undefined
  let gatheringSinceMs = 0
  let gathered = 0
  let flushing: Promise<void> | undefined
  let closed = false

  // Idle -> gathering: a record came. Gathering -> gathering: this turn of the event loop brought another one.
  // Gathering -> flushing: it brought none, GATHERING_MS are over, or we close.
  // Flushing -> flushing: records came meanwhile. Flushing -> idle: none came.
  //
  // No timer: a lone request waits for one turn that has nothing to do, and while the disk works on one commit, everything
  // that finishes gathers for the next, so a slower disk makes larger batches by itself. A crowd that keeps this thread busy
  // gets nearly all of itself into a batch by waiting for its own (measured: 47 of 50 clients, 28 with half the time).
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
      await write(batch)
      for (const { resolve } of batch) resolve()
    } catch (error) {
      const durationMs = Math.round(clock.monotonic() - startedAt)
      log.error({ error, requests: batch.length, durationMs }, 'a ledger commit failed')
      await settleFailed(batch, error)
    }
    if (batch.some(({ records }) => records.events !== undefined)) onEvents?.()
  }

  /** Writes records and their evidence in one transaction; the chains go on from what the store has, and only from that. */
  async function write(batch: readonly Entry[]): Promise<void> {
    const records: LedgerRecords[] = []
    const drafts: EntryDraft[] = []
    for (const entry of batch) {
      records.push(entry.records)
      if (entry.records.evidence !== undefined) drafts.push(...entry.records.evidence)
    }
    if (drafts.length === 0) return writeRecords(db, records)
    if (sealer === undefined) throw new Error('evidence came to a ledger that has no chains')
    for (let attempt = 1; ; attempt++) {
      try {
        const sealing = sealer.seal(drafts)
        const { inserts, stored } = sealing instanceof Promise ? await sealing : sealing
        await writeRecords(db, records, inserts)
        return stored()
      } catch (error) {
        sealer.forgetHeads()
        // Another daemon with our data directory: once may be an earlier commit of our own whose answer was lost.
        if (!isPlaceTaken(db, error) || attempt === 3) throw error
        if (attempt === 2) sealer.leaveChains()
      }
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
    for (const [position, entry] of batch.entries()) {
      const { records, resolve, reject } = entry
      try {
        await write([entry])
        resolve()
      } catch (cause) {
        if (failureOf(cause) !== 'row') {
          // The store is gone. Asking it once for each of hundreds of requests would keep them all waiting.
          for (const { reject: refuse } of batch.slice(position)) refuse(cause)
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
