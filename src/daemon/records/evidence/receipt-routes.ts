import { GatewayError } from '../../../shared/errors.ts'
import { treeProblem } from '../../../shared/evidence/commit.ts'
import { HASH_PATTERN } from '../../../shared/evidence/entry.ts'
import { toReceipt } from '../../../shared/evidence/receipt.ts'
import { mayUse } from '../../../shared/permissions.ts'
import { BUNDLE_ID_CHARS } from '../../../shared/spec-limits.ts'
import { FlatError } from '../../../shared/wire/common.ts'
import { isBundleId, ShowReceiptResponse } from '../../../shared/wire/evidence.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'
import { payloadOf } from './entry-payload.ts'
import { findCommit, findEntry } from './store.ts'

/** @param enabled whether receipts are served. Receipts are created in either case. */
export function receiptRoutes({ db, enabled }: { db: Db; enabled: boolean }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/api/external/receipts/{bundleId}',
      access: 'key',
      errors: 'flat',
      summary: 'Show the signed receipt of a request',
      tags: ['Evidence'],
      responses: {
        200: { description: 'The receipt', schema: ShowReceiptResponse },
        404: {
          description: "Unknown, expunged, another user's, or receipts are switched off",
          schema: FlatError,
        },
        409: { description: 'The commit that signed the request is missing from the store', schema: FlatError },
      },
      async handle({ caller, params: { bundleId = '' } }) {
        requireBundleId(bundleId)
        const entry = enabled ? await findEntry(db, caller.tenantId, bundleId) : undefined
        const payload = entry && payloadOf(entry)
        if (!entry || payload?.kind !== 'request' || !mayRead(caller, payload.user_id)) throw noReceipt()
        const commit = await findCommit(db, entry.commit_id)
        const holds = commit?.leaves[entry.leaf_index] === entry.entry_hash && treeProblem(commit) === undefined
        if (!holds || !HASH_PATTERN.test(entry.prev_hash)) throw noProof(entry.chain)
        return reply(200, { success: true, receipt: toReceipt(payload, entry, commit) })
      },
    }),
  ]
}

const mayRead = (caller: Caller, userId: string | null): boolean =>
  userId === caller.userId || mayUse(caller.rights, 'smltp-security', 'reader')

/** @throws INVALID_BUNDLE_ID */
export function requireBundleId(text: string): void {
  if (isBundleId(text)) return
  throw new GatewayError('INVALID_BUNDLE_ID', `A bundle id has at most ${BUNDLE_ID_CHARS} characters.`)
}

const noReceipt = () =>
  new GatewayError(
    'RECEIPT_NOT_FOUND',
    'There is no receipt for this id. GET /transparency/entries lists the recorded requests.',
  )

const noProof = (chain: string) =>
  new GatewayError(
    'EVIDENCE_MISMATCH',
    `The commit that proves this request is missing or was changed. See GET /transparency/chain-integrity, chain "${chain}".`,
  )
