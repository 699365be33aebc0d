import { newCommitId } from '../../../shared/ids.ts'
import type { Clock } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import type { EvidenceEntryRow } from '../../platform/db/tables.ts'
import { lockTenant } from '../../platform/db/tenant-lock.ts'
import type { EntryDraft } from '../ledger/records.ts'
import { type ChainHead, findHead, linkEntry, signCommit } from './chains.ts'
import { changesChainOf } from './losses.ts'
import type { SigningKeys } from './signing-keys.ts'

/**
 * Appends the entries of one change to the logs of their tenants, with one signature, in the transaction of the change.
 * The caller must already have locked the tenant `lockedTenantId`. This function locks the other tenants. All locks
 * last until the transaction ends.
 */
export async function appendChanges(
  tx: Db,
  drafts: readonly EntryDraft[],
  { keys, clock, lockedTenantId }: { keys: Pick<SigningKeys, 'currentIn'>; clock: Clock; lockedTenantId: string },
): Promise<void> {
  const heads = new Map<string, ChainHead>()
  const chains = new Map<string, string>()
  for (const tenantId of new Set(drafts.map((draft) => draft.tenantId).sort())) {
    if (tenantId !== lockedTenantId) await lockTenant(tx, tenantId)
    const chain = await changesChainOf(tx, tenantId)
    chains.set(tenantId, chain)
    heads.set(tenantId, await findHead(tx, tenantId, chain))
  }
  const nowMs = clock.now()
  const commitId = newCommitId(nowMs)
  const entries: EvidenceEntryRow[] = []
  for (const draft of drafts) {
    const head = heads.get(draft.tenantId) as ChainHead
    const chain = chains.get(draft.tenantId) as string
    const entry = linkEntry(head, { chain, commitId, leafIndex: entries.length }, draft)
    heads.set(draft.tenantId, { size: head.size + 1, hash: entry.entry_hash })
    entries.push(entry)
  }
  await insertRows(tx, 'evidence_entries', entries)
  await insertRows(tx, 'evidence_commits', [signCommit(commitId, entries, await keys.currentIn(tx), nowMs)])
}
