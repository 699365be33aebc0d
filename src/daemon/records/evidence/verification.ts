import { ChainCheck, type ChainReport } from '../../../shared/evidence/chain-check.ts'
import type { CommitRow } from '../../../shared/evidence/commit.ts'
import type { PublishedKey } from '../../../shared/evidence/keys.ts'
import { type Checkpoint, NoteError } from '../../../shared/evidence/note.ts'
import type { Db } from '../../platform/db/db.ts'
import { createPacer } from '../../platform/pacing.ts'
import { findHead } from './chains.ts'
import { signedCheckpoint } from './signed-checkpoint.ts'
import { findCommits, measureChains, readChain } from './store.ts'

/** The result of verifying one chain. */
export type CheckedChain = ChainReport & { chain: string }

/** The maximum number of rows in memory at a time. */
const ROWS = 500

/**
 * Verifies every chain of a tenant: each link, each commit with its signature, each checkpoint. Entries that are
 * appended after the start are not read. Memory use does not depend on the size of the chains, except for the root of
 * each checkpoint.
 * @param keys the published keys
 * @param newerKeys reads the published keys again. Called if a signature names an unknown key, because that key may be
 * new.
 */
export async function verifyTenant(
  db: Db,
  tenantId: string,
  keys: readonly PublishedKey[],
  newerKeys?: () => Promise<readonly PublishedKey[]>,
): Promise<CheckedChain[]> {
  const ring = createKeyRing(keys, newerKeys)
  const checked: CheckedChain[] = []
  for (const { chain } of await measureChains(db, tenantId)) {
    checked.push({ chain, ...(await verifyChain(db, { tenantId, chain, ring })) })
  }
  return checked
}

type KeyRing = {
  /** The contents change when newer keys are read. */
  keys: readonly PublishedKey[]
  /** Reads the published keys again if one of these key ids is unknown. */
  require(kids: readonly string[]): Promise<void>
}

function createKeyRing(
  given: readonly PublishedKey[],
  newerKeys: (() => Promise<readonly PublishedKey[]>) | undefined,
): KeyRing {
  const keys = [...given]
  const has = (kid: string) => keys.some((key) => key.kid === kid)
  return {
    keys,
    async require(kids) {
      if (!newerKeys || kids.every(has)) return
      // Known keys are replaced too, because they may have been retired in the meantime.
      const newer = await newerKeys()
      const others = keys.filter(({ kid }) => !newer.some((key) => key.kid === kid))
      keys.splice(0, keys.length, ...newer, ...others)
    },
  }
}

type ChainScope = { tenantId: string; chain: string; ring: KeyRing }

async function verifyChain(db: Db, { tenantId, chain, ring }: ChainScope): Promise<ChainReport> {
  // Read the checkpoints before the size. Otherwise a checkpoint that is created between the two reads could cover
  // entries that are not read.
  const { checkpoints, broken } = await readCheckpoints(db, { tenantId, chain, ring })
  const { size } = await findHead(db, tenantId, chain)
  const check = new ChainCheck(tenantId, chain, { checkpoints, keys: ring.keys })
  const { turn: rest } = createPacer()
  let commit: CommitRow | undefined
  for (let from = 0; from < size; from += ROWS) {
    const rows = await readChain(db, tenantId, chain, { from, limit: Math.min(ROWS, size - from) })
    const missing = new Set(rows.map(({ commit_id }) => commit_id).filter((id) => id !== commit?.id))
    const commits = new Map((await findCommits(db, [...missing])).map((found) => [found.id, found]))
    await ring.require([...commits.values()].map(({ kid }) => kid))
    for (const row of rows) {
      if (row.commit_id !== commit?.id) commit = commits.get(row.commit_id)
      await check.add(row, commit)
      await rest()
    }
  }
  const report = await check.finish()
  const firstBad = report.firstBad ?? broken
  return firstBad ? { ...report, ok: false, firstBad } : report
}

/** Returns the checkpoints with a valid signature, and the first checkpoint with an invalid signature. */
async function readCheckpoints(
  db: Db,
  { tenantId, chain, ring }: ChainScope,
): Promise<{ checkpoints: Checkpoint[]; broken: ChainReport['firstBad'] }> {
  const checkpoints: Checkpoint[] = []
  const { turn: rest } = createPacer()
  let broken: ChainReport['firstBad']
  let from = 0
  for (;;) {
    const rows = await db
      .selectFrom('evidence_checkpoints')
      .selectAll()
      .where('tenant_id', '=', tenantId)
      .where('chain', '=', chain)
      .where('tree_size', '>', from)
      .orderBy('tree_size')
      .limit(ROWS)
      .execute()
    await ring.require(rows.map(({ kid }) => kid))
    for (const row of rows) {
      const { tree_size } = row
      from = tree_size
      try {
        checkpoints.push(signedCheckpoint(row, ring.keys))
      } catch (error) {
        if (!(error instanceof NoteError)) throw error
        broken ??= { seq: tree_size, problem: `the checkpoint of ${tree_size} entries is invalid: ${error.message}` }
      }
      await rest()
    }
    if (rows.length < ROWS) return { checkpoints, broken }
  }
}
