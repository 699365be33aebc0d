import type { ExportedChain } from '../../../shared/evidence/export-root.ts'
import { ChainCounts, type ExportStatement } from '../../../shared/evidence/export-statement.ts'
import { EVIDENCE_PAGE } from '../../../shared/spec-limits.ts'
import { isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { listCheckpointsFrom } from './checkpoint-list.ts'
import { lossesOfTenant } from './losses.ts'
import type { StoredChain } from './store.ts'

/** The number of positions of a chain that one statement searches for expunged payloads. */
const POSITIONS_PER_READ = 20_000

/**
 * Returns the statement about an export of these chains. All counts come from the store, because the caller could state
 * wrong ones: the caller chooses the files of the export.
 */
export async function stateExport(
  db: Db,
  tenantId: string,
  { stored, exported, manifest, now }: Exported,
): Promise<ExportStatement> {
  const sizes = new Map(exported.map(({ chain, size }) => [chain, size]))
  const chains: ExportStatement['chains'] = []
  for (const { chain, size: entries } of stored.toSorted((a, b) => (a.chain < b.chain ? -1 : 1))) {
    const size = sizes.get(chain) ?? 0
    const counts = new ChainCounts()
    await countExpunged(db, { tenantId, chain, size }, counts)
    await countCheckpoints(db, { tenantId, chain, size }, counts)
    chains.push({ chain, entries, size, ...counts.end() })
  }
  const losses = (await lossesOfTenant(db, tenantId)).map(({ chain, cause, found_at, acknowledged_at, successor }) => ({
    chain,
    cause,
    found_at,
    acknowledged_at,
    successor,
  }))
  return {
    version: 1,
    signed_at: isoTime(now),
    tenant_id: tenantId,
    manifest_sha256: manifest,
    chains,
    ...(losses.length > 0 && { losses }),
  }
}

type Exported = {
  /** All chains of the tenant. */
  stored: readonly Pick<StoredChain, 'chain' | 'size'>[]
  exported: readonly ExportedChain[]
  /** The SHA-256 of the manifest. */
  manifest: string
  now: number
}
type Part = { tenantId: string; chain: string; size: number }

async function countExpunged(db: Db, { tenantId, chain, size }: Part, counts: ChainCounts): Promise<void> {
  for (let from = 0; from < size; from += POSITIONS_PER_READ) {
    const rows = await db
      .selectFrom('evidence_entries')
      .select('seq')
      .where('tenant_id', '=', tenantId)
      .where('chain', '=', chain)
      .where('seq', '>=', from)
      .where('seq', '<', Math.min(from + POSITIONS_PER_READ, size))
      .where('payload', 'is', null)
      .orderBy('seq')
      .execute()
    for (const { seq } of rows) counts.addExpunged(seq)
  }
}

/**
 * Counts the checkpoints of fewer than `size` entries. A checkpoint of exactly `size` entries is left out, because a
 * daemon may create it after the export has listed the checkpoints. The signature covers that root anyway.
 */
async function countCheckpoints(db: Db, { tenantId, chain, size }: Part, counts: ChainCounts): Promise<void> {
  for (let from = 0; ; ) {
    const page = await listCheckpointsFrom(db, tenantId, chain, { from, limit: EVIDENCE_PAGE })
    for (const { tree_size, root } of page) {
      if (tree_size >= size) return
      counts.addCheckpoint(tree_size, Buffer.from(root, 'hex').toString('base64'))
    }
    const last = page.at(-1)
    if (last === undefined || page.length < EVIDENCE_PAGE) return
    from = last.tree_size
  }
}
