import { indexTermsOf, isUnspaced } from '../../../platform/text/terms.ts'
import { contentWords, joinedWords, wordsOf } from '../../../platform/text/words.ts'
import type { GroundingPassage } from '../../provider.ts'
import { type Statement, statementsOf } from './statements.ts'

/** The statements that are quoted from one passage, in its order. */
export type Quotation = { passage: GroundingPassage; statements: Statement[] }

const QUOTATIONS = 3
/** A statement that covers a smaller share of the question's weight than this, headings included, is not quoted. */
const ANSWER_SHARE = 0.42
/** A further statement is quoted if its score is this close to the best, */
const FURTHER_SHARE = 0.9
/** or if its score is near the best and it covers this much of the question that no other statement covers. */
const NEWS_SHARE = { score: 0.65, news: 0.2 }
/** The search term of a word: without accents and endings. Words of scripts without spaces stay as they are. */
const termOf = (word: string): string => (isUnspaced(word) ? word : (indexTermsOf(word)[0]?.term ?? word))

/** Verbs of questions that rarely occur in answers or do not distinguish them. */
const ASKING = new Set(['mean', 'happen', 'work', 'exist', 'explain', 'show', 'describe', 'support', 'use'].map(termOf))
/** Longer statements match more words by chance and read worse, so they score lower. */
const USUAL_CHARS = 200
/** The maximum length of a further statement. */
const FURTHER_CHARS = 400
/** A word in a heading says what the text is about, which counts less than a word in the statement. */
const HEADING_WEIGHT = 0.6
/** Only the first words of a longer question are used. More cost time and add no information. */
const QUESTION_WORDS = 64
const QUOTED_CHARS = 700

/**
 * The statements that answer the question best, best passage first; none when the passages have no answer. Words in
 * fewer statements weigh more, and statements of higher-ranked passages win ties.
 */
export function bestStatements(question: string, passages: readonly GroundingPassage[]): Quotation[] {
  const wanted = wantedWords(question)
  const parts = partsOfJoined(question)
  const candidates = withoutRepeats(passages.flatMap(statementsOf)).map((statement) => toCandidate(statement, parts))
  const weights = weigh(wanted, [...parts.keys()], candidates)
  const whole = sum(weights.values())
  if (whole === 0) return []

  const scored = candidates
    .map((candidate) => ({ ...candidate, score: scoreOf(candidate, weights) / whole }))
    .filter(({ score }) => score > 0)
    .sort((one, other) => other.score - one.score || order(one.statement, other.statement))
  const [best] = scored
  if (best === undefined || best.score < ANSWER_SHARE) return []

  const chosen = [best]
  const said = new Set(best.words)
  for (const candidate of scored.slice(1)) {
    if (chosen.length === QUOTATIONS) break
    if (candidate.score < ANSWER_SHARE) break
    if (candidate.statement.text.length > FURTHER_CHARS) continue
    const news =
      sum([...candidate.words].filter((word) => !said.has(word)).map((word) => weights.get(word) ?? 0)) / whole
    const isClose = candidate.score >= best.score * FURTHER_SHARE
    if (!isClose && !(candidate.score >= best.score * NEWS_SHARE.score && news >= NEWS_SHARE.news)) continue
    chosen.push(candidate)
    for (const word of candidate.words) said.add(word)
  }
  return toQuotations(
    chosen.map(({ statement }) => statement),
    candidates.map(({ statement }) => statement),
  )
}

type Candidate = { statement: Statement; words: ReadonlySet<string>; headings: ReadonlySet<string> }

/**
 * Compound words: neighbours in the question, by their joined form. A text with "backup" matches "back" and "up" as
 * well.
 */
type Parts = ReadonlyMap<string, readonly string[]>

function partsOfJoined(question: string): Parts {
  const joined = [...joinedWords(question)].slice(0, QUESTION_WORDS)
  return new Map(joined.map(([word, parts]) => [termOf(word), parts.map(termOf)]))
}

function toCandidate(statement: Statement, parts: Parts): Candidate {
  const { passage, columns, text } = statement
  const termsOf = (of: string) => wordsOf(of).flatMap((word) => [termOf(word), ...(parts.get(termOf(word)) ?? [])])
  const above = new Set(termsOf(`${passage.headings ?? ''} ${passage.source} ${columns}`))
  const own = termsOf(text)
  // A row contains the names of its columns, but they are not its content.
  const named = new Set(wordsOf(columns).map(termOf))
  return { statement, words: new Set(own.filter((word) => !named.has(word))), headings: above }
}

function wantedWords(question: string): Set<string> {
  const words = contentWords(question).slice(0, QUESTION_WORDS).map(termOf)
  const telling = words.filter((word) => !ASKING.has(word))
  return new Set(telling.length > 0 ? telling : words)
}

function weigh(
  wanted: ReadonlySet<string>,
  joined: readonly string[],
  candidates: readonly Candidate[],
): Map<string, number> {
  const weights = new Map<string, number>()
  for (const word of new Set([...wanted, ...joined])) {
    const found = candidates.filter(({ words, headings }) => words.has(word) || headings.has(word)).length
    if (found === 0 && !wanted.has(word)) continue
    // A word that occurs nowhere weighs most: then the passages are about something else.
    weights.set(word, Math.log(1 + (candidates.length + 1) / (found + 0.5)))
  }
  return weights
}

function scoreOf({ words, headings, statement }: Candidate, weights: ReadonlyMap<string, number>): number {
  let score = 0
  for (const [word, weight] of weights) {
    if (words.has(word)) score += weight
    else if (headings.has(word)) score += weight * HEADING_WEIGHT
  }
  // The first statements of a section, and passages that retrieval ranked higher, score better.
  const place = 1 - 0.01 * Math.min(statement.position, 5) - 0.015 * Math.min(statement.passage.number - 1, 7)
  const length = 1 + 0.15 * Math.max(0, Math.log2(statement.text.length / USUAL_CHARS))
  return (score * place) / length
}

const order = (one: Statement, other: Statement) =>
  one.passage.number - other.passage.number || one.position - other.position

/** Neighbouring passages overlap; only the first copy of a sentence counts. */
function withoutRepeats(statements: readonly Statement[]): Statement[] {
  const seen = new Set<string>()
  return statements.filter(({ text }) => {
    const known = seen.has(text)
    seen.add(text)
    return !known
  })
}

/** Groups statements by passage and completes those that announce the next ones. */
function toQuotations(chosen: readonly Statement[], all: readonly Statement[]): Quotation[] {
  const quotations = new Map<GroundingPassage, Set<Statement>>()
  for (const statement of chosen) {
    const quoted = quotations.get(statement.passage) ?? new Set()
    quotations.set(statement.passage, quoted)
    for (const part of completed(statement, all)) quoted.add(part)
  }
  return [...quotations].map(([passage, quoted]) => ({ passage, statements: [...quoted].sort(order) }))
}

function completed(statement: Statement, all: readonly Statement[]): Statement[] {
  const inPassage = all.filter(({ passage }) => passage === statement.passage)
  const at = inPassage.indexOf(statement)
  const before = inPassage[at - 1]
  const parts = statement.kind === 'code' && before && before.kind !== 'code' ? [before, statement] : [statement]
  if (!statement.announces) return parts
  let chars = 0
  for (const next of inPassage.slice(at + 1)) {
    chars += next.text.length
    if (chars > QUOTED_CHARS || (next.kind === 'prose' && parts.length > 1)) break
    parts.push(next)
    if (next.kind !== 'item') break
  }
  return parts
}

function sum(values: Iterable<number>): number {
  let total = 0
  for (const value of values) total += value
  return total
}
