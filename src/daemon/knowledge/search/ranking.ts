import { indexTermsOf } from '../../platform/text/terms.ts'
import { joinedWords, withoutStopWords } from '../../platform/text/words.ts'
import type { Postings } from '../indexes/postings.ts'
import { deletedOrdinals, type Run, type SegmentPassages } from '../indexes/segment.ts'
import type { Query, QueryTerm } from './query.ts'

// BM25 with its usual parameters (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009). The other
// weights were tuned on the development collections: docs/decisions/0007 shows the effect of each step on each
// collection.
const K1 = 1.2
const B = 0.75
/** The share of the matches in neighbouring passages that is added to a passage's own matches. */
const NEIGHBOUR_SHARE = 0.3
/** The weight of two query words near each other, relative to a single word of the same rarity. */
const PAIR_WEIGHT = 0.3
/** The maximum distance of two words that count as near. */
const PAIR_DISTANCE = 8
/** The weight of a stop word, relative to another word of the same rarity. */
const FILLER_WEIGHT = 0.25
/** The weight of two near words, relative to two adjacent words. */
const NEAR_SHARE = 0.5

/** The weight of the words in the best heading of a passage, relative to words in the passage. */
const HEADINGS_WEIGHT = 0.3
/** The factor for a heading above the passage's own heading, such as the title of the document. */
const ABOVE_SHARE = 0.5
/** The factor for a passage that is not the first passage of its section. */
const FURTHER_DOWN_SHARE = 0.5

/** The postings of each query term: `found[term][segment]`. */
export type Found = readonly (readonly (Postings | undefined)[])[]

/** A passage that matches the query, with its score, 0 to 1. */
export type Candidate = { id: number; score: number; segment: number; ordinal: number }

/**
 * Which query words a passage contains: the positions of each query word, and the total number of words in the passage.
 */
export type PassageText = { positions: ReadonlyMap<string, readonly number[]>; length: number }
export type Filler = { term: string; idf: number }

type Weighed = QueryTerm & { idf: number; postings: readonly (Postings | undefined)[] }

/**
 * Ranks one query over the segments of an index. The ranking is deterministic: the same passages get the same scores on
 * every database engine.
 */
export class Ranking {
  readonly #segments: readonly SegmentPassages[]
  readonly #deleted: readonly (Uint8Array | undefined)[]
  readonly #terms: Weighed[]
  readonly #pairs: { pair: readonly [string, string]; idf: number }[]
  readonly #asked: ReadonlySet<string>
  readonly #fillers: readonly string[]
  readonly #readFor: readonly string[]
  readonly #usualLength: number
  /** The score that a perfect match would get. */
  readonly #whole: number

  /** @param deleted the deleted passages that are still in the segments, ascending */
  constructor(query: Query, found: Found, segments: readonly SegmentPassages[], deleted: readonly Run[]) {
    this.#segments = segments
    this.#deleted = segments.map((segment) => deletedOrdinals(segment, deleted))
    let passages = 0
    let termCount = 0
    for (const [at, { lengths }] of segments.entries()) {
      const mask = this.#deleted[at]
      for (let ordinal = 0; ordinal < lengths.length; ordinal++) {
        if (mask?.[ordinal]) continue
        passages++
        termCount += lengths[ordinal] as number
      }
    }
    this.#usualLength = Math.max(termCount / Math.max(passages, 1), 1)
    const idfs = new Map<string, number>()
    this.#terms = query.terms.flatMap((term, at) => {
      const postings = found[at] ?? []
      const count = this.#count(postings)
      const idf = rarity(count, passages)
      if (count > 0) idfs.set(term.term, idf)
      return count > 0 || term.required ? { ...term, idf, postings } : []
    })
    this.#pairs = query.pairs.flatMap(([one, other]) => {
      const idf = ((idfs.get(one) ?? Number.NaN) + (idfs.get(other) ?? Number.NaN)) / 2
      return Number.isNaN(idf) ? [] : { pair: [one, other] as const, idf }
    })
    this.#asked = new Set(query.terms.map(({ term }) => term))
    this.#fillers = query.fillers
    this.#readFor = [...this.#pairs.flatMap(({ pair }) => pair), ...query.fillers]
    const ofTerms = this.#terms.reduce((sum, { weight, idf }) => sum + weight * idf, 0)
    this.#whole = ofTerms + PAIR_WEIGHT * this.#pairs.reduce((sum, { idf }) => sum + idf, 0)
  }

  /** Returns the `limit` best passages, best first. Neighbours are not considered. */
  best(limit: number): Candidate[] {
    const best: Candidate[] = []
    let least = 0
    const cut = () => {
      best.sort(byScore)
      best.length = Math.min(best.length, limit)
      if (best.length === limit) least = best.at(-1)?.score ?? 0
    }
    for (const [segment, { ids, lengths }] of this.#segments.entries()) {
      const scores = this.#scores(segment)
      const mask = this.#deleted[segment]
      for (let ordinal = 0; ordinal < lengths.length; ordinal++) {
        const score = (scores[ordinal] as number) / this.#whole
        if (score <= 0 || score < least || mask?.[ordinal]) continue
        best.push({ id: ids[ordinal] as number, score, segment, ordinal })
        // Sort only when the list has twice the limit, because sorting after each insertion costs more.
        if (best.length >= limit * 2) cut()
      }
    }
    cut()
    return best
  }

  /**
   * Returns the score of a passage, including a share of its neighbours' matches and lengths. Neighbours are adjacent
   * passages of the same document. `document` is the range of the document's passage ids.
   */
  withNeighbours({ id, segment, ordinal }: Candidate, document: Run): number {
    const { ids, lengths } = this.#segments[segment] as SegmentPassages
    const isNeighbour = (offset: number) =>
      id + offset >= document.first &&
      id + offset < document.first + document.count &&
      ids[ordinal + offset] === id + offset
    const neighbours = [-1, 1].filter(isNeighbour).map((offset) => ordinal + offset)
    let length = lengths[ordinal] as number
    for (const neighbour of neighbours) length += NEIGHBOUR_SHARE * (lengths[neighbour] as number)
    let score = 0
    for (const { weight, idf, postings } of this.#terms) {
      const ofSegment = postings[segment]
      if (ofSegment === undefined) continue
      let frequency = frequencyIn(ofSegment, ordinal)
      for (const neighbour of neighbours) frequency += NEIGHBOUR_SHARE * frequencyIn(ofSegment, neighbour)
      if (frequency > 0) score += weight * idf * this.#saturation(frequency, length)
    }
    return score / this.#whole
  }

  /** Finds the positions of all words that `ofText` needs in a passage. */
  read(body: string): PassageText {
    const positions = new Map<string, number[]>(this.#readFor.map((term) => [term, []]))
    const indexTerms = indexTermsOf(body)
    for (const [position, { term }] of indexTerms.entries()) positions.get(term)?.push(position)
    return { positions, length: indexTerms.length }
  }

  /** Weights the query's fillers (stop words) by how rare they are among the best passages. */
  weighFillers(best: readonly PassageText[]): Filler[] {
    return this.#fillers.map((term) => {
      const count = best.reduce((sum, { positions }) => sum + (positions.get(term)?.length ? 1 : 0), 0)
      return { term, idf: rarity(count, best.length) }
    })
  }

  /**
   * Returns the score bonus of a passage. The bonus depends on words that are adjacent in both the query and the
   * passage, and on the query's stop words ("categories for", "not at all").
   */
  ofText({ positions, length }: PassageText, fillers: readonly Filler[]): number {
    const positionsOf = (term: string) => positions.get(term) ?? []
    let score = 0
    for (const { pair, idf } of this.#pairs) {
      const count = nearness(positionsOf(pair[0]), positionsOf(pair[1]))
      if (count > 0) score += PAIR_WEIGHT * idf * this.#saturation(count, length)
    }
    for (const { term, idf } of fillers) {
      const count = positionsOf(term).length
      if (count > 0) score += FILLER_WEIGHT * idf * this.#saturation(count, length)
    }
    return score / this.#whole
  }

  /**
   * Returns the score bonus of a passage whose headings name the topic of the query. The passage's own heading is the
   * last heading and counts in full. Higher headings count less. A heading that also names other things counts less. A
   * passage that is not the first in its section (`leads` is false) counts less, too.
   */
  ofHeadings(headings: readonly string[], leads: boolean): number {
    const scores = headings.map((heading, at) => this.#ofHeading(heading, at === headings.length - 1 ? 1 : ABOVE_SHARE))
    return (HEADINGS_WEIGHT * Math.max(0, ...scores) * (leads ? 1 : FURTHER_DOWN_SHARE)) / this.#whole
  }

  #ofHeading(heading: string, share: number): number {
    const words = indexTermsOf(withoutStopWords(heading))
    // "Back up" in a heading matches "backup" in a query.
    const joined = indexTermsOf([...joinedWords(heading).keys()].join(' '))
    const named = new Set(
      [...words, ...joined].flatMap(({ term, further }) => [term, ...further.map(({ term }) => term)]),
    )
    let score = 0
    for (const { term, weight, idf } of this.#terms) if (named.has(term)) score += weight * idf
    const asked = [...words, ...joined].filter(({ term }) => this.#asked.has(term)).length
    return (score * share * (1 + Math.min(1, asked / Math.max(words.length, 1)))) / 2
  }

  #saturation(frequency: number, length: number): number {
    return frequency / (frequency + K1 * (1 - B + (B * length) / this.#usualLength))
  }

  #count(postings: readonly (Postings | undefined)[]): number {
    let count = 0
    for (const [segment, ofSegment] of postings.entries()) {
      if (ofSegment === undefined) continue
      const mask = this.#deleted[segment]
      if (mask === undefined) count += ofSegment.length / 2
      else for (let at = 0; at < ofSegment.length; at += 2) if (!mask[ofSegment[at] as number]) count++
    }
    return count
  }

  #scores(segment: number): Float64Array {
    const { lengths } = this.#segments[segment] as SegmentPassages
    const scores = new Float64Array(lengths.length)
    for (const { weight, idf, postings } of this.#terms) {
      const ofSegment = postings[segment]
      if (ofSegment === undefined) continue
      const most = weight * idf
      for (let at = 0; at < ofSegment.length; at += 2) {
        const ordinal = ofSegment[at] as number
        const score = most * this.#saturation(ofSegment[at + 1] as number, lengths[ordinal] as number)
        scores[ordinal] = (scores[ordinal] as number) + score
      }
    }
    return scores
  }
}

/** Returns the weight of a word. The fewer passages contain the word, the higher its weight. */
const rarity = (count: number, passages: number): number => Math.log(1 + (passages - count + 0.5) / (count + 0.5))

const byScore = (one: Candidate, other: Candidate): number => other.score - one.score || one.id - other.id

/** Returns how often the two words of a pair occur near each other. Closer pairs count more. */
function nearness(positions: readonly number[], others: readonly number[]): number {
  let count = 0
  let from = 0
  for (const position of positions) {
    while (from < others.length && (others[from] as number) < position - PAIR_DISTANCE) from++
    for (let at = from; at < others.length; at++) {
      const distance = Math.abs((others[at] as number) - position)
      if ((others[at] as number) > position + PAIR_DISTANCE) break
      count += distance === 1 ? 1 : NEAR_SHARE / Math.sqrt(distance)
    }
  }
  return count
}

/**
 * Returns the frequency of the term in the passage with this ordinal. Uses a binary search, because postings are
 * sorted.
 */
function frequencyIn(postings: Postings, ordinal: number): number {
  let low = 0
  let high = postings.length / 2
  while (low < high) {
    const middle = (low + high) >> 1
    if ((postings[middle * 2] as number) < ordinal) low = middle + 1
    else high = middle
  }
  return postings[low * 2] === ordinal ? (postings[low * 2 + 1] as number) : 0
}
