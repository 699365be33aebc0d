import { UPLOAD_TIMEOUT_MS } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { removeAbandoned } from '../ingest/replacement.ts'
import { removeUploads } from '../ingest/upload-directory.ts'
import { findTenantsWithDrafts } from './document-store.ts'
import { purgeDeletedIndexes } from './index-removal.ts'

type PurgeDeps = {
  db: Db
  clock: Clock
  uploadsDir: string
  /** Nobody else writes to this store and directory, since then (milliseconds since 1970); undefined where others may. */
  aloneSince?: number | undefined
}

/**
 * Removes what nobody can read any more but is still there: what deleted indexes hold, and what a daemon that was killed has left
 * of uploads, trainings, merges and documents that were replaced or deleted. Safe to interrupt.
 */
export async function purgeKnowledge({ db, clock, uploadsDir, aloneSince = 0 }: PurgeDeps): Promise<void> {
  await purgeDeletedIndexes(db)
  // No document takes so long to be written, no upload and its training twice as long.
  const before = (ms: number) => Math.max(clock.now() - ms, aloneSince)
  const written = isoTime(before(UPLOAD_TIMEOUT_MS))
  for (const tenantId of await findTenantsWithDrafts(db, written)) await removeAbandoned(db, tenantId, written)
  await removeUploads(uploadsDir, before(2 * UPLOAD_TIMEOUT_MS))
}
