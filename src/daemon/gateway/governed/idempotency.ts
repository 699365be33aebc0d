import { hash } from 'node:crypto'
import { ERRORS, GatewayError, invalidField } from '../../../shared/errors.ts'
import { IDEMPOTENCY_HOURS, IDEMPOTENCY_KEY_CHARS } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import { IdempotencyKey } from '../../../shared/wire/common.ts'
import type { Db } from '../../platform/db/db.ts'
import type { IdempotencyResultRow } from '../../platform/db/tables.ts'
import { RequestAborted } from '../../platform/http/request-aborted.ts'
import { type Reply, type RequestContext, reply } from '../../platform/http/route.ts'
import { type MasterKey, openSecret, type SealedLocation, sealSecret } from '../../platform/secrets/seal.ts'
import type { SealedColumn } from '../../platform/secrets/sealed-column.ts'
import { ClaimLostError } from '../../records/ledger/records.ts'
import { type Claim, type ClaimRow, type ClaimsDeps, createClaims } from './claims.ts'
import { deleteExpiredResults, findResult, type ResultScope, type StoredResult } from './results.ts'

/** Maximum size of a response that is stored for replays. */
export const IDEMPOTENCY_RESULT_BYTES = 4_194_304
/** Maximum number of expired responses to delete in one statement. */
const IDEMPOTENCY_PURGE_ROWS = 500

/** Stores the result of one request for replay. */
export type ReplaySlot = Pick<Claim, 'fence'> & {
  /**
   * Returns the row for the commit that bills the request. The row omits an answer that is too large to store.
   * `isSealed`: the answer is stored encrypted.
   */
  toRow(kept: { status: number; contentType: string; body: string }, isSealed?: boolean): IdempotencyResultRow
  /** Reports that the request failed. Waiting requests get the same error; a later retry is executed again. */
  broke(error: unknown): void
}

export type Idempotency = {
  /**
   * Runs a request once per Idempotency-Key, API key and route. A retry gets the stored answer byte for byte. If a
   * retry arrives while the first request runs, the retry waits for the result, even if another daemon runs the first
   * request (decision 0005). Without the header, the request always runs.
   * @param prepare checks whether the request may run, and returns the function that runs it. A rejected request leaves
   * no claim.
   * @throws VALIDATION_ERROR for a malformed key, IDEMPOTENCY_KEY_REUSED for the same key with another body,
   * IDEMPOTENCY_RESULT_TOO_LARGE for a retry whose answer was billed but too large to store.
   */
  once(
    context: RequestContext,
    route: string,
    prepare: () => Promise<(replay: ReplaySlot | undefined) => Promise<Reply | undefined>>,
  ): Promise<Reply | undefined>
  /** Stops waiting and renewing. Open claims end when their leases expire. */
  close(): void
}

/** Deletes expired answers in small batches, so that running requests do not wait for the deletion. */
export async function purgeExpired({ db, clock }: { db: Db; clock: Clock }): Promise<void> {
  const now = isoTime(clock.now())
  while ((await deleteExpiredResults(db, now, IDEMPOTENCY_PURGE_ROWS)) === IDEMPOTENCY_PURGE_ROWS);
}

/**
 * The outcome of the first request, for the requests that wait for it: its answer, or its failure with the bundle id of
 * its evidence. Empty if the client of the first request disconnected.
 */
type Left = { stored?: StoredResult; failure?: { error: unknown; bundleId: string | undefined } }

/**
 * The first request with an idempotency key on this daemon. `confirmed` resolves when this request is known to own the
 * key, or has ended. Until then, the key may belong to a request with another body.
 */
type Running = { fingerprint: string; confirmed: Promise<void>; left: Promise<Left> }

type Produce = (replay: ReplaySlot) => Promise<Reply | undefined>
type First = { scope: ResultScope; fingerprint: string; left: Left; confirm(): void }

export function createIdempotency({ db, clock, log, masterKey }: ClaimsDeps & { masterKey: MasterKey }): Idempotency {
  const running = new Map<string, Running>()
  const claims = createClaims({ db, clock, log })

  async function runFirst(
    context: RequestContext,
    first: First,
    prepare: () => Promise<Produce>,
  ): Promise<Reply | undefined> {
    const { scope, fingerprint, left, confirm } = first
    for (;;) {
      const known = await findResult(db, scope)
      if (known && isLive(known, isoTime(clock.now()))) {
        if (known.fingerprint !== fingerprint) throw reused()
        confirm()
        if (known.lease_until === null) {
          left.stored = known.is_sealed ? { ...known, body: openBody(known.body, scope) } : known
          return replayTo(context, left.stored)
        }
        await claims.ended(known.request_id, context.signal)
        continue
      }
      const produce = await prepare()
      const row = toClaimRow(context.requestId, first)
      const claim = await claims.take(row, known !== undefined)
      if (!claim) continue
      confirm()
      try {
        return await runClaimed(context, claim, { row, first }, produce)
      } catch (error) {
        // Another daemon took over the key and stores the answer, so this daemon stores nothing.
        if (!(error instanceof ClaimLostError) || context.response.headersSent) throw error
      }
    }
  }

  async function runClaimed(
    context: RequestContext,
    claim: Claim,
    { row, first }: { row: ClaimRow; first: First },
    produce: Produce,
  ): Promise<Reply | undefined> {
    const { left } = first
    let kept: IdempotencyResultRow | undefined
    let isCommitted = false
    try {
      const answer = await produce({
        fence: claim.fence,
        broke: (error) => noteFailure(error, context, left),
        toRow({ status, contentType, body }, isSealed) {
          kept = { ...row, ...times(), status, content_type: contentType, body, lease_until: null }
          // Requests that wait on this daemon get the answer from memory, even if it is too large to store.
          if (Buffer.byteLength(body) > IDEMPOTENCY_RESULT_BYTES) return { ...kept, ...NOT_KEPT }
          return isSealed ? { ...kept, body: sealBody(body, first.scope), is_sealed: 1 } : kept
        },
      })
      if (kept) {
        isCommitted = true
        left.stored = kept
      }
      return answer
    } finally {
      await claim.end(isCommitted ? 'committed' : 'without an answer')
    }
  }

  const sealBody = (body: string, scope: ResultScope): string => sealSecret(masterKey, locationOf(scope), body)
  const openBody = (body: string, scope: ResultScope): string => openSecret(masterKey, locationOf(scope), body)

  const times = () => ({
    created_at: isoTime(clock.now()),
    expires_at: isoTime(clock.now() + IDEMPOTENCY_HOURS * 3_600_000),
  })

  const toClaimRow = (requestId: string, { scope, fingerprint }: First): ClaimRow => ({
    tenant_id: scope.tenantId,
    api_key_id: scope.apiKeyId,
    route: scope.route,
    idempotency_key: scope.idempotencyKey,
    fingerprint,
    request_id: requestId,
    ...times(),
  })

  return {
    async once(context, route, prepare) {
      const key = keyOf(context)
      if (key === undefined) return (await prepare())(undefined)
      const fingerprint = fingerprintOf(context)
      if (fingerprint === '') throw new Error(`${route} does not hash its body, so its requests cannot be compared`)
      const { tenantId, keyId: apiKeyId } = context.caller
      const scope = { tenantId, apiKeyId, route, idempotencyKey: key }
      const name = JSON.stringify([apiKeyId, route, key])
      for (;;) {
        const first = running.get(name)
        if (!first) break
        if (first.fingerprint === fingerprint) {
          const { stored, failure } = await unlessAborted(first.left, context.signal)
          if (stored) return replayTo(context, stored)
          if (failure) {
            context.bundleId = failure.bundleId
            throw failure.error
          }
          // The first client disconnected without an outcome, so this request becomes the first.
        } else {
          await unlessAborted(first.confirmed, context.signal)
          if (running.get(name) === first) throw reused()
        }
      }
      const left: Left = {}
      const confirmation = settledLater<void>()
      const ending = settledLater<Left>()
      running.set(name, { fingerprint, confirmed: confirmation.promise, left: ending.promise })
      try {
        return await runFirst(context, { scope, fingerprint, left, confirm: confirmation.resolve }, prepare)
      } catch (error) {
        noteFailure(error, context, left)
        throw error
      } finally {
        running.delete(name)
        confirmation.resolve()
        ending.resolve(left)
      }
    },
    close: claims.close,
  }
}

/** On some routes, the path names the model. The request is then its body, its path and its query. */
function fingerprintOf({ bodySha256, params, query }: RequestContext): string {
  if (bodySha256 === '' || Object.keys(params).length === 0) return bodySha256
  return hash('sha256', JSON.stringify([bodySha256, params, query]), 'hex')
}

const isLive = (known: { expires_at: string; lease_until: string | null }, now: string): boolean =>
  known.expires_at > now && (known.lease_until === null || known.lease_until > now)

/**
 * Shares a failure with the waiting requests, so that they do not run the request and pay again. Two failures are not
 * shared: the first request's client disconnected, or another daemon took over the key.
 */
function noteFailure(error: unknown, { bundleId }: RequestContext, left: Left): void {
  const isNotShared = error instanceof ClaimLostError || (error instanceof RequestAborted && error.by === 'client')
  if (!isNotShared) left.failure = { error, bundleId }
}

function settledLater<T>(): { promise: Promise<T>; resolve(value: T): void } {
  let resolve: (value: T) => void = () => {}
  const promise = new Promise<T>((onResolve) => {
    resolve = onResolve
  })
  return { promise, resolve }
}

function keyOf({ request }: RequestContext): string | undefined {
  const key = request.headers['idempotency-key']
  if (key === undefined) return undefined
  const checked = IdempotencyKey.safeParse(key)
  if (checked.success) return checked.data
  throw invalidField(
    'Idempotency-Key',
    `The Idempotency-Key header must be 1 to ${IDEMPOTENCY_KEY_CHARS} visible ASCII characters.`,
    key,
  )
}

/** The column of stored answers for repeats, for a rotation of the master key. */
export const STORED_REPLAY_COLUMN: SealedColumn = {
  table: 'idempotency_results',
  column: 'body',
  key: ['tenant_id', 'api_key_id', 'route', 'idempotency_key'],
  flag: 'is_sealed',
  locationOf: ({ tenant_id = '', api_key_id = '', route = '', idempotency_key = '' }) =>
    locationOf({ tenantId: tenant_id, apiKeyId: api_key_id, route, idempotencyKey: idempotency_key }),
}

const locationOf = ({ tenantId, apiKeyId, route, idempotencyKey }: ResultScope): SealedLocation => ({
  purpose: 'stored-replays',
  table: 'idempotency_results',
  row: JSON.stringify([apiKeyId, route, idempotencyKey]),
  tenant: tenantId,
})

/** This row replaces an answer that is too large to store. */
const NOT_KEPT = { status: ERRORS.IDEMPOTENCY_RESULT_TOO_LARGE.status, content_type: '', body: '' }

/**
 * A replay creates no evidence. Its body refers to the evidence of the original request.
 * @throws IDEMPOTENCY_RESULT_TOO_LARGE
 */
function replayTo(context: RequestContext, stored: StoredResult): Reply {
  context.bundleId = undefined
  if (stored.status === NOT_KEPT.status) throw notKept()
  return reply(stored.status, stored.body, {
    'content-type': stored.content_type,
    'cache-control': 'no-cache, no-transform',
    'idempotent-replayed': 'true',
  })
}

const notKept = () =>
  new GatewayError(
    'IDEMPOTENCY_RESULT_TOO_LARGE',
    `The answer for this Idempotency-Key was billed, but it exceeds ${IDEMPOTENCY_RESULT_BYTES} bytes and was not stored. ` +
      'To run the request again, send a new key; it is billed again.',
  )

const reused = () =>
  new GatewayError(
    'IDEMPOTENCY_KEY_REUSED',
    'This Idempotency-Key was already used with a different body. Send a new key.',
  )

function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) return Promise.reject(signal.reason)
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason instanceof RequestAborted ? signal.reason : new RequestAborted('client'))
    signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
