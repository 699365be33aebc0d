import { GatewayError } from '../../../shared/errors.ts'
import { treeProblem } from '../../../shared/evidence/commit.ts'
import { HASH_PATTERN } from '../../../shared/evidence/entry.ts'
import { rootOfInclusion } from '../../../shared/evidence/merkle.ts'
import { toReceipt } from '../../../shared/evidence/receipt.ts'
import { formatTlogProof } from '../../../shared/evidence/tlog-proof.ts'
import { mayUse } from '../../../shared/permissions.ts'
import { BUNDLE_ID_CHARS } from '../../../shared/spec-limits.ts'
import { FlatError } from '../../../shared/wire/common.ts'
import { isBundleId, ShowReceiptBundleResponse, ShowReceiptResponse } from '../../../shared/wire/evidence.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'
import { findCosignedOver } from './cosignatures.ts'
import { payloadOf } from './entry-payload.ts'
import { proveInclusion } from './proofs.ts'
import { findCommit, findEntry, type StoredEntry } from './store.ts'

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
        const { receipt } = await receiptOf(caller, bundleId)
        return reply(200, { success: true, receipt })
      },
    }),
    route({
      method: 'GET',
      path: '/api/external/receipts/{bundleId}/bundle',
      access: 'key',
      errors: 'flat',
      summary: 'Show the receipt of a request with a proof that a cosigned checkpoint covers it',
      tags: ['Evidence'],
      responses: {
        200: { description: 'The receipt and its proof (C2SP tlog-proof)', schema: ShowReceiptBundleResponse },
        404: { description: 'As for the receipt', schema: FlatError },
        409: { description: 'No checkpoint covers the request yet, or the log is damaged', schema: FlatError },
      },
      async handle({ caller, params: { bundleId = '' } }) {
        const { entry, receipt } = await receiptOf(caller, bundleId)
        const bundle = { receipt, tlog_proof: await proveInLog(entry) }
        return reply(200, { success: true, bundle })
      },
    }),
  ]

  /** @throws INVALID_BUNDLE_ID, RECEIPT_NOT_FOUND, EVIDENCE_MISMATCH */
  async function receiptOf(caller: Caller, bundleId: string): Promise<{ entry: StoredEntry; receipt: object }> {
    requireBundleId(bundleId)
    const entry = enabled ? await findEntry(db, caller.tenantId, bundleId) : undefined
    const payload = entry && payloadOf(entry)
    if (!entry || payload?.kind !== 'request' || !mayRead(caller, payload.user_id)) throw noReceipt()
    const commit = await findCommit(db, entry.commit_id)
    const holds = commit?.leaves[entry.leaf_index] === entry.entry_hash && treeProblem(commit) === undefined
    if (!holds || !HASH_PATTERN.test(entry.prev_hash)) throw noProof(entry.chain)
    return { entry, receipt: toReceipt(payload, entry, commit) }
  }

  /** @throws RECEIPT_PENDING, EVIDENCE_MISMATCH */
  async function proveInLog({ tenant_id, chain, seq, entry_hash }: StoredEntry): Promise<string> {
    const checkpoint = await findCosignedOver(db, tenant_id, chain, seq)
    if (checkpoint === undefined) throw pending()
    const { tree_size: size, note } = checkpoint
    const path = await proveInclusion(db, tenant_id, chain, seq, size).catch((error) => {
      // Entries that the checkpoint covers are missing.
      throw error instanceof RangeError ? noProof(chain) : error
    })
    const root = rootOfInclusion(Buffer.from(entry_hash, 'hex'), seq, size, path)
    if (root?.toString('hex') !== checkpoint.root) throw noProof(chain)
    return formatTlogProof({ index: seq, path, note })
  }
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

const pending = () =>
  new GatewayError(
    'RECEIPT_PENDING',
    'No checkpoint covers this request yet. Checkpoints are created every hour; an administrator can request one with "aigw audit checkpoint".',
  )

const noProof = (chain: string) =>
  new GatewayError(
    'EVIDENCE_MISMATCH',
    `The commit that proves this request is missing or was changed. See GET /transparency/chain-integrity, chain "${chain}".`,
  )
