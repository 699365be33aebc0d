import type { PiiEntity } from '../../../../shared/pii-entities.ts'
import { isStopWord } from '../../../platform/text/words.ts'
import { GIVEN_NAMES } from './lexicon/given-names.ts'
import {
  DETERMINERS,
  EVERYDAY_WORDS,
  ORGANIZATION_ENDINGS,
  ORGANIZATION_WORDS,
  PARTICLES,
  PLACE_PREPOSITIONS,
  TITLES,
} from './lexicon/name-words.ts'
import { NATIONALITIES, PLACES } from './lexicon/places.ts'
import { SURNAMES } from './lexicon/surnames.ts'
import type { Recognizer, Report } from './recognizer.ts'

const NAME_WORD = /\p{Lu}[\p{L}\p{M}'’]{0,30}(?:-[\p{L}\p{M}'’]{1,30}){0,3}/gu
/**
 * Matches the text between two words of a name: a space, the period of an initial or a title, or words in lower case.
 */
const GAP = /^(\.?) (?:(\p{Ll}{1,3}) (?:(\p{Ll}{1,3}) )?|& )?$/u
const GAP_CHARS = 10
const NAME_FORM = /^(?:(?:Mc|Mac|[ODL]['’]|De|Van|Le)?\p{Lu}[\p{Ll}\p{M}]+(?:['’-]\p{L}[\p{Ll}\p{M}]*)*|\p{Lu})$/u
const NAME_WORDS = 6
/** The maximum distance of context words before and after a name. */
const BEFORE_CHARS = 32
const AFTER_CHARS = 16
const NAME_CHARS = 120

const PERSON_BEFORE =
  /(?:name(?:'s| is| was|:)|named|called(?: me)?|calls me|call me|i am|i'm|this is|dear|hi|hello|hey|thanks|regards|cheers|sincerely|signed|user:|said|says|asked|told|actor|actress|singer|author|president|minister|colonel|(?:sung|written|directed|played|painted|signed|founded|led|composed|produced) by|producer|founders?:?|brother|sister|mother|father|wife|husband|son|daughter|friend|colleague|partner|starring|married|hei(?:ß|ss)e|ich bin|llamo|soy|m'appelle|je suis|chiamo|sono)[ ,]{1,3}[-–"'“]?$/u
const PLACE_BEFORE =
  /(?:travel\w{0,4}|fl(?:y|ew|ying)|mov(?:e|ed|ing)|go(?:ing)?|went|c[oa]m(?:e|ing)|trip|flight|back|relocated|dr[io]ve|way|return(?:ed|ing)?) to $/u
const ORGANIZATION_BEFORE =
  /(?:work(?:s|ed|ing)? (?:for|at|with)|employed (?:at|by)|joined|(?:year|job|career|shares|intern|engineer|manager|director|ceo|cfo|cto|founder|president) (?:at|in|of))(?: the)? $/u
/** If a name is in a sentence, matches the text before it: a word or comma, but no quotes, brackets or list markers. */
const PROSE_BEFORE = /(\p{Ll}+),? $/u
const PROSE_AFTER = /^(?:$|[ ,.?!;:'’\n)]|-\s)/u
const LINE_BEFORE = /(?:^|\n)[ \t>]*$/u
/** Matches a preceding line that ends with a house or flat number. */
const ADDRESS_BEFORE = /\d[.,]? ?\n[ \t>]{0,8}$/
const LINE_AFTER = /^(?:$| ?[\n,])/
const NAMED_NEIGHBOUR = /(?:^|\s)(\p{L}+)(?:,| and|, and|,? &) $/u
const NEIGHBOUR_AFTER = /^(?:,| and|, and) (\p{Lu}\p{L}+)/u
const PERSON_AFTER =
  /^(?:['’]s |,? (?:said|says|told|asked|lives|lived|was born|died|wrote|added|replied|shouted|explained|has been|met|married|joined)(?!\p{L}))/u
const SENTENCE_END = /(?:^|[.!?:;\n\r>•*|#([{"“”«]|[-–]\s)\s*$/u

type Guess = { type: PiiEntity; confidence: number }
type Word = { start: number; end: number; lower: string }

/**
 * Finds capitalized names with the help of context words, company suffixes, and lists of names and cities. A word that
 * is capitalized only at the start of a sentence does not count.
 */
export const properNameRecognizer: Recognizer = {
  entities: ['PERSON', 'TITLE', 'LOCATION', 'ORGANIZATION', 'NATIONALITY'],
  scan(text, _digits, _wanted, report) {
    let open = text.length
    let words: Word[] = []
    const close = () => {
      const [first] = words
      const last = words.at(-1)
      // A longer sequence of words is a heading or a list, not a name.
      if (first && last && words.length <= NAME_WORDS && last.end - first.start <= NAME_CHARS) {
        if (last.end + AFTER_CHARS > text.length) open = Math.min(open, first.start)
        classify(text, words, report)
      }
      words = []
    }
    for (const { index, 0: written } of text.matchAll(NAME_WORD)) {
      if (isInsideWord(text, index, index + written.length)) continue
      const word = withoutGenitive(written, index)
      const last = words.at(-1)
      if (last && !isJoined(text, last, word.start)) close()
      words.push(word)
    }
    close()
    return open
  },
}

/** Removes a genitive: "Baader's", "Baader’s". */
function withoutGenitive(written: string, start: number): Word {
  const word = written.replace(/['’](?:s|ll|d|m|re|ve)?$/u, '')
  return { start, end: start + word.length, lower: word.toLowerCase() }
}

function isJoined(text: string, last: Word, next: number): boolean {
  if (next - last.end > GAP_CHARS) return false
  const gap = GAP.exec(text.slice(last.end, next))
  if (!gap) return false
  const isAbbreviated = last.lower.length === 1 || TITLES.has(last.lower) || last.lower === 'st'
  if (gap[1] !== '' && !isAbbreviated) return false
  return [gap[2], gap[3]].every((particle) => particle === undefined || PARTICLES.has(particle) || particle === 'of')
}

function classify(text: string, all: Word[], report: Report): void {
  const isFirst = SENTENCE_END.test(text.slice(Math.max(0, all[0]!.start - 8), all[0]!.start))
  const words = withoutEveryday(all)
  const first = words[0]
  if (first === undefined) return
  if (TITLES.has(first.lower) && (words.length > 1 || text[first.end] === '.')) {
    const isShort = text[first.end] === '.'
    report(first.start, first.end + (isShort ? 1 : 0), 'TITLE', 0.6)
    if (words.length > 1) report(words[1]!.start, words.at(-1)!.end, 'PERSON', 0.8)
    return
  }
  classifyName(text, words, isFirst && first === all[0], report)
}

/** Removes everyday words at the start and end of a name, unless the words belong to a location or a company. */
function withoutEveryday(words: readonly Word[]): Word[] {
  let from = 0
  while (from < words.length && isEveryday(words[from]!) && !isPlace(words.slice(from))) from++
  let to = words.length
  while (to > from && isEveryday(words[to - 1]!) && !isEnding(words[to - 1]!) && !isPlace(words.slice(from, to))) to--
  return words.slice(from, to)
}

function isPlace(words: readonly Word[]): boolean {
  return PLACES.has(words.map(({ lower }) => lower).join(' '))
}

function classifyName(text: string, words: readonly Word[], isFirst: boolean, report: Report): void {
  const { start } = words[0]!
  const { end } = words.at(-1)!
  const known = knownName(words, text.slice(start, end).toLowerCase())
  if (known) {
    report(start, end, known.type, known.confidence)
    return
  }
  const before = text.slice(Math.max(0, start - BEFORE_CHARS), start)
  const behind = text.slice(end, end + AFTER_CHARS)
  const guess = guessOf(text, words, { before, behind, isFirst })
  if (guess) report(start, end, guess.type, guess.confidence)
  else reportParts(words, report)
}

type Surroundings = { before: string; behind: string; isFirst: boolean }

/** Classifies a name: first by lists of names, then by context words. */
function guessOf(text: string, words: readonly Word[], { before, behind, isFirst }: Surroundings): Guess | undefined {
  const [first] = words
  const isGiven = GIVEN_NAMES.has(first!.lower) || GIVEN_NAMES.has(first!.lower.split('-')[0]!)
  const isSurname = SURNAMES.has(words.at(-1)!.lower)
  if (words.length > 1 && (isGiven || isSurname)) return { type: 'PERSON', confidence: 0.75 }
  const hasInitial = words.slice(1, -1).some(({ lower }) => lower.length === 1)
  if (isGiven || hasInitial) return { type: 'PERSON', confidence: 0.6 }
  const context = before.toLowerCase()
  const word = /(\p{L}+) $/u.exec(context)?.[1] ?? ''
  if (PLACE_BEFORE.test(context) || PLACE_PREPOSITIONS.has(word)) {
    const isWritten = looksLikeName(text, words) || words.every(({ lower }) => lower.length >= 6)
    if (isWritten && PROSE_AFTER.test(behind)) return { type: 'LOCATION', confidence: 0.5 }
  }
  if (ADDRESS_BEFORE.test(before) && LINE_AFTER.test(behind) && !words.some(isEveryday)) {
    return { type: 'LOCATION', confidence: 0.5 }
  }
  if (!looksLikeName(text, words)) return undefined
  if (ORGANIZATION_BEFORE.test(context)) return { type: 'ORGANIZATION', confidence: 0.5 }
  if (PERSON_BEFORE.test(context) || PERSON_AFTER.test(behind)) return { type: 'PERSON', confidence: 0.55 }
  if (isNextToName(context, behind)) return { type: 'PERSON', confidence: 0.55 }
  const isProse = PROSE_BEFORE.test(before) && !DETERMINERS.has(word) && PROSE_AFTER.test(behind)
  if (words.length === 1) return isProse && !isFirst && isSurname ? { type: 'PERSON', confidence: 0.5 } : undefined
  if (words.length > 4 || words.some(isEveryday)) return undefined
  return isProse || (LINE_BEFORE.test(before) && /^(?:$|\s*\n|,| \p{Ll})/u.test(behind))
    ? { type: 'PERSON', confidence: 0.5 }
    : undefined
}

/** Whether the name is part of an enumeration that contains a given name: "Gaetane, Hannah and Anthony". */
function isNextToName(context: string, behind: string): boolean {
  const last = NAMED_NEIGHBOUR.exec(context)?.[1]
  const next = NEIGHBOUR_AFTER.exec(behind)?.[1]?.toLowerCase()
  return (last !== undefined && GIVEN_NAMES.has(last)) || (next !== undefined && GIVEN_NAMES.has(next))
}

/** Classifies a name by the lists alone, without its context. */
function knownName(words: readonly Word[], phrase: string): Guess | undefined {
  if (PLACES.has(phrase)) return { type: 'LOCATION', confidence: 0.6 }
  if (NATIONALITIES.has(phrase)) return { type: 'NATIONALITY', confidence: 0.6 }
  if (words.length === 1) return undefined
  if (isEnding(words.at(-1)!)) return { type: 'ORGANIZATION', confidence: 0.7 }
  return words.some(({ lower }) => ORGANIZATION_WORDS.has(lower))
    ? { type: 'ORGANIZATION', confidence: 0.6 }
    : undefined
}

/** Reports the known names that occur within a longer unknown name. */
function reportParts(words: readonly Word[], report: Report): void {
  for (const { start, end, lower } of words) {
    if (PLACES.has(lower)) report(start, end, 'LOCATION', 0.5)
    else if (NATIONALITIES.has(lower)) report(start, end, 'NATIONALITY', 0.5)
  }
}

/** Whether each word has the case of a name: "Anna", "McCoy", "O’Neill" and "J", but not "API" or "JavaScript". */
function looksLikeName(text: string, words: readonly Word[]): boolean {
  return (
    words.every(({ start, end }) => NAME_FORM.test(text.slice(start, end))) &&
    words.some(({ lower }) => lower.length > 2)
  )
}

function isEveryday({ lower }: Word): boolean {
  return isStopWord(lower) || EVERYDAY_WORDS.has(lower)
}

function isEnding({ lower }: Word): boolean {
  return ORGANIZATION_ENDINGS.has(lower)
}

function isInsideWord(text: string, start: number, end: number): boolean {
  return (
    /[\p{L}\p{N}_@#$/\\.-]$/u.test(text.slice(Math.max(0, start - 2), start)) ||
    /^(?:[\p{L}\p{N}_@(=]|\.\p{L}|\/)/u.test(text.slice(end, end + 3))
  )
}
