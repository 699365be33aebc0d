import { commitText, rootOfEntries } from '../../../shared/evidence/commit.ts'
import { entryHash, GENESIS_HASH, payloadHash } from '../../../shared/evidence/entry.ts'
import { isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import type { EvidenceCommitRow, EvidenceEntryRow } from '../../platform/db/tables.ts'
import type { EntryDraft } from '../ledger/records.ts'
import type { Signer } from './signing-keys.ts'

/** The end of a chain: its number of entries, and the hash of the last entry. */
export type ChainHead = { size: number; hash: string }

/** Returns the head of a chain in the store. If the chain has no entries, returns the head of an empty chain. */
export async function findHead(db: Db, tenantId: string, chain: string): Promise<ChainHead> {
  const last = await db
    .selectFrom('evidence_entries')
    .select(['seq', 'entry_hash'])
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .orderBy('seq', 'desc')
    .limit(1)
    .executeTakeFirst()
  return last ? { size: last.seq + 1, hash: last.entry_hash } : { size: 0, hash: GENESIS_HASH }
}

/** Creates the row of the next entry: the entry that follows this head. */
export function linkEntry(
  head: ChainHead,
  { chain, commitId, leafIndex }: { chain: string; commitId: string; leafIndex: number },
  { id, tenantId, createdAtMs, payload, stored = payload }: EntryDraft,
): EvidenceEntryRow {
  const fields = { tenant_id: tenantId, chain, seq: head.size, id, created_at: isoTime(createdAtMs) }
  const payload_hash = payloadHash(payload)
  const entry_hash = entryHash(fields, head.hash, payload_hash)
  return {
    tenant_id: tenantId,
    chain,
    seq: head.size,
    id,
    created_at: fields.created_at,
    payload: stored,
    payload_hash,
    entry_hash,
    commit_id: commitId,
    leaf_index: leafIndex,
  }
}

/** Creates the row of a commit: one signature over the Merkle root of its entries. */
export function signCommit(
  id: string,
  entries: readonly EvidenceEntryRow[],
  signer: Signer,
  nowMs: number,
): EvidenceCommitRow {
  const leaves = entries.map(({ entry_hash }) => entry_hash).join('')
  const row = { id, signer: signer.name, tree_size: entries.length, root: rootOfEntries(leaves) }
  return {
    id,
    created_at: isoTime(nowMs),
    kid: signer.kid,
    signer: signer.name,
    tree_size: row.tree_size,
    root: row.root,
    leaves,
    signature: signer.sign(commitText(row)).toString('base64'),
  }
}
