// Stores complete answers of models, encrypted, for identical requests of the same tenant (decision 0039).
import { createHmac } from 'node:crypto'
import { type Clock, DAY_MS, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import type { CacheEntryRow } from '../../platform/db/tables.ts'
import type { Log } from '../../platform/log.ts'
import { createPacer, runInSlices } from '../../platform/pacing.ts'
import { type MasterKey, openSecret, type SealedLocation, sealSecret } from '../../platform/secrets/seal.ts'
import type { SealedColumn } from '../../platform/secrets/sealed-column.ts'
import { writingJson } from '../../platform/text/json-writer.ts'
import type { CacheConfig } from '../config.ts'
import type { CachedAnswer } from './cached-answer.ts'
import { createFlights, type Flights } from './flights.ts'
import { deleteExpiredEntries, findEntry } from './store.ts'
import { createTenantSizes, type TenantSizes } from './tenant-sizes.ts'

export type AnswerCache = Pick<TenantSizes, 'forget'> & {
  /** The identical requests that are running on this daemon. */
  flights: Flights
  /**
   * Returns a keyed hash of everything that determines an answer. A plain hash would let readers of the store guess
   * requests.
   */
  keyHash(material: unknown): string | Promise<string>
  /** Returns the stored answer. Undefined if there is none, or if it cannot be read; a failure is logged. */
  find(tenantId: string, keyHash: string): Promise<CachedAnswer | undefined>
  /**
   * Returns the row of an answer, after making room for it. Undefined if it does not fit, or if this daemon may not
   * encrypt; a failure is logged.
   * @param keptDays the retention of the policy. Null: the policy sets none
   */
  toRow(
    answer: CachedAnswer,
    terms: { tenantId: string; keyHash: string; keptDays: number | null },
  ): Promise<CacheEntryRow | undefined>
}

export type AnswerCacheDeps = { db: Db; clock: Clock; log: Pick<Log, 'error'>; masterKey: MasterKey }

export function createAnswerCache(deps: AnswerCacheDeps, { ttlMs, maxBytes }: CacheConfig): AnswerCache {
  const { db, clock, log, masterKey } = deps
  const sizes = createTenantSizes(deps, maxBytes)
  return {
    flights: createFlights(clock),
    forget: sizes.forget,
    keyHash: (material) => runInSlices(hashing(masterKey, material), createPacer()),
    async find(tenantId, keyHash) {
      const nowMs = clock.now()
      try {
        const times = { now: isoTime(nowMs), oldest: isoTime(nowMs - ttlMs) }
        const row = await findEntry(db, { tenantId, keyHash, ...times })
        if (!row) return undefined
        const recorded = openSecret(masterKey, locationOf(tenantId, row.id), row.sealed)
        return { original: row.id, storedAtMs: Date.parse(row.created_at), recorded }
      } catch (error) {
        log.error({ error, tenant_id: tenantId }, 'a stored answer could not be read, so the model is called')
        return undefined
      }
    },
    async toRow({ original: id, storedAtMs, recorded }, { tenantId, keyHash, keptDays }) {
      if (masterKey.isOutdated) return undefined
      const sealed = sealSecret(masterKey, locationOf(tenantId, id), recorded)
      const bytes = sealed.length
      if (bytes > maxBytes) return undefined
      try {
        await sizes.makeRoom(tenantId, bytes)
      } catch (error) {
        log.error({ error, tenant_id: tenantId }, 'the answer cache could not be trimmed, so an answer is not stored')
        return undefined
      }
      const keptMs = Math.min(ttlMs, keptDays === null ? Number.POSITIVE_INFINITY : keptDays * DAY_MS)
      return {
        tenant_id: tenantId,
        id,
        key_hash: keyHash,
        created_at: isoTime(storedAtMs),
        expires_at: isoTime(storedAtMs + keptMs),
        bytes,
        sealed,
      }
    },
  }
}

function* hashing(masterKey: MasterKey, material: unknown): Generator<void, string> {
  const hmac = createHmac('sha256', masterKey.keyFor('answer-cache-keys'))
  for (const piece of writingJson(material)) {
    hmac.update(piece)
    yield
  }
  return hmac.digest('base64url')
}

const PURGED_ROWS = 200

/** Deletes expired answers in small batches, so that other writers can run between two batches. */
export async function purgeCache({ db, clock }: Pick<AnswerCacheDeps, 'db' | 'clock'>): Promise<void> {
  const now = isoTime(clock.now())
  while ((await deleteExpiredEntries(db, now, PURGED_ROWS)) === PURGED_ROWS);
}

/** The column of cached answers, for a rotation of the master key. */
export const CACHED_ANSWER_COLUMN: SealedColumn = {
  table: 'cache_entries',
  column: 'sealed',
  key: ['tenant_id', 'id'],
  locationOf: ({ tenant_id = '', id = '' }) => locationOf(tenant_id, id),
}

const locationOf = (tenant: string, row: string): SealedLocation => ({
  purpose: 'answer-cache',
  table: 'cache_entries',
  row,
  tenant,
})
