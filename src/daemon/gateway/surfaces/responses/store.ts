// Keeps answers for later requests, encrypted. Only the user who owns the key of the request can find them.

import { RESPONSES_KEPT_DAYS } from '../../../../shared/spec-limits.ts'
import { type Clock, DAY_MS, isoTime } from '../../../../shared/time.ts'
import type { InputItem, ResponsesResponse } from '../../../../shared/wire/responses.ts'
import type { Db } from '../../../platform/db/db.ts'
import type { StoredResponseRow } from '../../../platform/db/tables.ts'
import type { Caller } from '../../../platform/http/caller.ts'
import { type MasterKey, openSecret, type SealedLocation, sealSecret } from '../../../platform/secrets/seal.ts'
import type { SealedColumn } from '../../../platform/secrets/sealed-column.ts'

/** An answer, and all items of the conversation before it. */
export type StoredResponse = { response: ResponsesResponse; input: InputItem[] }

/** A stored answer, and when it expires, in ISO 8601. */
export type FoundResponse = StoredResponse & { expiresAt: string }

type Owner = Pick<Caller, 'tenantId' | 'userId'>

/** How long an answer is kept. */
export type Term = {
  /** The retention of the policy. Null: the policy sets none. */
  keptDays: number | null
  /**
   * The earliest expiry of the stored answers whose text the conversation contains, in ISO 8601. Undefined if there are
   * none.
   */
  expiresAt: string | undefined
}

export type ResponseStore = {
  /** Returns the row of an answer. It expires no later than the stored answers that its conversation contains. */
  toRow(owner: Owner, stored: StoredResponse, term: Term): StoredResponseRow
  /** Returns an answer of this user. Undefined if it is unknown, expired or of another user. */
  find(owner: Owner, id: string): Promise<FoundResponse | undefined>
  /** Deletes an answer of this user. Returns false if there is none. */
  delete(owner: Owner, id: string): Promise<boolean>
  /** Deletes expired answers in small batches, so that other writers can run between two batches. */
  purge(): Promise<void>
}

const PURGED_ROWS = 200

export function createResponseStore({
  db,
  clock,
  masterKey,
}: {
  db: Db
  clock: Clock
  masterKey: MasterKey
}): ResponseStore {
  return {
    toRow({ tenantId, userId }, stored, { keptDays, expiresAt }) {
      const { id } = stored.response
      const days = Math.min(keptDays ?? RESPONSES_KEPT_DAYS, RESPONSES_KEPT_DAYS)
      const ownExpiry = isoTime(clock.now() + days * DAY_MS)
      return {
        tenant_id: tenantId,
        id,
        user_id: userId,
        created_at: isoTime(clock.now()),
        expires_at: expiresAt !== undefined && expiresAt < ownExpiry ? expiresAt : ownExpiry,
        sealed: sealSecret(masterKey, locationOf(tenantId, id), JSON.stringify(stored)),
      }
    },
    async find({ tenantId, userId }, id) {
      const row = await db
        .selectFrom('stored_responses')
        .select(['sealed', 'expires_at'])
        .where('tenant_id', '=', tenantId)
        .where('id', '=', id)
        .where('user_id', '=', userId)
        .where('expires_at', '>', isoTime(clock.now()))
        .executeTakeFirst()
      if (!row) return undefined
      const stored = JSON.parse(openSecret(masterKey, locationOf(tenantId, id), row.sealed)) as StoredResponse
      return { ...stored, expiresAt: row.expires_at }
    },
    async delete({ tenantId, userId }, id) {
      const { numDeletedRows } = await db
        .deleteFrom('stored_responses')
        .where('tenant_id', '=', tenantId)
        .where('id', '=', id)
        .where('user_id', '=', userId)
        .where('expires_at', '>', isoTime(clock.now()))
        .executeTakeFirstOrThrow()
      return numDeletedRows > 0n
    },
    async purge() {
      const now = isoTime(clock.now())
      while ((await deleteExpired(db, now)) === PURGED_ROWS);
    },
  }
}

async function deleteExpired(db: Db, now: string): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('stored_responses')
    .where('id', 'in', (expired) =>
      expired.selectFrom('stored_responses').select('id').where('expires_at', '<=', now).limit(PURGED_ROWS),
    )
    .where('expires_at', '<=', now)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/** The column of stored answers, for a rotation of the master key. */
export const STORED_RESPONSE_COLUMN: SealedColumn = {
  table: 'stored_responses',
  column: 'sealed',
  key: ['tenant_id', 'id'],
  locationOf: ({ tenant_id = '', id = '' }) => locationOf(tenant_id, id),
}

const locationOf = (tenant: string, row: string): SealedLocation => ({
  purpose: 'stored-responses',
  table: 'stored_responses',
  row,
  tenant,
})
