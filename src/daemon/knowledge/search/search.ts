import type { Db } from '../../platform/db/db.ts'
import type { MayCall } from '../../safety/policies/policies.ts'
import type { IndexKey } from '../indexes/document-types.ts'
import { findInPage, type Postings, pageOf } from '../indexes/postings.ts'
import { type SegmentReader, storedSegments } from '../indexes/segment-cache.ts'
import { findDeletedRuns, pageName, type Segment } from '../indexes/segment-store.ts'
import { findMatches, type MatchRow } from './match-store.ts'
import { type Query, queryOf } from './query.ts'
import { Ranking } from './ranking.ts'

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

/** The data that a search may send to external models. */
export type SearchOptions = {
  /** Whether a model is allowed to read this query and these passages. By default, any model is allowed. */
  mayCall?: MayCall | undefined
  /** The redacted query for external models. By default, external models read the query itself. */
  outsideQuery?: string | undefined
  /** True if external models must not receive the passages unchanged. If true, the reranker is not used. */
  keepsPassages?: boolean | undefined
}

/**
 * Returns the best passages of an index for a query, best first. The meaning of the scores depends on the
 * configuration.
 */
export type Search = (index: IndexKey, query: string, limit: number, options?: SearchOptions) => Promise<Match[]>

/** How many of the best passages are scored together with their neighbours. */
const CANDIDATES = 100
/** How many of the best passages are read to find adjacent words and stop words in their text. */
const PASSAGES_READ = 50

/**
 * Returns the best passages of one index for the query, best first. Any text is a valid query. There are no operators:
 * everything except words is ignored, so a query without words finds nothing.
 *
 * `score` is the share of the query's weight that the passage matches, 0 to 1. The fewer passages of the index contain
 * a word, the higher its weight. A word counts in full only if a passage repeats it and contains few other words
 * (BM25's saturation). Words in headings count double. Adjacent query words and matches in the neighbouring passages
 * increase the score; the query's stop words increase it slightly. A passage of typical length that contains every
 * query word once has a score near 0.45. Scores are comparable between queries and between both database engines.
 */
export async function searchPassages(
  db: Db,
  tenantId: string,
  indexId: string,
  query: string,
  limit: number,
  reader?: SegmentReader,
): Promise<Match[]> {
  return rankPassages(db, { tenantId, indexId }, queryOf(query), limit, { reader })
}

/** Same as `searchPassages`, for a parsed query. Without `neighbours`, the neighbouring passages are not considered. */
export async function rankPassages(
  db: Db,
  index: IndexKey,
  query: Query,
  limit: number,
  { neighbours = true, reader = storedSegments }: { neighbours?: boolean; reader?: SegmentReader | undefined } = {},
): Promise<Match[]> {
  if (query.terms.length === 0) return []
  // All statements read one snapshot. Otherwise a merge could run between two statements and delete pages that the
  // first statement returned.
  const snapshot = db.transaction().setAccessMode('read only').setIsolationLevel('repeatable read')
  const { ranking, candidates, rows } = await snapshot.execute(async (tx) => {
    const ranking = await readRanking(tx, index, query, reader)
    const candidates = ranking.best(Math.max(limit, CANDIDATES))
    const ids = candidates.map(({ id }) => id)
    return { ranking, candidates, rows: await findMatches(tx, index, ids) }
  })
  const matches = candidates
    .flatMap((candidate) => {
      const row = rows.get(candidate.id)
      if (row === undefined) return []
      const document = { first: row.firstPassageId, count: row.passageCount }
      return { row, score: neighbours ? ranking.withNeighbours(candidate, document) : candidate.score }
    })
    .sort(byScore)
  const read = matches
    .slice(0, Math.max(limit, PASSAGES_READ))
    .map((match) => ({ match, text: ranking.read(match.row.body) }))
  const fillers = ranking.weighFillers(read.slice(0, PASSAGES_READ).map(({ text }) => text))
  for (const { match, text } of read) {
    const bonus = ranking.ofText(text, fillers) + ranking.ofHeadings(headingsOf(match.row), isLead(match.row, rows))
    match.score = Math.min(1, match.score + bonus)
  }
  return matches.sort(byScore).slice(0, limit).map(toMatch)
}

/** Returns the published passages with these ids, without a score, in any order. */
export async function toMatches(db: Db, index: IndexKey, ids: readonly number[]): Promise<Match[]> {
  const rows = await findMatches(db, index, ids)
  return [...rows.values()].map((row) => toMatch({ row, score: 0 }))
}

async function readRanking(tx: Db, index: IndexKey, query: Query, reader: SegmentReader): Promise<Ranking> {
  const segments = await reader.segments(tx, index)
  const deleted = await findDeletedRuns(tx, index)
  const found: (Postings | undefined)[][] = query.terms.map(() => [])
  const lookups = segments.flatMap((segment, at) => lookupsIn(segment, at, query))
  const pages = await reader.pages(
    tx,
    index.tenantId,
    lookups.map(({ name }) => name),
  )
  for (const { name, segment, terms } of lookups) {
    const page = pages.get(name)
    if (page === undefined) continue
    findInPage(page, terms, (term, postings) => {
      const ofTerm = found[term]
      if (ofTerm) ofTerm[segment] = postings
    })
  }
  return new Ranking(query, found, segments, deleted)
}

type Lookup = { name: string; segment: number; terms: { id: number; name: Buffer }[] }

/** Returns the pages of a segment that could contain the query's terms. */
function lookupsIn({ id, pageCount }: Segment, segment: number, { terms }: Query): Lookup[] {
  const lookups = new Map<number, Lookup>()
  for (const [at, { term }] of terms.entries()) {
    const page = pageOf(term, pageCount)
    const lookup = lookups.get(page) ?? { name: pageName(id, page), segment, terms: [] }
    lookup.terms.push({ id: at, name: Buffer.from(term) })
    lookups.set(page, lookup)
  }
  return [...lookups.values()]
}

type Scored = { row: MatchRow; score: number }

/** Whether a passage is the first passage of its section, judged by the given rows. */
function isLead({ id, documentId, headings }: MatchRow, rows: ReadonlyMap<number, MatchRow>): boolean {
  const before = rows.get(id - 1)
  return before === undefined || before.documentId !== documentId || before.headings !== headings
}

/** Returns the headings above a passage, from the document's title to the passage's own heading. */
function headingsOf({ title, headings }: MatchRow): string[] {
  const path = headings === '' ? [] : headings.split(' > ')
  return title === '' || headings.includes(title) ? path : [title, ...path]
}

const byScore = (one: Scored, other: Scored): number => other.score - one.score || one.row.id - other.row.id

const toMatch = ({ row, score }: Scored): Match => ({
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
