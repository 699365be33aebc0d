import { indexTermsOf, isUnspaced } from '../../../platform/text/terms.ts'
import { joinedWords, topicOf, wordsOf } from '../../../platform/text/words.ts'
import type { GroundingPassage } from '../../provider.ts'
import { type Statement, statementsOf } from './statements.ts'

/** The statements that are quoted from one passage, in the order of the passage. */
export type Quotation = { passage: GroundingPassage; statements: Statement[] }

const QUOTATIONS = 3
/** A statement is quoted only if the statement and its headings cover at least this share of the question's weight. */
const ANSWER_SHARE = 0.42
/** A further statement is quoted if its score is at least this share of the best score. */
const FURTHER_SHARE = 0.9
/**
 * A further statement is also quoted if it meets two conditions. Its score is at least the share `score` of the best
 * score. At least the share `news` of the question is covered by this statement and by no other chosen statement.
 */
const NEWS_SHARE = { score: 0.65, news: 0.2 }
/** The search term of a word: without accents and endings. Words of scripts without spaces are unchanged. */
const termOf = (word: string): string => (isUnspaced(word) ? word : (indexTermsOf(word)[0]?.term ?? word))

/**
 * The typical length of a statement. Longer statements score lower, because they match more words by chance and are
 * harder to read.
 */
const USUAL_CHARS = 200
/** The maximum length of a further statement. */
const FURTHER_CHARS = 400
/** The weight of a word in the heading of a section or the label of a row, relative to a word in the statement. */
const HEADING_WEIGHT = 0.9
/** The weight of a word in a higher heading, or in the name of the document. */
const ABOVE_WEIGHT = 0.6
/** The weight of a word if both the statement and its heading contain it. */
const BOTH_WEIGHT = 1.1
/** The amount by which a statement's score decreases for each rank that separates its passage from the best passage. */
const RANK_STEP = 0.08
/** If the question is a "how to" question, commands and code get this score factor. */
const COMMAND_FACTOR = 1.15
/** For all other questions, code gets this score factor. */
const CODE_FACTOR = 0.8
/** A statement that only points to another page gets this score factor, because it is a poor answer. */
const POINTER_FACTOR = 0.6
const HOW =
  /^[\s\p{P}]*(?:(?:how|wie|comment|c[oó]mo|come|hoe|jak|как|πώς|nasıl)(?![\p{L}\p{N}])|如何|怎么|怎麼|怎样|怎樣|どうやって|어떻게)/iu
/** The maximum number of words of a question that are used. More words cost time and add no information. */
const QUESTION_WORDS = 64
const QUOTED_CHARS = 700

/**
 * Selects the statements that answer the question best, best passage first. Returns an empty list if the passages
 * contain no answer. Rare words weigh more than words that occur in many statements. If two statements have the same
 * score, the statement from the higher-ranked passage comes first.
 */
export function bestStatements(question: string, passages: readonly GroundingPassage[]): Quotation[] {
  const wanted = wantedWords(question)
  const parts = partsOfJoined(question)
  const candidates = withoutRepeats(passages.flatMap(statementsOf)).map((statement) =>
    toCandidate(statement, wanted, parts),
  )
  const weights = weigh(wanted, [...parts.keys()], candidates)
  const whole = sum(weights.values())
  if (whole === 0) return []
  const isHowToQuestion = HOW.test(question)

  const scored = candidates
    .map((candidate) => ({ ...candidate, score: scoreOf(candidate, weights, isHowToQuestion) / whole }))
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
    isHowToQuestion,
  )
}

type Candidate = {
  statement: Statement
  words: ReadonlySet<string>
  /** The words of the statement's own heading, or of its table columns. */
  heading: ReadonlySet<string>
  /** The words of the higher headings and of the source. */
  above: ReadonlySet<string>
}

/**
 * Maps the joined form of adjacent question words to these words. Example: "backup" in a text also matches "back" and
 * "up".
 */
type Parts = ReadonlyMap<string, readonly string[]>

function partsOfJoined(question: string): Parts {
  const joined = [...joinedWords(question)].slice(0, QUESTION_WORDS)
  return new Map(joined.map(([word, parts]) => [termOf(word), parts.map(termOf)]))
}

function toCandidate(statement: Statement, wanted: ReadonlySet<string>, parts: Parts): Candidate {
  const { passage, columns, label, text } = statement
  const termsOf = (of: string) => [
    ...wordsOf(of).flatMap((word) => [termOf(word), ...(parts.get(termOf(word)) ?? [])]),
    // "Back up" in a text answers a question about a "backup".
    ...[...joinedWords(of).keys()].map(termOf).filter((word) => wanted.has(word)),
  ]
  const path = (passage.headings ?? '').split(' > ')
  const heading = new Set(termsOf(`${path.at(-1)} ${columns} ${label}`))
  const above = new Set(termsOf(`${path.slice(0, -1).join(' ')} ${passage.source}`))
  const own = termsOf(text)
  // Column names are part of a row's text, but not of its content.
  const named = new Set(wordsOf(columns).map(termOf))
  return { statement, words: new Set(own.filter((word) => !named.has(word))), heading, above }
}

function wantedWords(question: string): Set<string> {
  return new Set(wordsOf(topicOf(question)).slice(0, QUESTION_WORDS).map(termOf))
}

function weigh(
  wanted: ReadonlySet<string>,
  joined: readonly string[],
  candidates: readonly Candidate[],
): Map<string, number> {
  const weights = new Map<string, number>()
  for (const word of new Set([...wanted, ...joined])) {
    const found = candidates.filter(({ words, heading, above }) =>
      [words, heading, above].some((of) => of.has(word)),
    ).length
    if (found === 0 && !wanted.has(word)) continue
    // If no statement contains a word, the word has the highest weight, because the passages are then about another
    // topic.
    weights.set(word, Math.log(1 + (candidates.length + 1) / (found + 0.5)))
  }
  return weights
}

function scoreOf(
  { words, heading, above, statement }: Candidate,
  weights: ReadonlyMap<string, number>,
  isHowToQuestion: boolean,
): number {
  let score = 0
  for (const [word, weight] of weights) {
    const inHeading = heading.has(word)
    if (words.has(word)) score += weight * (inHeading ? BOTH_WEIGHT : 1)
    else if (inHeading) score += weight * HEADING_WEIGHT
    else if (above.has(word)) score += weight * ABOVE_WEIGHT
  }
  // A statement scores higher if it is at the beginning of a section, and if retrieval ranked its passage higher.
  const place = 1 - 0.01 * Math.min(statement.position, 5) - RANK_STEP * Math.min(statement.passage.number - 1, 7)
  const length = 1 + 0.15 * Math.max(0, Math.log2(statement.text.length / USUAL_CHARS))
  return (score * place * fitOf(statement, isHowToQuestion)) / length
}

function fitOf({ kind, text, points }: Statement, isHowToQuestion: boolean): number {
  if (points) return POINTER_FACTOR
  if (!isHowToQuestion) return kind === 'code' ? CODE_FACTOR : 1
  return kind === 'code' || /`[^`]+`/.test(text) ? COMMAND_FACTOR : 1
}

const order = (one: Statement, other: Statement) =>
  one.passage.number - other.passage.number || one.position - other.position

/** Removes repeated sentences. Adjacent passages overlap, so only the first copy of a sentence is used. */
function withoutRepeats(statements: readonly Statement[]): Statement[] {
  const seen = new Set<string>()
  return statements.filter(({ text }) => {
    const known = seen.has(text)
    seen.add(text)
    return !known
  })
}

/** Groups statements by passage. If a chosen statement announces other statements, adds the announced statements. */
function toQuotations(chosen: readonly Statement[], all: readonly Statement[], isHowToQuestion: boolean): Quotation[] {
  const quotations = new Map<GroundingPassage, Set<Statement>>()
  for (const statement of chosen) {
    const quoted = quotations.get(statement.passage) ?? new Set()
    quotations.set(statement.passage, quoted)
    for (const part of completed(statement, all, isHowToQuestion)) quoted.add(part)
  }
  return [...quotations].map(([passage, quoted]) => ({ passage, statements: [...quoted].sort(order) }))
}

function completed(statement: Statement, all: readonly Statement[], isHowToQuestion: boolean): Statement[] {
  const inPassage = all.filter(({ passage }) => passage === statement.passage)
  const at = inPassage.indexOf(statement)
  const before = inPassage[at - 1]
  const parts = statement.kind === 'code' && before && before.kind !== 'code' ? [before, statement] : [statement]
  if (!statement.announces)
    return isHowToQuestion && statement.kind === 'prose' ? withCode(statement, inPassage) : parts
  let chars = 0
  for (const next of inPassage.slice(at + 1)) {
    chars += next.text.length
    if (chars > QUOTED_CHARS || (next.kind === 'prose' && parts.length > 1)) break
    parts.push(next)
    if (next.kind !== 'item') break
  }
  return parts
}

/** Returns the statement and, if the passage's next code is near, the statements up to and including this code. */
function withCode(statement: Statement, inPassage: readonly Statement[]): Statement[] {
  const parts = [statement]
  let chars = statement.text.length
  for (const next of inPassage.slice(inPassage.indexOf(statement) + 1)) {
    chars += next.text.length
    if (next.kind === 'item' || chars > QUOTED_CHARS) return [statement]
    parts.push(next)
    if (next.kind === 'code') return parts
  }
  return [statement]
}

function sum(values: Iterable<number>): number {
  let total = 0
  for (const value of values) total += value
  return total
}
