import { ChainCheck, type ChainReport } from '../../shared/evidence/chain-check.ts'
import type { CommitRow } from '../../shared/evidence/commit.ts'
import type { PublishedKey } from '../../shared/evidence/keys.ts'
import { type Checkpoint, NoteError, verifyNote } from '../../shared/evidence/note.ts'
import type { Db } from '../db/database.ts'
import { CHANGES_CHAIN } from './chains.ts'
import { findCommits, measureChains, readChain } from './store.ts'

/** What the walk over one chain has found. */
export type CheckedChain = ChainReport & { chain: string }

/** Rows in memory at a time. */
const ROWS = 500
/** How long other work waits for this one. */
const SLICE_MS = 10

/**
 * Walks every chain of a tenant: each link, each commit with its signature, each checkpoint. What was appended after it
 * began is not looked at. Memory does not grow with the chains, but for the root of each checkpoint.
 * @param keys those that are published
 */
export async function verifyTenant(db: Db, tenantId: string, keys: readonly PublishedKey[]): Promise<CheckedChain[]> {
  const sizes = new Map((await measureChains(db, tenantId)).map(({ chain, size }) => [chain, size]))
  const promised = await db
    .selectFrom('evidence_checkpoints')
    .select('chain')
    .distinct()
    .where('tenant_id', '=', tenantId)
    .execute()
  // One that is gone altogether has left its checkpoints.
  for (const { chain } of promised) if (!sizes.has(chain)) sizes.set(chain, 0)
  const checked: CheckedChain[] = []
  for (const [chain, size] of sizes) {
    checked.push({ chain, ...(await verifyChain(db, { tenantId, chain, size, keys })) })
  }
  return checked
}

type Walk = { tenantId: string; chain: string; size: number; keys: readonly PublishedKey[] }

async function verifyChain(db: Db, { tenantId, chain, size, keys }: Walk): Promise<ChainReport> {
  const { checkpoints, broken } = await readCheckpoints(db, tenantId, chain, keys)
  const check = new ChainCheck(tenantId, chain, { checkpoints, keys })
  const rest = createRests()
  let early: ChainReport['firstBad']
  let commit: CommitRow | undefined
  for (let from = 0; from < size; from += ROWS) {
    const rows = await readChain(db, tenantId, chain, { from, limit: Math.min(ROWS, size - from) })
    const missing = new Set(rows.map(({ commit_id }) => commit_id).filter((id) => id !== commit?.id))
    const commits = new Map((await findCommits(db, [...missing])).map((found) => [found.id, found]))
    for (const row of rows) {
      if (row.commit_id !== commit?.id) commit = commits.get(row.commit_id)
      check.add(row, commit)
      // Retention is for what requests leave.
      if (row.payload === null && chain === CHANGES_CHAIN) early ??= { seq: row.seq, problem: 'its payload is missing' }
      await rest()
    }
  }
  const report = check.finish()
  const firstBad = [report.firstBad, early, broken].find((found) => found !== undefined)
  return firstBad ? { ...report, ok: false, firstBad } : report
}

/** Checkpoints that are signed, and the first that is not. */
async function readCheckpoints(
  db: Db,
  tenantId: string,
  chain: string,
  keys: readonly PublishedKey[],
): Promise<{ checkpoints: Checkpoint[]; broken: ChainReport['firstBad'] }> {
  const checkpoints: Checkpoint[] = []
  const rest = createRests()
  let broken: ChainReport['firstBad']
  let from = 0
  for (;;) {
    const rows = await db
      .selectFrom('evidence_checkpoints')
      .select(['tree_size', 'note'])
      .where('tenant_id', '=', tenantId)
      .where('chain', '=', chain)
      .where('tree_size', '>', from)
      .orderBy('tree_size')
      .limit(ROWS)
      .execute()
    for (const { tree_size, note } of rows) {
      from = tree_size
      try {
        checkpoints.push(verifyNote(note, keys))
      } catch (error) {
        if (!(error instanceof NoteError)) throw error
        broken ??= { seq: tree_size, problem: `the checkpoint of ${tree_size} entries is broken: ${error.message}` }
      }
      await rest()
    }
    if (rows.length < ROWS) return { checkpoints, broken }
  }
}

/** Lets others run when this work has had its slice. */
function createRests(): () => Promise<void> | undefined {
  let sinceMs = performance.now()
  return () => {
    if (performance.now() - sinceMs < SLICE_MS) return undefined
    return new Promise((resolve) => {
      setImmediate(() => {
        sinceMs = performance.now()
        resolve()
      })
    })
  }
}
