// Reads the parts of a stored index that a ranking asks for.
import type { Db } from '../../platform/db/db.ts'
import type { IndexKey } from '../indexes/document-types.ts'
import type { PublishedSegment, StoredPassages } from '../indexes/segment.ts'
import { findEncodedDeletedRuns, findPages, findPublished, findStoredPassages } from '../indexes/segment-store.ts'
import { findEncodedMatches } from './match-store.ts'
import type { Ranked } from './rank.ts'

/** An index as it is stored. The arrays that a function returns are in the order of its keys. */
export type StoredIndex = {
  published: readonly PublishedSegment[]
  /** The deleted passages that are still in segments. See `decodeRuns`. */
  deleted: string
  /** Returns the passages of these segments. */
  segments(ids: readonly string[]): Promise<(StoredPassages | undefined)[]>
  /** Returns the pages with these names. */
  pages(names: readonly string[]): Promise<Uint8Array[]>
  /** Returns the published passages with these ids. See `decodeMatches`. */
  passages(ids: readonly number[]): Promise<string>
}

const NO_TERMS = new Uint8Array()

/** Ranks the passages of an index. An index without segments is not ranked. */
export async function rankInSnapshot(
  db: Db,
  index: IndexKey,
  rank: (index: StoredIndex) => Promise<readonly Ranked[]>,
): Promise<readonly Ranked[]> {
  // All statements read one snapshot. Otherwise a merge could run between two statements and delete pages that the
  // first statement returned.
  const snapshot = db.transaction().setAccessMode('read only').setIsolationLevel('repeatable read')
  return snapshot.execute(async (tx) => {
    const published = await findPublished(tx, index)
    if (published.length === 0) return []
    return rank({
      published,
      deleted: await findEncodedDeletedRuns(tx, index),
      async segments(ids) {
        const found = await findStoredPassages(tx, index.tenantId, ids)
        return ids.map((id) => found.get(id))
      },
      async pages(names) {
        const found = await findPages(tx, index.tenantId, names)
        return names.map((name) => found.get(name) ?? NO_TERMS)
      },
      passages: (ids) => findEncodedMatches(tx, index, ids),
    })
  })
}
