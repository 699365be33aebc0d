import { sql } from 'kysely'
import { withSignatures } from '../../../shared/evidence/note.ts'
import type { Db } from '../../platform/db/db.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import type { EvidenceCheckpointRow, EvidenceCosignatureRow } from '../../platform/db/tables.ts'
import { findCheckpoint, findCheckpointOver } from './store.ts'

/** Stores a cosignature. A witness may cosign the same checkpoint again: the newest cosignature is kept. */
export async function storeCosignature(db: Db, row: EvidenceCosignatureRow): Promise<void> {
  await insertRows(db, 'evidence_cosignatures', [row], {
    onConflict: { replace: ['tenant_id', 'chain', 'witness', 'tree_size'] },
  })
}

/** Returns the size of the largest checkpoint of a chain that the witness has cosigned, or 0. */
export async function lastCosigned(db: Db, tenantId: string, chain: string, witness: string): Promise<number> {
  const { size } = await db
    .selectFrom('evidence_cosignatures')
    .select(sql<number | null>`max(tree_size)`.as('size'))
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .where('witness', '=', witness)
    .executeTakeFirstOrThrow()
  return size ?? 0
}

/**
 * Returns checkpoints of one tenant whose notes also have the cosignatures, in the order of the witnesses' names.
 */
export async function withCosignatures(
  db: Db,
  tenantId: string,
  checkpoints: readonly EvidenceCheckpointRow[],
): Promise<EvidenceCheckpointRow[]> {
  if (checkpoints.length === 0) return []
  const rows = await db
    .selectFrom('evidence_cosignatures')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('chain', 'in', [...new Set(checkpoints.map(({ chain }) => chain))])
    .where('tree_size', 'in', [...new Set(checkpoints.map(({ tree_size }) => tree_size))])
    .orderBy('witness')
    .execute()
  return checkpoints.map((checkpoint) => {
    const own = rows.filter(({ chain, tree_size }) => chain === checkpoint.chain && tree_size === checkpoint.tree_size)
    return { ...checkpoint, note: cosignedNote(checkpoint.note, own) }
  })
}

/** The lines of the log come first: a checkpoint that was signed again after a rotation has two. */
const cosignedNote = (note: string, rows: readonly EvidenceCosignatureRow[]): string =>
  withSignatures(note, [...rows.map(({ log_line }) => log_line), ...rows.map(({ line }) => line)])

/**
 * Returns the checkpoint that proves an entry best: of those that cover the entry, the first with the most
 * cosignatures. Returns undefined if no checkpoint covers the entry.
 */
export async function findCosignedOver(
  db: Db,
  tenantId: string,
  chain: string,
  seq: number,
): Promise<EvidenceCheckpointRow | undefined> {
  const best = await db
    .selectFrom('evidence_cosignatures')
    .select('tree_size')
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .where('tree_size', '>', seq)
    .groupBy('tree_size')
    .orderBy(sql`count(*)`, 'desc')
    .orderBy('tree_size')
    .limit(1)
    .executeTakeFirst()
  const checkpoint = best
    ? await findCheckpoint(db, tenantId, chain, best.tree_size)
    : await findCheckpointOver(db, tenantId, chain, seq)
  return checkpoint && (await withCosignatures(db, tenantId, [checkpoint]))[0]
}
