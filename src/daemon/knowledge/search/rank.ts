// Ranks the passages of one index. This code runs on the ranking thread and does no I/O of its own (decision 0033).
import { findInPage, type Postings, pageName, pageOf } from '../indexes/postings.ts'
import type { Run, Segment } from '../indexes/segment.ts'
import type { SegmentReader } from '../indexes/segment-cache.ts'
import type { MatchRow } from './match-row.ts'
import type { Query } from './query.ts'
import { Ranking } from './ranking.ts'

/** What a ranking reads of an index. All reads of a ranking see one snapshot. */
export type IndexReader = SegmentReader & {
  /** The deleted passages that are still in segments, in ascending order. */
  deleted: readonly Run[]
  /** Returns the published passages with these ids, by id. */
  passages(ids: readonly number[]): Promise<ReadonlyMap<number, MatchRow>>
}

/** A passage in a ranking. `searchPassages` describes the score. */
export type Ranked = { row: MatchRow; score: number }

/** How many of the best passages are scored together with their neighbours. */
const CANDIDATES = 100
/** How many of the best passages are read to find adjacent words and stop words in their text. */
const PASSAGES_READ = 50

/**
 * Returns the best passages of an index, best first. Without `neighbours`, the neighbouring passages are not
 * considered.
 */
export async function rankIndex(
  index: IndexReader,
  query: Query,
  limit: number,
  { neighbours = true }: { neighbours?: boolean } = {},
): Promise<Ranked[]> {
  if (query.terms.length === 0) return []
  const ranking = await readRanking(index, query)
  const candidates = ranking.best(Math.max(limit, CANDIDATES))
  const rows = await index.passages(candidates.map(({ id }) => id))
  const ranked = candidates
    .flatMap((candidate): Ranked[] => {
      const row = rows.get(candidate.id)
      if (row === undefined) return []
      const document = { first: row.firstPassageId, count: row.passageCount }
      return [{ row, score: neighbours ? ranking.withNeighbours(candidate, document) : candidate.score }]
    })
    .sort(byScore)
  const read = ranked
    .slice(0, Math.max(limit, PASSAGES_READ))
    .map((match) => ({ match, text: ranking.read(match.row.body) }))
  const fillers = ranking.weighFillers(read.slice(0, PASSAGES_READ).map(({ text }) => text))
  for (const { match, text } of read) {
    const bonus = ranking.ofText(text, fillers) + ranking.ofHeadings(headingsOf(match.row), isLead(match.row, rows))
    match.score = Math.min(1, match.score + bonus)
  }
  return ranked.sort(byScore).slice(0, limit)
}

async function readRanking(index: IndexReader, query: Query): Promise<Ranking> {
  const segments = await index.segments()
  const found: (Postings | undefined)[][] = query.terms.map(() => [])
  const lookups = segments.flatMap((segment, at) => lookupsIn(segment, at, query))
  const pages = await index.pages(lookups.map(({ name }) => name))
  for (const { name, segment, terms } of lookups) {
    const page = pages.get(name)
    if (page === undefined) continue
    findInPage(page, terms, (term, postings) => {
      const ofTerm = found[term]
      if (ofTerm) ofTerm[segment] = postings
    })
  }
  return new Ranking(query, found, segments, index.deleted)
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

const byScore = (one: Ranked, other: Ranked): number => other.score - one.score || one.row.id - other.row.id
