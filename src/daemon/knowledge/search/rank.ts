// Ranks the passages of one index. This code runs on the ranking thread and does no I/O of its own (decision 0031).
import { findInPage, type Postings, pageName, pageOf } from '../indexes/postings.ts'
import type { Run, Segment } from '../indexes/segment.ts'
import type { SegmentReader } from '../indexes/segment-cache.ts'
import type { MatchRow } from './match-store.ts'
import type { Query } from './query.ts'
import { Ranking } from './ranking.ts'

/** The columns of a passage that its score depends on. */
export type ScoredPassage = Pick<
  MatchRow,
  'id' | 'documentId' | 'title' | 'headings' | 'body' | 'firstPassageId' | 'passageCount'
>

/** What a ranking reads of an index. All reads of a ranking see one snapshot. */
export type IndexReader = SegmentReader & {
  /** The deleted passages that are still in segments, in ascending order. */
  deleted: readonly Run[]
  /** Returns the published passages with these ids, by id. */
  passages(ids: readonly number[]): Promise<ReadonlyMap<number, ScoredPassage>>
}

/** The id of a passage with its score. `searchPassages` describes the score. */
export type Ranked = { id: number; score: number }

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
  const passages = await index.passages(candidates.map(({ id }) => id))
  const scored = candidates
    .flatMap((candidate) => {
      const passage = passages.get(candidate.id)
      if (passage === undefined) return []
      const document = { first: passage.firstPassageId, count: passage.passageCount }
      const score = neighbours ? ranking.withNeighbours(candidate, document) : candidate.score
      return { passage, id: passage.id, score }
    })
    .sort(byScore)
  const read = scored
    .slice(0, Math.max(limit, PASSAGES_READ))
    .map((one) => ({ one, text: ranking.read(one.passage.body) }))
  const fillers = ranking.weighFillers(read.slice(0, PASSAGES_READ).map(({ text }) => text))
  for (const { one, text } of read) {
    const { passage } = one
    const bonus = ranking.ofText(text, fillers) + ranking.ofHeadings(headingsOf(passage), isLead(passage, passages))
    one.score = Math.min(1, one.score + bonus)
  }
  return scored
    .sort(byScore)
    .slice(0, limit)
    .map(({ id, score }) => ({ id, score }))
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

/** Whether a passage is the first passage of its section, judged by the given passages. */
function isLead({ id, documentId, headings }: ScoredPassage, passages: ReadonlyMap<number, ScoredPassage>): boolean {
  const before = passages.get(id - 1)
  return before === undefined || before.documentId !== documentId || before.headings !== headings
}

/** Returns the headings above a passage, from the document's title to the passage's own heading. */
function headingsOf({ title, headings }: ScoredPassage): string[] {
  const path = headings === '' ? [] : headings.split(' > ')
  return title === '' || headings.includes(title) ? path : [title, ...path]
}

const byScore = (one: Ranked, other: Ranked): number => other.score - one.score || one.id - other.id
