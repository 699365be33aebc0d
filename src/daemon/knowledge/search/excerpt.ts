import { indexTermsOf } from '../../platform/text/terms.ts'
import { characterBorder } from '../../platform/text/words.ts'
import { queryOf } from './query.ts'

/**
 * Returns at most `chars` characters of a text, at the position where the query's words are closest together. Returns
 * the beginning of the text if the beginning matches equally well, or if no word matches. Never splits a character. The
 * excerpt begins with a whole word if a word starts near the position.
 */
export function excerptOf(text: string, query: string, chars: number): string {
  if (text.length <= chars) return text
  const start = wordStart(text, bestStart(hitsIn(text, query), text.length, chars))
  return text.slice(start, characterBorder(text, start + chars))
}

/** A match of a query word in the text, with its range and its weight. */
type Hit = { term: string; start: number; end: number; weight: number }

const RUN = /[\p{L}\p{N}\p{M}\u00ad\u200b-\u200d\u2060\ufeff]+/gu

function hitsIn(text: string, query: string): Hit[] {
  const weights = new Map(queryOf(query).terms.map(({ term, weight }) => [term, weight]))
  const hits: Hit[] = []
  for (const { 0: run, index } of text.matchAll(RUN)) {
    const indexTerms = indexTermsOf(run)
    // The position of each token is estimated: a run without spaces is divided evenly between its tokens.
    const termChars = run.length / Math.max(indexTerms.length, 1)
    for (const [at, { term, further }] of indexTerms.entries()) {
      const found = [term, ...further.map(({ term }) => term)].find((one) => weights.has(one))
      if (found === undefined) continue
      const start = index + Math.floor(at * termChars)
      hits.push({ term: found, start, end: start + Math.ceil(termChars), weight: weights.get(found) ?? 0 })
    }
  }
  return hits
}

/**
 * The share of a word's weight that each repetition of the word adds to a window. The share is so small that it only
 * decides between otherwise equal windows.
 */
const AGAIN_SHARE = 0.001

/**
 * Returns the position at which the best window starts: the window whose matches have the highest total weight. The
 * matches are centred in the window. If several windows have the same weight, the first is used.
 */
function bestStart(hits: readonly Hit[], length: number, chars: number): number {
  const counts = new Map<string, number>()
  const worth = ({ term, weight }: Hit) => ((counts.get(term) ?? 0) === 0 ? weight : weight * AGAIN_SHARE)
  let best = { value: 0, start: 0 }
  let value = 0
  let first = 0
  for (const [at, hit] of hits.entries()) {
    value += worth(hit)
    counts.set(hit.term, (counts.get(hit.term) ?? 0) + 1)
    for (let out = hits[first] as Hit; hit.end - out.start > chars && first < at; out = hits[++first] as Hit) {
      counts.set(out.term, (counts.get(out.term) ?? 1) - 1)
      value -= worth(out)
    }
    if (value <= best.value + ROUNDING) continue
    const from = (hits[first] as Hit).start
    const centred = Math.floor((from + hit.end - chars) / 2)
    best = { value, start: hit.end <= chars ? 0 : Math.min(Math.max(centred, 0), length - chars, from) }
  }
  return best.start
}

const ROUNDING = 1e-9

const WORD_CHARS = 30

/** Returns the position at which the next word starts, if that word is near. */
function wordStart(text: string, start: number): number {
  if (start === 0) return 0
  const space = text.slice(start - 1, start + WORD_CHARS).search(/\s\S/u)
  return space < 0 ? characterBorder(text, start) : start + space
}
