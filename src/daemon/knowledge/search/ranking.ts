import { unitsOf } from '../../platform/text/terms.ts'
import type { Postings } from '../indexes/postings.ts'
import { goneOrdinals, type Run, type SegmentPassages } from '../indexes/segment.ts'
import type { Query, QueryTerm } from './query.ts'

// BM25 as it is usually set (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009). The weights below it
// were chosen on the development collections: docs/decisions/0007 shows what each step does on every one of them.
const K1 = 1.2
const B = 0.75
/** How much of the passages before and behind a passage belongs to it. */
const NEIGHBOUR_SHARE = 0.3
/** What two words of the query that stand near each other are worth, beside a word of the same rarity. */
const PAIR_WEIGHT = 0.3
/** Words further apart have nothing to do with each other. */
const PAIR_DISTANCE = 8
/** What a word without meaning of its own is worth, beside a word of the same rarity. */
const FILLER_WEIGHT = 0.25
/** Two that are near count half as often as two side by side. */
const NEAR_SHARE = 0.5

/** What the index holds on each term of the query: `found[term][segment]`. */
export type Found = readonly (readonly (Postings | undefined)[])[]

/** A passage and its rank among those that a query finds; `score` 0 to 1. */
export type Candidate = { id: number; score: number; segment: number; ordinal: number }

/** The words of a passage that a query asks of: where each stands, and how many the passage has in all. */
export type PassageText = { places: ReadonlyMap<string, readonly number[]>; length: number }
export type Filler = { term: string; idf: number }

type Weighed = QueryTerm & { idf: number; postings: readonly (Postings | undefined)[] }

/** One query over the segments of an index. Pure: the same passages have the same scores on every engine. */
export class Ranking {
  readonly #segments: readonly SegmentPassages[]
  readonly #gone: readonly (Uint8Array | undefined)[]
  readonly #terms: Weighed[]
  readonly #pairs: { pair: readonly [string, string]; idf: number }[]
  readonly #fillers: readonly string[]
  readonly #readFor: readonly string[]
  readonly #usualLength: number
  /** What a passage about nothing but the query would have. */
  readonly #whole: number

  /** @param gone passages that are in the segments and in the index no longer, ascending */
  constructor(query: Query, found: Found, segments: readonly SegmentPassages[], gone: readonly Run[]) {
    this.#segments = segments
    this.#gone = segments.map((segment) => goneOrdinals(segment, gone))
    let passages = 0
    let units = 0
    for (const [at, { lengths }] of segments.entries()) {
      const mask = this.#gone[at]
      for (let ordinal = 0; ordinal < lengths.length; ordinal++) {
        if (mask?.[ordinal]) continue
        passages++
        units += lengths[ordinal] as number
      }
    }
    this.#usualLength = Math.max(units / Math.max(passages, 1), 1)
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
    this.#fillers = query.fillers
    this.#readFor = [...this.#pairs.flatMap(({ pair }) => pair), ...query.fillers]
    const ofTerms = this.#terms.reduce((sum, { weight, idf }) => sum + weight * idf, 0)
    this.#whole = ofTerms + PAIR_WEIGHT * this.#pairs.reduce((sum, { idf }) => sum + idf, 0)
  }

  /** The `limit` passages that fit best, best first, each by itself. */
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
      const mask = this.#gone[segment]
      for (let ordinal = 0; ordinal < lengths.length; ordinal++) {
        const score = (scores[ordinal] as number) / this.#whole
        if (score <= 0 || score < least || mask?.[ordinal]) continue
        best.push({ id: ids[ordinal] as number, score, segment, ordinal })
        // Keeping the list in order all the time would cost more than tidying it up when it is twice too long.
        if (best.length >= limit * 2) cut()
      }
    }
    cut()
    return best
  }

  /**
   * The score of a passage that has neighbours in its document: a little of what they say belongs to it, and so does a
   * little of their length. `document`: the ids of all passages of its document.
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

  /** Where a passage has the words of which `ofText` asks. */
  read(body: string): PassageText {
    const places = new Map<string, number[]>(this.#readFor.map((term) => [term, []]))
    const units = unitsOf(body)
    for (const [place, { term }] of units.entries()) places.get(term)?.push(place)
    return { places, length: units.length }
  }

  /** The fillers of the query with their rarity among the best passages, which is what tells these apart. */
  weighFillers(best: readonly PassageText[]): Filler[] {
    return this.#fillers.map((term) => {
      const count = best.reduce((sum, { places }) => sum + (places.get(term)?.length ? 1 : 0), 0)
      return { term, idf: rarity(count, best.length) }
    })
  }

  /**
   * What is to be added to the score of a passage because words of the query stand together in it as they do there, and
   * because it has its fillers too ("categories for", "not at all").
   */
  ofText({ places, length }: PassageText, fillers: readonly Filler[]): number {
    const placesOf = (term: string) => places.get(term) ?? []
    let score = 0
    for (const { pair, idf } of this.#pairs) {
      const count = nearness(placesOf(pair[0]), placesOf(pair[1]))
      if (count > 0) score += PAIR_WEIGHT * idf * this.#saturation(count, length)
    }
    for (const { term, idf } of fillers) {
      const count = placesOf(term).length
      if (count > 0) score += FILLER_WEIGHT * idf * this.#saturation(count, length)
    }
    return score / this.#whole
  }

  #saturation(frequency: number, length: number): number {
    return frequency / (frequency + K1 * (1 - B + (B * length) / this.#usualLength))
  }

  #count(postings: readonly (Postings | undefined)[]): number {
    let count = 0
    for (const [segment, ofSegment] of postings.entries()) {
      if (ofSegment === undefined) continue
      const mask = this.#gone[segment]
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

/** The rarer a word is among passages, the more it says. */
const rarity = (count: number, passages: number): number => Math.log(1 + (passages - count + 0.5) / (count + 0.5))

const byScore = (one: Candidate, other: Candidate): number => other.score - one.score || one.id - other.id

/** How often the words are near each other, the nearer the more. */
function nearness(places: readonly number[], others: readonly number[]): number {
  let count = 0
  let from = 0
  for (const place of places) {
    while (from < others.length && (others[from] as number) < place - PAIR_DISTANCE) from++
    for (let at = from; at < others.length; at++) {
      const distance = Math.abs((others[at] as number) - place)
      if ((others[at] as number) > place + PAIR_DISTANCE) break
      count += distance === 1 ? 1 : NEAR_SHARE / Math.sqrt(distance)
    }
  }
  return count
}

/** How often the term is in the passage with this ordinal: a binary search, because postings are in order. */
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
