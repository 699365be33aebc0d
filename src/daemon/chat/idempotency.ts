import { hash } from 'node:crypto'
import { GatewayError, invalidField } from '../../shared/errors.ts'
import { IDEMPOTENCY_HOURS, IDEMPOTENCY_KEY_CHARS, IDEMPOTENCY_PURGE_ROWS } from '../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../shared/time.ts'
import type { Db } from '../db/database.ts'
import type { IdempotencyResultRow } from '../db/tables.ts'
import { RequestAborted } from '../http/request-aborted.ts'
import { type Reply, type RequestContext, reply } from '../http/route.ts'
import { deleteExpiredResults, deleteResult, findResult, type StoredResult } from './store.ts'

/** Where an answer is kept for a later replay. */
export type ReplaySlot = {
  /** The row that joins the commit which bills the request. */
  toRow(requestId: string, kept: { contentType: string; body: string }): IdempotencyResultRow
  /** There is no good answer: those who wait get this error too, and a later repeat runs again. */
  broke(error: unknown): void
}

export type Idempotency = {
  /**
   * Runs `produce` once per Idempotency-Key, key and route: a repeat gets the stored answer byte for byte, one that comes
   * while the first still runs waits for it (architecture §4). Without the header `produce` just runs.
   * @throws VALIDATION_ERROR for a malformed key, IDEMPOTENCY_KEY_REUSED for the same key with another body.
   */
  once(
    context: RequestContext,
    route: string,
    produce: (replay: ReplaySlot | undefined) => Promise<Reply | undefined>,
  ): Promise<Reply | undefined>
}

/** Deletes stored answers whose time is over, a few at a time so that running requests do not wait for it. */
export async function purgeExpired({ db, clock }: { db: Db; clock: Clock }): Promise<void> {
  const now = isoTime(clock.now())
  while ((await deleteExpiredResults(db, now, IDEMPOTENCY_PURGE_ROWS)) === IDEMPOTENCY_PURGE_ROWS);
}

/** What the first caller left for those who wait: an answer, the error it got, or nothing because it went away. */
type Left = { stored?: StoredResult; error?: GatewayError }
type Running = { fingerprint: string; left: Promise<Left> }

export function createIdempotency({ db, clock }: { db: Db; clock: Clock }): Idempotency {
  const running = new Map<string, Running>()

  async function runFirst(
    context: RequestContext,
    route: string,
    key: string,
    fingerprint: string,
    produce: (replay: ReplaySlot) => Promise<Reply | undefined>,
    left: Left,
  ): Promise<Reply | undefined> {
    const scope = { tenantId: context.caller.tenantId, apiKeyId: context.caller.keyId, route, idempotencyKey: key }
    const known = await findResult(db, scope)
    if (known && known.expires_at > isoTime(clock.now())) {
      left.stored = known
      return replayOf(known, fingerprint)
    }
    if (known) await deleteResult(db, scope)
    let kept: StoredResult | undefined
    try {
      const answer = await produce({
        broke: (error) => noteError(error, left),
        toRow(requestId, { contentType, body }) {
          const expiresAt = isoTime(clock.now() + IDEMPOTENCY_HOURS * 3_600_000)
          kept = { fingerprint, status: 200, content_type: contentType, body, expires_at: expiresAt }
          return {
            ...kept,
            tenant_id: scope.tenantId,
            api_key_id: scope.apiKeyId,
            route,
            idempotency_key: key,
            request_id: requestId,
            created_at: isoTime(clock.now()),
          }
        },
      })
      if (kept) left.stored = kept
      return answer
    } catch (error) {
      noteError(error, left)
      throw error
    }
  }

  return {
    async once(context, route, produce) {
      const key = keyOf(context)
      if (key === undefined) return produce(undefined)
      const fingerprint = hash('sha256', context.rawBody as Buffer, 'hex')
      const scope = JSON.stringify([context.caller.keyId, route, key])
      for (;;) {
        const first = running.get(scope)
        if (!first) break
        if (first.fingerprint !== fingerprint) throw reused()
        const { stored, error } = await unlessAborted(first.left, context.signal)
        if (stored) return replayOf(stored, fingerprint)
        if (error) throw error
        // The first caller went away and left nothing: this one takes its place.
      }
      const left: Left = {}
      const { promise, settle } = outsideSettled(left)
      running.set(scope, { fingerprint, left: promise })
      try {
        return await runFirst(context, route, key, fingerprint, produce, left)
      } finally {
        running.delete(scope)
        settle()
      }
    },
  }
}

function noteError(error: unknown, left: Left): void {
  if (error instanceof GatewayError) left.error = error
}

function outsideSettled(left: Left): { promise: Promise<Left>; settle(): void } {
  let settle = () => {}
  const promise = new Promise<Left>((resolve) => {
    settle = () => resolve(left)
  })
  return { promise, settle }
}

function keyOf({ request }: RequestContext): string | undefined {
  const key = request.headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key === 'string' && key.length <= IDEMPOTENCY_KEY_CHARS && /^[\x21-\x7e]+$/.test(key)) return key
  throw invalidField(
    'Idempotency-Key',
    `The Idempotency-Key header must be 1 to ${IDEMPOTENCY_KEY_CHARS} visible ASCII characters.`,
    key,
  )
}

function replayOf(stored: StoredResult, fingerprint: string): Reply {
  if (stored.fingerprint !== fingerprint) throw reused()
  return reply(stored.status, stored.body, {
    'content-type': stored.content_type,
    'cache-control': 'no-cache, no-transform',
    'idempotent-replayed': 'true',
  })
}

const reused = () =>
  new GatewayError('IDEMPOTENCY_KEY_REUSED', 'This Idempotency-Key was used with another body; use a new key.')

function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) return Promise.reject(signal.reason)
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason instanceof RequestAborted ? signal.reason : new RequestAborted('client'))
    signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
