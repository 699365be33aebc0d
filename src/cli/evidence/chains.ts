import { ChainCheck, type ChainReport, type ChainRow } from '../../shared/evidence/chain-check.ts'
import type { CommitRow } from '../../shared/evidence/commit.ts'
import { logId } from '../../shared/evidence/entry.ts'
import type { Checkpoint } from '../../shared/evidence/note.ts'
import type { TrustedKeys } from './key-set.ts'

/** A chain as its keeper describes it: so many entries, and the hash of the last one. */
export type ChainHead = { chain: string; size: number; head: string }

/** An entry with the commit that it says signed it; the same object for all entries of one. */
export type SignedRow = { row: ChainRow; commit: CommitRow | undefined }

/** A checkpoint as it is kept beside its chain. */
export type CheckpointNote = { chain: string; tree_size: number; note: string }

/** Where the evidence of one tenant is read: a gateway, or the directory of an export. */
export type EvidenceSource = {
  tenantId: string
  /** In the order of their names. */
  heads: ChainHead[]
  /** The first `size` entries of a chain, with as much in memory as one page of them. */
  rows(head: ChainHead): AsyncIterable<SignedRow>
  /** Those that the first `size` entries must agree with; also of more entries, where the chain had them. */
  checkpoints(head: ChainHead): AsyncIterable<CheckpointNote>
}

export type CheckedChain = ChainReport & { chain: string }

/** Nothing else needs the threads that check them, which should not be out of work while entries are read. */
const SIGNATURES_AT_ONCE = 1_024

type Known = {
  tenantId: string
  head: ChainHead
  trusted: TrustedKeys
  /** Of any chains; those of others are passed over. */
  checkpoints: readonly Checkpoint[]
}

/**
 * Walks one chain to its end in constant memory: every hash, the signature of every commit, and the root at each checkpoint.
 * Nothing behind the first entry that does not hold is looked at. A chain that ends elsewhere than its head says does not hold
 * either. `onRow` sees every entry that was looked at.
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
  const problem = `it ends with ${report.head} after ${report.size} entries, and should with ${head.head} after ${head.size}`
  return { ...report, chain, ok: false, firstBad: { seq: Math.min(report.size, head.size), problem } }
}

/** The checkpoints of one chain: their origin ends with the id of its log, whoever's name is before it. */
export function checkpointsOf(tenantId: string, chain: string, checkpoints: readonly Checkpoint[]): Checkpoint[] {
  const end = `/logs/${logId(tenantId, chain)}`
  return checkpoints.filter(({ origin }) => origin.endsWith(end))
}
