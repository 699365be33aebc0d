// Reads the parts of a stored index that a ranking asks for.
import type { Db } from '../../platform/db/db.ts'
import type { IndexKey } from '../indexes/document-types.ts'
import type { PublishedSegment, StoredPassages } from '../indexes/segment.ts'
import { findEncodedDeletedRuns, findPages, findPublished, findStoredPassages } from '../indexes/segment-store.ts'
import { findMatches, type MatchRow } from './match-store.ts'
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
  /** Returns the published passages with these ids, by id. */
  passages(ids: readonly number[]): Promise<ReadonlyMap<number, MatchRow>>
}

/** A passage in a ranking. */
export type RankedRow = { row: MatchRow; score: number }

const NO_TERMS = new Uint8Array()

/**
 * Ranks the passages of an index and returns their rows, in the order of the ranking. `rank` ranks; it must read each
 * passage that it returns. An index without passages is not ranked.
 */
export async function rankInSnapshot(
  db: Db,
  index: IndexKey,
  rank: (index: StoredIndex) => Promise<readonly Ranked[]>,
): Promise<RankedRow[]> {
  // All statements read one snapshot. Otherwise a merge could run between two statements and delete pages that the
  // first statement returned.
  const snapshot = db.transaction().setAccessMode('read only').setIsolationLevel('repeatable read')
  return snapshot.execute(async (tx) => {
    const published = await findPublished(tx, index)
    if (published.length === 0) return []
    const rows = new Map<number, MatchRow>()
    const ranked = await rank({
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
      async passages(ids) {
        const found = await findMatches(tx, index, ids)
        for (const [id, row] of found) rows.set(id, row)
        return found
      },
    })
    return ranked.flatMap(({ id, score }) => {
      const row = rows.get(id)
      return row === undefined ? [] : [{ row, score }]
    })
  })
}
