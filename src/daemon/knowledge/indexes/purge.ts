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
  /**
   * The time (milliseconds since 1970) since which no other daemon has written to this store and directory. Undefined
   * if other daemons might write to them.
   */
  aloneSince?: number | undefined
}

/**
 * Removes data that requests can no longer read: deleted indexes, and replaced or deleted documents. Also removes the
 * uploads, trainings and merges that a killed daemon left behind. Safe to interrupt.
 */
export async function purgeKnowledge({ db, clock, uploadsDir, aloneSince = 0 }: PurgeDeps): Promise<void> {
  await purgeDeletedIndexes(db)
  // Writing a document takes at most UPLOAD_TIMEOUT_MS. An upload and its training together take less than twice as
  // long.
  const before = (ms: number) => Math.max(clock.now() - ms, aloneSince)
  const written = isoTime(before(UPLOAD_TIMEOUT_MS))
  for (const tenantId of await findTenantsWithDrafts(db, written)) await removeAbandoned(db, tenantId, written)
  await removeUploads(uploadsDir, before(2 * UPLOAD_TIMEOUT_MS))
}
