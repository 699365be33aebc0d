import { logId } from '../../../shared/evidence/entry.ts'
import type { PublishedKey } from '../../../shared/evidence/keys.ts'
import { type Checkpoint, NoteError, verifyNote } from '../../../shared/evidence/note.ts'
import type { EvidenceCheckpointRow } from '../../platform/db/tables.ts'

/**
 * Returns the signed content of a stored checkpoint. The checkpoint's note must match the row and the chain, and must
 * be signed with the key that it names.
 * @throws NoteError
 */
export function signedCheckpoint(
  { tenant_id, chain, tree_size, root, kid, note }: EvidenceCheckpointRow,
  keys: readonly PublishedKey[],
): Checkpoint {
  const checkpoint = verifyNote(
    note,
    keys.filter((key) => key.kid === kid),
  )
  if (!checkpoint.origin.endsWith(`/logs/${logId(tenant_id, chain)}`))
    throw new NoteError('its note belongs to another log')
  const isOfRow = checkpoint.size === tree_size && checkpoint.root === Buffer.from(root, 'hex').toString('base64')
  if (!isOfRow) throw new NoteError('its note does not match its row')
  return checkpoint
}
