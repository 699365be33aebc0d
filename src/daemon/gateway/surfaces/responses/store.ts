// Keeps answers for later requests, encrypted. Only the user who owns the key of the request can find them.

import { RESPONSES_KEPT_DAYS } from '../../../../shared/spec-limits.ts'
import { type Clock, DAY_MS, isoTime } from '../../../../shared/time.ts'
import type { InputItem, ResponsesResponse } from '../../../../shared/wire/responses.ts'
import type { Db } from '../../../platform/db/db.ts'
import type { StoredResponseRow } from '../../../platform/db/tables.ts'
import type { Caller } from '../../../platform/http/caller.ts'
import { type MasterKey, openSecret, type SealedLocation, sealSecret } from '../../../platform/secrets/seal.ts'

/** An answer, and all items of the conversation before it. */
export type StoredResponse = { response: ResponsesResponse; input: InputItem[] }

type Owner = Pick<Caller, 'tenantId' | 'userId'>

export type ResponseStore = {
  /** Returns the row of an answer. @param keptDays the retention of the policy. Null: the policy sets none */
  toRow(owner: Owner, stored: StoredResponse, keptDays: number | null): StoredResponseRow
  /** Returns an answer of this user. Undefined if it is unknown, expired or of another user. */
  find(owner: Owner, id: string): Promise<StoredResponse | undefined>
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
    toRow({ tenantId, userId }, stored, keptDays) {
      const { id } = stored.response
      const days = Math.min(keptDays ?? RESPONSES_KEPT_DAYS, RESPONSES_KEPT_DAYS)
      return {
        tenant_id: tenantId,
        id,
        user_id: userId,
        created_at: isoTime(clock.now()),
        expires_at: isoTime(clock.now() + days * DAY_MS),
        sealed: sealSecret(masterKey, locationOf(tenantId, id), JSON.stringify(stored)),
      }
    },
    async find({ tenantId, userId }, id) {
      const row = await db
        .selectFrom('stored_responses')
        .select('sealed')
        .where('tenant_id', '=', tenantId)
        .where('id', '=', id)
        .where('user_id', '=', userId)
        .where('expires_at', '>', isoTime(clock.now()))
        .executeTakeFirst()
      return row && (JSON.parse(openSecret(masterKey, locationOf(tenantId, id), row.sealed)) as StoredResponse)
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

const locationOf = (tenant: string, row: string): SealedLocation => ({
  purpose: 'stored-responses',
  table: 'stored_responses',
  row,
  tenant,
})
