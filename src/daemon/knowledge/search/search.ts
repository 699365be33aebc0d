import type { Db } from '../../platform/db/db.ts'
import type { MayCall } from '../../safety/policies/policies.ts'
import type { IndexKey } from '../indexes/document-types.ts'
import { decodeRuns } from '../indexes/segment.ts'
import { createSegmentCache, type SegmentCache } from '../indexes/segment-cache.ts'
import { decodeMatches } from './match-row.ts'
import { findMatches } from './match-store.ts'
import { type Query, queryOf } from './query.ts'
import { type Ranked, rankIndex } from './rank.ts'
import { rankInSnapshot } from './stored-index.ts'

/** A passage that matches the query, with its location. See `searchPassages` for `score`. */
export type Match = {
  score: number
  passageId: number
  documentId: string
  source: string
  title: string
  position: number
  headings: string
  body: string
  /** The page on which the passage begins. The page is null in documents without pages. */
  page: number | null
}

/** The data that a search may send to external models, and the signal that cancels it. */
export type SearchOptions = {
  /** Whether a model is allowed to read this query and these passages. By default, any model is allowed. */
  mayCall?: MayCall | undefined
  /** Called for each model that the search skips because of `mayCall`. */
  onForbidden?: ((modelId: string) => void) | undefined
  /** The redacted query for external models. By default, external models read the query itself. */
  outsideQuery?: string | undefined
  /** True if external models must not receive the passages unchanged. If true, the reranker is not used. */
  keepsPassages?: boolean | undefined
  /** Aborted if the result is no longer needed. */
  signal?: AbortSignal | undefined
}

/**
 * Returns the best passages of an index for a query, best first. The meaning of the scores depends on the
 * configuration.
 */
export type Search = (index: IndexKey, query: string, limit: number, options?: SearchOptions) => Promise<Match[]>

/**
 * Returns the best passages of one index for the query, best first. Any text is a valid query. There are no operators:
 * everything except words is ignored, so a query without words finds nothing.
 *
 * `score` is the share of the query's weight that the passage matches, 0 to 1. The fewer passages of the index contain
 * a word, the higher its weight. A word counts in full only if a passage repeats it and contains few other words
 * (BM25's saturation). Words in headings count double. Adjacent query words and matches in the neighbouring passages
 * increase the score; the query's stop words increase it slightly. A passage of typical length that contains every
 * query word once has a score near 0.45. Scores are comparable between queries and between both database engines.
 *
 * Ranks on the calling thread. A daemon ranks on a thread of its own (ranker.ts), with the same results.
 */
export async function searchPassages(
  db: Db,
  tenantId: string,
  indexId: string,
  query: string,
  limit: number,
): Promise<Match[]> {
  return rankPassages(db, { tenantId, indexId }, queryOf(query), limit)
}

/** Same as `searchPassages`, for a parsed query. Without `neighbours`, the neighbouring passages are not considered. */
export async function rankPassages(
  db: Db,
  index: IndexKey,
  query: Query,
  limit: number,
  { cache = createSegmentCache(), ...options }: { neighbours?: boolean; cache?: SegmentCache } = {},
): Promise<Match[]> {
  const ranked = await rankInSnapshot(db, index, (stored) => {
    const reader = cache({ published: stored.published, passages: stored.segments, pages: stored.pages })
    const passages = async (ids: readonly number[]) => decodeMatches(await stored.passages(ids))
    return rankIndex({ ...reader, deleted: decodeRuns(stored.deleted), passages }, query, limit, options)
  })
  return ranked.map(toMatch)
}

/** Returns the published passages with these ids, without a score, in any order. */
export async function toMatches(db: Db, index: IndexKey, ids: readonly number[]): Promise<Match[]> {
  const rows = await findMatches(db, index, ids)
  return [...rows.values()].map((row) => toMatch({ row, score: 0 }))
}

export const toMatch = ({ row, score }: Ranked): Match => ({
  score,
  passageId: row.id,
  documentId: row.documentId,
  source: row.source,
  title: row.title,
  position: row.position,
  headings: row.headings,
  body: row.body,
  page: row.page,
})
