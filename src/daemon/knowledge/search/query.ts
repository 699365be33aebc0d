import { type Further, type IndexTerm, indexTermsOf, isUnspaced } from '../../platform/text/terms.ts'
import { characterBorder, joinedWords, topicOf } from '../../platform/text/words.ts'

/** The maximum length of a search query in characters. The rest is ignored. */
export const QUERY_CHARS = 4_000

/**
 * A search term. A `required` term lowers all scores if no passage of the index contains it. Any other term that no
 * passage contains is ignored.
 */
export type QueryTerm = { term: string; weight: number; required: boolean }
/**
 * `pairs` lists words that are adjacent in the query after its stop words are removed. `fillers` lists the removed stop
 * words. A passage whose only words in common with the query are stop words does not match.
 */
export type Query = { terms: QueryTerm[]; pairs: (readonly [string, string])[]; fillers: string[] }

/** Maximum number of words. More words would make a query slower, but would hardly improve its results. */
const QUERY_WORDS = 64
const JOINED_WORDS = 16

/**
 * If a query word has diacritics, its form without them gets this weight. The weight is low, because users type
 * diacritics on purpose. The weight is not 0, because many texts omit diacritics.
 */
const FOLDED_WEIGHT = 0.3
const FURTHER_WEIGHT: Readonly<Record<Further['kind'], number>> = { exact: 0.7, prefix: 0.5, part: 1 }

/**
 * Returns the terms of a query. Any text is valid: its first QUERY_CHARS characters are read as words, never as
 * operators.
 */
export function queryOf(whole: string): Query {
  // The text is cut before normalization, because it may be long. It is cut again afterwards, because NFKC expands some
  // characters up to eighteenfold.
  const text = queryText(queryText(whole).normalize('NFKC'))
  const all = indexTermsOf(text)
  const contentWords = meaningful(text, all)
  const indexTerms = longest(contentWords)
  const terms = new Map<string, QueryTerm>()
  const counts = new Map<string, number>()
  for (const { term, further } of indexTerms) {
    const count = (counts.get(term) ?? 0) + 1
    counts.set(term, count)
    // If the query repeats a word, the word counts more, but not in proportion to its frequency.
    const weight = Math.sqrt(count)
    const isFolded = further.some(({ kind }) => kind === 'exact')
    add(terms, { term, weight: weight * (isFolded ? FOLDED_WEIGHT : 1), required: true })
    for (const { kind, term } of further) add(terms, { term, weight: weight * FURTHER_WEIGHT[kind], required: false })
  }
  // Also search for joined words: "backup" is a common alternative spelling of "back up".
  for (const joined of [...joinedWords(text).keys()].slice(0, JOINED_WORDS)) {
    for (const { term } of indexTermsOf(joined)) add(terms, { term, weight: 1, required: false })
  }
  return { terms: [...terms.values()], pairs: pairsOf(indexTerms), fillers: fillersOf(all, contentWords) }
}

/** Returns the part of a text that is searched for. */
export const queryText = (text: string): string => text.slice(0, characterBorder(text, QUERY_CHARS))

function add(terms: Map<string, QueryTerm>, added: QueryTerm): void {
  const { weight = 0, required = false } = terms.get(added.term) ?? {}
  terms.set(added.term, {
    term: added.term,
    weight: Math.max(weight, added.weight),
    required: required || added.required,
  })
}

/**
 * Returns the words without stop words and without the common verbs of questions. If no words would remain, returns all
 * words.
 */
function meaningful(text: string, all: IndexTerm[]): IndexTerm[] {
  const indexTerms = indexTermsOf(topicOf(text))
  return indexTerms.length > 0 ? indexTerms : all
}

function fillersOf(all: readonly IndexTerm[], contentWords: readonly IndexTerm[]): string[] {
  const kept = new Set(contentWords.map(({ term }) => term))
  const left = new Set(all.map(({ term }) => term).filter((term) => !kept.has(term)))
  return [...left].slice(0, QUERY_WORDS)
}

/** Reduces a long query to its longest words, because long words tend to be rare. Keeps their order. */
function longest(indexTerms: IndexTerm[]): IndexTerm[] {
  const words = [...new Set(indexTerms.map(({ term }) => term))]
  if (words.length <= QUERY_WORDS) return indexTerms
  const kept = new Set(words.sort((one, other) => other.length - one.length).slice(0, QUERY_WORDS))
  return indexTerms.filter(({ term }) => kept.has(term))
}

function pairsOf(indexTerms: readonly IndexTerm[]): (readonly [string, string])[] {
  const pairs = new Map<string, readonly [string, string]>()
  for (const [at, { term }] of indexTerms.entries()) {
    const next = indexTerms[at + 1]?.term
    // In scripts without spaces, tokens overlap and therefore already express adjacency.
    if (next === undefined || next === term || isUnspaced(term) || isUnspaced(next)) continue
    pairs.set(`${term} ${next}`, [term, next])
  }
  return [...pairs.values()].slice(0, QUERY_WORDS)
}
