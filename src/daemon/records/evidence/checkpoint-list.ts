import type { ShownCheckpoint } from '../../../shared/wire/evidence.ts'
import type { Db } from '../../platform/db/db.ts'
import type { EvidenceCheckpointRow } from '../../platform/db/tables.ts'

/** Returns the checkpoints of a chain that cover more than `from` entries, in ascending order of size. */
export const listCheckpointsFrom = (
  db: Db,
  tenantId: string,
  chain: string,
  { from, limit }: { from: number; limit: number },
): Promise<EvidenceCheckpointRow[]> =>
  db
    .selectFrom('evidence_checkpoints')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .where('tree_size', '>', from)
    .orderBy('tree_size')
    .limit(limit)
    .execute()

/**
 * Returns a checkpoint in the format of the responses. The tenant is omitted, because callers get only checkpoints of
 * their own tenant.
 */
export const toShownCheckpoint = ({
  chain,
  tree_size,
  root,
  kid,
  note,
  created_at,
}: Omit<EvidenceCheckpointRow, 'tenant_id'>): ShownCheckpoint => ({ chain, tree_size, root, kid, note, created_at })
