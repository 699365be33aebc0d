import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Log } from '../../platform/log.ts'
import { prepareDocument } from '../ingest/prepared-document.ts'
import { replaceDocument } from '../ingest/replacement.ts'
import { findUnindexed, readPassages } from './document-store.ts'

/**
 * Indexes documents that an older daemon version stored without an inverted index. Each document is replaced by a copy
 * with the same passages. This work can be interrupted safely, and several daemons can run it simultaneously.
 */
export async function reindexDocuments(
  db: Db,
  { clock, log }: { clock: Clock; log: Pick<Log, 'info'> },
): Promise<void> {
  let documents = 0
  for (let next = await findUnindexed(db); next !== undefined; next = await findUnindexed(db)) {
    if (documents++ === 0) log.info({}, 'reindexing stored documents; the daemon listens when this is complete')
    const { index, document, documentId } = next
    const passages = await readPassages(db, { ...index, documentId }, { from: 0, limit: Number.MAX_SAFE_INTEGER })
    const { source, title, contentHash } = document
    const prepared = prepareDocument(title, source, passages)
    // Each draft gets the current time: a draft with an older time would be removed as a leftover of a crash.
    const stored = { source, contentHash, prepared, now: isoTime(clock.now()) }
    await replaceDocument(db, index, stored, {
      // This signal never fires: no client waits for this job, and if the daemon is stopped, the next start continues
      // it.
      signal: new AbortController().signal,
      inPublication: (publish) => db.transaction().execute(publish),
    })
  }
  if (documents > 0) log.info({ documents }, 'stored documents were reindexed')
}
