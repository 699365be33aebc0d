import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import type { IdempotencyResultRow } from '../../platform/db/tables.ts'
import { createRepeater } from '../../platform/jobs/repeater.ts'
import type { Log } from '../../platform/log.ts'
import type { LedgerRecords } from '../../records/ledger/records.ts'
import { deleteClaim, deleteResult, findLiveClaims, insertClaim, renewClaims } from './results.ts'

/**
 * Times for daemons that share a store: the lease of a request's daemon, the renewal interval of the lease, and the
 * polling interval of other daemons. Clocks may differ by at most the lease time minus the renewal interval.
 */
export const IDEMPOTENCY_LEASE_MS = 10_000
export const IDEMPOTENCY_RENEW_MS = 3_000
export const IDEMPOTENCY_POLL_MS = 100

/** The row that claims an Idempotency-Key. It has the columns of a stored result, except those of the answer. */
export type ClaimRow = Omit<IdempotencyResultRow, 'status' | 'content_type' | 'body' | 'is_sealed' | 'lease_until'>

/** The exclusive right to run the request of an Idempotency-Key, until that request ends. */
export type Claim = {
  /**
   * Add this to the commit of the bill. The commit ends the claim. If the claim was lost, the commit fails and stores
   * nothing.
   */
  fence: Pick<LedgerRecords, 'claim'>
  /** Call this when the request has ended. Releases the key unless the commit has already released it. Never throws. */
  end(how: 'committed' | 'without an answer'): Promise<void>
}

/** Prevents daemons that share a store from running one request twice (decision 0005). */
export type Claims = {
  /**
   * Claims the key. Returns undefined if another daemon has already claimed the key. `isKnown`: whether the store has
   * an expired answer or claim of the key.
   */
  take(row: ClaimRow, isKnown: boolean): Promise<Claim | undefined>
  /**
   * Resolves when another daemon's claim ends or its lease expires. Rejects with the signal's reason if the signal is
   * aborted.
   */
  ended(requestId: string, signal: AbortSignal): Promise<void>
  close(): void
}

export type ClaimsDeps = { db: Db; clock: Clock; log: Pick<Log, 'warn'> }

/**
 * SQLite allows only one daemon. The daemon tracks its requests in memory, so no claim is written before the answer.
 */
export const createClaims = (deps: ClaimsDeps): Claims =>
  engineOf(deps.db).name === 'sqlite' ? soleClaims(deps) : sharedClaims(deps)

function soleClaims({ db }: ClaimsDeps): Claims {
  const claim: Claim = { fence: {}, end: () => Promise.resolve() }
  return {
    async take({ tenant_id, api_key_id, route, idempotency_key }, isKnown) {
      const scope = { tenantId: tenant_id, apiKeyId: api_key_id, route, idempotencyKey: idempotency_key }
      if (isKnown) await deleteResult(db, scope)
      return claim
    },
    ended: () => Promise.resolve(),
    close: () => {},
  }
}

// The row of an Idempotency-Key on a shared store:
//   absent, expired or lease over -> claimed: `take` inserts the row or takes it over; only one daemon succeeds.
//   claimed -> claimed: `renewal` extends the lease while the request runs.
//   claimed -> answered: the commit of the bill replaces the claim by the answer. It stores nothing if the claim was
//     taken over in the meantime (ClaimLostError).
//   claimed -> absent: the request ended without an answer.
//   answered -> absent: the answer expired and was purged.
// Other daemons poll while a row is claimed, then read the row again.
function sharedClaims({ db, clock, log }: ClaimsDeps): Claims {
  /** Request ids of this daemon's claims. */
  const held = new Set<string>()
  /** Request ids of other daemons' claims, each with the callback for its end. */
  const awaited = new Map<string, () => void>()
  const leaseUntil = () => isoTime(clock.now() + IDEMPOTENCY_LEASE_MS)

  const renewal = createRepeater(clock, IDEMPOTENCY_RENEW_MS, {
    isNeeded: () => held.size > 0,
    run: () => renewClaims(db, [...held], leaseUntil()),
    // A failed renewal is only logged: the lease outlasts several failures, and a request that lost its claim cannot
    // commit.
    failed: (error) => log.warn({ error, claims: held.size }, 'claims of Idempotency-Keys could not be renewed'),
  })
  const polling = createRepeater(clock, IDEMPOTENCY_POLL_MS, {
    isNeeded: () => awaited.size > 0,
    async run() {
      const asked = [...awaited.keys()]
      const live = await findLiveClaims(db, asked, isoTime(clock.now()))
      for (const requestId of asked) if (!live.has(requestId)) awaited.get(requestId)?.()
    },
    failed: (error) => log.warn({ error }, 'claims of Idempotency-Keys could not be looked up'),
  })

  return {
    async take(row) {
      const { request_id: requestId } = row
      const claim = { ...row, status: 0, content_type: '', body: '', lease_until: leaseUntil() }
      if (!(await insertClaim(db, claim, isoTime(clock.now())))) return undefined
      held.add(requestId)
      renewal.check()
      return {
        fence: { claim: requestId },
        async end(how) {
          held.delete(requestId)
          renewal.check()
          if (how === 'committed') return
          await deleteClaim(db, requestId).catch((error: unknown) =>
            log.warn(
              { error, request_id: requestId },
              'an Idempotency-Key could not be released; its lease will expire',
            ),
          )
        },
      }
    },
    ended: (requestId, signal) =>
      new Promise((resolve, reject) => {
        const aborted = () => {
          forget()
          reject(signal.reason)
        }
        function forget(): void {
          signal.removeEventListener('abort', aborted)
          awaited.delete(requestId)
          polling.check()
        }
        if (signal.aborted) return reject(signal.reason)
        signal.addEventListener('abort', aborted, { once: true })
        awaited.set(requestId, () => {
          forget()
          resolve()
        })
        polling.check()
      }),
    close() {
      held.clear()
      awaited.clear()
      renewal.check()
      polling.check()
    },
  }
}
