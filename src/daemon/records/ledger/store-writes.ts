import { randomBytes } from 'node:crypto'
import { GatewayError } from '../../../shared/errors.ts'
import { type Clock, isoTime, type Timer } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import type { Log } from '../../platform/log.ts'

/** A commit within this time proves that the store accepts writes, so that probes cause few writes. */
export const WRITE_PROOF_MS = 5_000
/** The time from a failed write to the next probe. */
export const WRITE_PROBE_MS = 1_000
/** The maximum of this time, if commits fail although probes succeed. */
const WRITE_PROBE_MAX_MS = 30_000
/** Half the characters that a probe writes after a failure. A full disk may still have room for one small row. */
const PADDING_BYTES = 32_768

/** Tracks whether the store accepts writes, so that no model is called for an answer that cannot be stored. */
export type StoreWrites = {
  /** @throws OVERLOADED with the seconds until the next probe, while writes fail */
  require(): void
  /**
   * Whether the store accepts writes. Writes one row to check this, unless a recent write has succeeded. Resolves when
   * this write ends; never rejects.
   */
  check(): Promise<boolean>
  isBlocked(): boolean
  /** Call this after each commit of records. */
  succeeded(): void
  /** Call this after a commit that the store has not accepted. Probes follow until one succeeds. */
  failed(error: unknown): void
  close(): void
}

// open -> blocked: a commit or a probe failed.
// blocked -> blocked: a probe failed; the next one follows after WRITE_PROBE_MS.
// blocked -> open: a probe or a commit succeeded. If the next commit fails nevertheless, the pause before the first
//   probe doubles, because each pause ends with an answer that is paid for but lost.
export function createStoreWrites({
  db,
  clock,
  log,
}: {
  db: Db
  clock: Clock
  log: Pick<Log, 'error' | 'info'>
}): StoreWrites {
  let isBlocked = false
  let isClosed = false
  let pauseMs = WRITE_PROBE_MS
  let provenAtMs = Number.NEGATIVE_INFINITY
  let probeAtMs = 0
  let timer: Timer | undefined
  let probing: Promise<boolean> | undefined

  function probe(): Promise<boolean> {
    probing ??= write()
      .then(
        () => {
          accepted()
          return true
        },
        (error: unknown) => {
          if (isBlocked) schedule(WRITE_PROBE_MS)
          else failed(error)
          return false
        },
      )
      .finally(() => {
        probing = undefined
      })
    return probing
  }

  async function write(): Promise<void> {
    const padding = isBlocked ? randomBytes(PADDING_BYTES).toString('hex') : ''
    const row = { id: 'write', written_at: isoTime(clock.now()), padding }
    await insertRows(db, 'store_probes', [row], { onConflict: { replace: ['id'] } })
  }

  function schedule(ms: number): void {
    if (isClosed) return
    probeAtMs = clock.monotonic() + ms
    timer = clock.after(ms, () => void probe())
  }

  function accepted(): void {
    provenAtMs = clock.monotonic()
    if (!isBlocked) return
    isBlocked = false
    timer?.cancel()
    log.info({}, 'the store accepts writes again')
  }

  function failed(error: unknown): void {
    if (isBlocked || isClosed) return
    isBlocked = true
    log.error({ error }, 'the store rejects writes; requests to models are rejected until a write succeeds')
    schedule(pauseMs)
    pauseMs = Math.min(pauseMs * 2, WRITE_PROBE_MAX_MS)
  }

  return {
    require() {
      if (!isBlocked) return
      const seconds = Math.ceil((probeAtMs - clock.monotonic()) / 1000)
      throw new GatewayError(
        'OVERLOADED',
        'The gateway cannot store requests at the moment, so it calls no model. Retry in a moment.',
        { retryAfterSeconds: Math.max(1, seconds) },
      )
    },
    async check() {
      if (isBlocked) return false
      return clock.monotonic() - provenAtMs < WRITE_PROOF_MS || probe()
    },
    isBlocked: () => isBlocked,
    succeeded() {
      pauseMs = WRITE_PROBE_MS
      accepted()
    },
    failed,
    close() {
      isClosed = true
      timer?.cancel()
    },
  }
}
