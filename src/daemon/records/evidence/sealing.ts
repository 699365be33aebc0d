import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { newCommitId } from '../../../shared/ids.ts'
import { EVIDENCE_CHECKPOINT } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import type { TableRows } from '../../platform/db/insert-rows.ts'
import type { EvidenceEntryRow } from '../../platform/db/tables.ts'
import type { EntryDraft } from '../ledger/records.ts'
import { type ChainHead, findHead, linkEntry, signCommit } from './chains.ts'
import { followSuccessors, type Successors } from './losses.ts'
import type { Signer, SigningKeys } from './signing-keys.ts'

/** The number of chains for which a daemon caches the last entry. The last entries of other chains are looked up. */
const EVIDENCE_HEADS = 10_000

/** Entries that are not stored yet but already linked into their chains, and the commit that signs them. */
export type Sealed = {
  inserts: readonly TableRows[]
  /** Call this once the entries are stored. After this call, later entries are linked to these entries. */
  stored(): void
}

/**
 * Appends entries of requests to the chains of this daemon, one chain per tenant. Before the next `seal`, call `stored`
 * on the last result, or `forgetHeads` if it was not stored. The caller must therefore write one transaction at a time.
 */
export type Sealer = {
  /** Returns synchronously unless a head or the key must be read. @throws errors of the store */
  seal(drafts: readonly EntryDraft[]): Sealed | Promise<Sealed>
  /**
   * Discards the cached heads. Call this if a commit failed or its result is unknown. The next `seal` reads the heads
   * from the store.
   */
  forgetHeads(): void
  /** Starts new chains. Call this if another process writes to the chains of this daemon. */
  leaveChains(): void
}

export type SealerDeps = {
  db: Db
  clock: Clock
  keys: Pick<SigningKeys, 'current'>
  /** The id of the daemon: 12 hex characters. */
  daemonId: string
  /**
   * The successors of closed chains. Entries are appended to the successor of a closed chain. By default, no chain is
   * closed.
   */
  successors?(): Successors | Promise<Successors>
  /** Called when a chain has enough new entries for a checkpoint (EVIDENCE_CHECKPOINT). */
  onGrowth?(): void
  /** Called after each commit with the entries that it has appended to a chain, and their drafts, in order. */
  onStored?(tenantId: string, chain: string, entries: readonly EvidenceEntryRow[], drafts: readonly EntryDraft[]): void
}

const NONE_CLOSED: Successors = new Map()

const OF_ALL = ['chain', 'commit_id'] as const
/** If all entries of a batch belong to one tenant, these columns have the same value in all rows. */
const OF_ONE_TENANT = ['chain', 'commit_id', 'tenant_id'] as const

export function createSealer({
  db,
  clock,
  keys,
  daemonId,
  successors = () => NONE_CLOSED,
  onGrowth,
  onStored,
}: SealerDeps): Sealer {
  let chain = `requests-${daemonId}`
  const heads = new LRUCache<string, ChainHead>({ max: EVIDENCE_HEADS })

  function sealNow(drafts: readonly EntryDraft[], signer: Signer, known: Map<string, ChainHead>): Sealed {
    const nowMs = clock.now()
    const commitId = newCommitId(nowMs)
    const entries: EvidenceEntryRow[] = []
    let grew = false
    for (const draft of drafts) {
      const head = known.get(draft.tenantId)
      if (head === undefined) throw new Error('cannot seal an entry without the head of its chain')
      const entry = linkEntry(head, { chain, commitId, leafIndex: entries.length }, draft)
      entries.push(entry)
      known.set(draft.tenantId, { size: head.size + 1, hash: entry.entry_hash })
      if ((head.size + 1) % EVIDENCE_CHECKPOINT.entries === 0) grew = true
    }
    return {
      inserts: [
        { table: 'evidence_entries', rows: entries, common: known.size === 1 ? OF_ONE_TENANT : OF_ALL },
        { table: 'evidence_commits', rows: [signCommit(commitId, entries, signer, nowMs)] },
      ],
      stored() {
        for (const [tenantId, head] of known) {
          heads.set(tenantId, head)
          const isOnly = known.size === 1
          const own = isOnly ? entries : entries.filter((entry) => entry.tenant_id === tenantId)
          onStored?.(tenantId, chain, own, isOnly ? drafts : drafts.filter((draft) => draft.tenantId === tenantId))
        }
        if (grew) onGrowth?.()
      },
    }
  }

  /** Leaves the current chains if one of them was closed. */
  function leaveClosed(closed: Successors): void {
    if (!closed.has(chain)) return
    chain = followSuccessors(chain, closed)
    heads.clear()
  }

  async function readAndSeal(
    drafts: readonly EntryDraft[],
    signer: Signer | Promise<Signer>,
    closed: Successors | Promise<Successors>,
  ): Promise<Sealed> {
    leaveClosed(await closed)
    const known = new Map<string, ChainHead>()
    for (const { tenantId } of drafts) {
      const head = heads.get(tenantId)
      if (head && !known.has(tenantId)) known.set(tenantId, head)
      if (!known.has(tenantId)) known.set(tenantId, await findHead(db, tenantId, chain))
    }
    return sealNow(drafts, await signer, known)
  }

  return {
    seal(drafts) {
      const signer = keys.current()
      // Mark a rejection as handled, because the promise is awaited only later.
      if (signer instanceof Promise) signer.catch(() => {})
      const closed = successors()
      if (signer instanceof Promise || closed instanceof Promise) return readAndSeal(drafts, signer, closed)
      leaveClosed(closed)
      const known = new Map<string, ChainHead>()
      for (const { tenantId } of drafts) {
        const head = heads.get(tenantId)
        if (head === undefined) return readAndSeal(drafts, signer, closed)
        known.set(tenantId, head)
      }
      return sealNow(drafts, signer, known)
    },
    forgetHeads: () => heads.clear(),
    leaveChains() {
      chain = `requests-${daemonId}-${randomBytes(2).toString('hex')}`
      heads.clear()
    },
  }
}

/** Whether a write failed because another process has already stored an entry at the same position of a chain. */
export const isPositionTaken = (db: Db, error: unknown): boolean =>
  /evidence_entries.*seq/.test(engineOf(db).uniqueKeyOf(error) ?? '')
