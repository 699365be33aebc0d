/** Verifies one chain of the log. */
import { ChainCheck, type ChainReport, type ChainRow } from '../../shared/evidence/chain-check.ts'
import type { CommitRow } from '../../shared/evidence/commit.ts'
import { logId } from '../../shared/evidence/entry.ts'
import type { Checkpoint } from '../../shared/evidence/note.ts'
import type { TrustedKeys } from './key-set.ts'

/** The number of entries in a chain and the hash of its last entry, as the source reports them. */
export type ChainHead = { chain: string; size: number; head: string }

/** An entry with its commit. All entries of a commit share one commit object. */
export type SignedRow = { row: ChainRow; commit: CommitRow | undefined }

/** A checkpoint as stored with its chain. */
export type CheckpointNote = { chain: string; tree_size: number; note: string }

/** The source of one tenant's evidence: a gateway, or the directory of an export. */
export type EvidenceSource = {
  tenantId: string
  /** The last checkpoint of each chain. Only a gateway sets this member. */
  latest?: readonly CheckpointNote[]
  /** The chains whose lost history an operator has acknowledged. Only a gateway sets this member. */
  lost?: ReadonlySet<string>
  /** Sorted by name. */
  heads: ChainHead[]
  /** Yields the first `size` entries of a chain. At any time, only one page of entries is in memory. */
  rows(head: ChainHead): AsyncIterable<SignedRow>
  /** Yields all checkpoints of the chain, including checkpoints that cover more than `size` entries. */
  checkpoints(head: ChainHead): AsyncIterable<CheckpointNote>
}

export type CheckedChain = ChainReport & { chain: string }

/**
 * Maximum number of pending signature checks. This number is high enough to keep the thread pool busy while entries are
 * read.
 */
const SIGNATURES_AT_ONCE = 1_024

type Known = {
  tenantId: string
  head: ChainHead
  trusted: TrustedKeys
  /** The list may contain checkpoints of other chains. Those checkpoints are ignored. */
  checkpoints: readonly Checkpoint[]
}

/**
 * Verifies one chain in constant memory: every hash, the signature of every commit, and the root at each checkpoint.
 * Stops at the first invalid entry. A chain is also invalid if its last entry differs from the hash in its head.
 * `onRow` receives every entry.
 */
export async function checkChain(
  { tenantId, head, trusted, checkpoints }: Known,
  rows: AsyncIterable<SignedRow>,
  onRow: (seen: SignedRow) => Promise<void> | void,
): Promise<CheckedChain> {
  const { chain } = head
  const { keys } = trusted
  const check = new ChainCheck(tenantId, chain, {
    keys,
    checkpoints: checkpointsOf(tenantId, chain, checkpoints),
    signaturesAtOnce: SIGNATURES_AT_ONCE,
  })
  let kid: string | undefined
  for await (const seen of rows) {
    if (seen.commit !== undefined && seen.commit.kid !== kid) {
      kid = seen.commit.kid
      if (!keys.some((key) => key.kid === kid)) await trusted.renew()
    }
    await check.add(seen.row, seen.commit)
    await onRow(seen)
  }
  const report = await check.finish()
  if (!report.ok || (report.size === head.size && report.head === head.head)) return { ...report, chain }
  const problem = `it ends with ${report.head} after ${report.size} entries; expected ${head.head} after ${head.size}`
  return { ...report, chain, ok: false, firstBad: { seq: Math.min(report.size, head.size), problem } }
}

/**
 * Returns the checkpoints of one chain. The origin of a checkpoint is an optional server name, followed by the id of
 * the chain's log.
 */
export function checkpointsOf(tenantId: string, chain: string, checkpoints: readonly Checkpoint[]): Checkpoint[] {
  const end = `/logs/${logId(tenantId, chain)}`
  return checkpoints.filter(({ origin }) => origin.endsWith(end))
}
