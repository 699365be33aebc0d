// Finds names with capital letters. This file is long, because persons, places and companies share the words that decide.
import type { PiiEntity } from '../../../../shared/pii-entities.ts'
import { isStopWord } from '../../../platform/text/words.ts'
import {
  DETERMINERS,
  LEGAL_FORMS,
  ORGANIZATION_ENDINGS,
  ORGANIZATION_WORDS,
  PARTICLES,
  PLACE_PREPOSITIONS,
  PROFESSION_ENDING,
  TITLES,
} from './lexicon/name-words.ts'
import {
  CITY,
  EVERYDAY,
  GIVEN_NAME,
  isOnlyName,
  isPlace,
  kindsOf,
  NATIONALITY,
  REGION,
  SURNAME,
} from './lexicon/word-list.ts'
import type { Recognizer, Report } from './recognizer.ts'

const NAME_WORD = /\p{Lu}[\p{L}\p{M}'’]{0,30}(?:-[\p{L}\p{M}'’]{1,30}){0,3}/gu
/**
 * Matches the text between two words of a name: a space, the period of an initial or a title, or words in lower case.
 */
const GAP = /^(\.?) (?:(\p{Ll}{1,3}) (?:(\p{Ll}{1,3}) )?|& )?$/u
const GAP_CHARS = 10
const NAME_FORM = /^(?:(?:Mc|Mac|[ODL]['’]|De|Van|Le)?\p{Lu}[\p{Ll}\p{M}]+(?:['’-]\p{Lu}[\p{Ll}\p{M}]*)*|\p{Lu})$/u
const NAME_WORDS = 6
/** The maximum distance of context words before and after a name. */
const BEFORE_CHARS = 32
const AFTER_CHARS = 32
const NAME_CHARS = 120
/** The minimum length of a company's name: shorter words are codes. */
const COMPANY_CHARS = 4
/** The maximum distance of the start of the line before a company in a letterhead. */
const LETTERHEAD_CHARS = 88

const PERSON_BEFORE =
  /(?:name(?:'s| is| was|:)|named|called(?: me)?|calls me|call me|i am|i'm|this is|dear|hi|hello|hey|thanks|regards|cheers|sincerely|signed|user:|said|says|asked|told|actor|actress|singer|author|president|minister|colonel|(?:sung|written|directed|played|painted|signed|founded|led|composed|produced) by|producer|founders?:?|brother|sister|mother|father|wife|husband|son|daughter|friend|colleague|partner|starring|married|hei(?:ß|ss)e|ich bin|llamo|nombre es|nome [éè]|nom est|naam is|nama saya|tên (?:tôi )?là|nazywam się|jmenuji se|зовут|звати|soy|m'appelle|je suis|chiamo|sono|named (?:him|her)|why is|(?:change|correct) (?:it|that) to|mr\.?|mrs\.?|ms\.?|dr\.?)[ ,]{1,3}[-–"'“]?$/u
const PLACE_BEFORE =
  /(?:travel\w{0,4}|fl(?:y|ew|ying)|mov(?:e|ed|ing)|go(?:ing)?|went|c[oa]m(?:e|ing)|trip|flight|back|relocated|dr[io]ve|way|return(?:ed|ing)?) to $/u
/** Matches the words before the name of a language: "studying English". */
const LANGUAGE_BEFORE =
  /(?:sp[eo]ak\w*|stud(?:y|ies|ied|ying)|learn\w*|teach\w*|taught|translat\w* (?:in)?to|written in|fluent in) $/u
/** The last words of ORGANIZATION_BEFORE. */
const ORGANIZATION_CUES = new Set(
  'for at with by joined to from of the called named is company firm startup start-up employer vendor supplier support company: employer: vendor: supplier: firm:'.split(
    ' ',
  ),
)
const ORGANIZATION_BEFORE =
  /(?:work(?:s|ed|ing)? (?:for|at|with)|(?:employed|hired|acquired|owned|bought|founded|run) by|employed at|joined|according to|recorded for|meet(?:ing)? (?:\p{L}{3,9} )?at|(?:year|job|career|position|intern|engineer|consultant|employee|manager|director|account|interview|order(?:ed)?|bought|purchased) (?:at|with|from)|(?:shares|ceo|cfo|cto|founder|president|manager|director|employee|customer|client|subsidiary|division|behalf) of|(?:company|firm|start-?up|employer|vendor|supplier|support)(?: called| named| is|:)?)(?: the)? $/u
/** Matches words that precede a place or a company. Places are in the lists, so an unlisted name is a company. */
const COMPANY_BEFORE = /(?:(?<!\p{L}|arriv\p{L}{2,3} )at|\p{Lu}\p{Ll}+ from) $/u
const ORGANIZATION_AFTER =
  /^(?: (?:is|was) (?:the brainchild|a 501|(?:an?|the) (?:\p{Ll}+ ){0,2}(?:agency|company|firm|start-?up|business|manufacturer|supplier|bank|charity|foundation|non-?profit|corporation|retailer|airline|consultancy))| (?:has (?:employed|acquired|hired|announced|invested)|was (?:founded|established|acquired)|invested|acquired|employs|employed|hired|merged|announced|office|offices|website|headquarters|shares|stock|employees|customers|ceo|cfo|cto|CEO|CFO|CTO)(?!\p{L})|,? (?:an?|the) (?:\p{Ll}+ )?(?:company|firm|start-?up)(?!\p{L}))/u
/** Matches the line before the company of a letterhead or a signature: words only, and no sentence. */
const LETTERHEAD_BEFORE = /(?:^|\n)[ \t>]{0,8}\p{L}[\p{L}\p{M}'’. ,-]{2,60}\n[ \t>]{0,8}$/u
/** Matches the line before a company in a signature: the name of a person. */
const NAME_LINE_BEFORE = /(?:^|\n)[ \t>]{0,4}(\p{Lu}\p{L}+(?: \p{L}[\p{L}.'’-]*){1,3})\n[ \t>]{0,4}$/u
/** Matches the beginning of the line after a company: an address, or a labelled number. */
const LETTERHEAD_AFTER =
  /^\n[ \t>]{0,8}(?:\d[\d ]{0,12} \p{L}|(?:unit|psc|p\.?o\.? ?box|tel|phone|mobile|fax|e-?mail)(?!\p{L}))/iu
/** If a name is in a sentence, matches the text before it: a word or comma, but no quotes, brackets or list markers. */
const PROSE_BEFORE = /(\p{Ll}+),? $/u
const PROSE_AFTER = /^(?:$|[ ,.?!;:'’\n)]|-\s)/u
const LINE_BEFORE = /(?:^|\n)[ \t>]*$/u
/** Matches a preceding line that ends with a house or flat number. */
const ADDRESS_BEFORE = /\d[.,]? ?\n[ \t>]{0,8}$/
const LINE_AFTER = /^(?:$| ?[\n,])/
const NAMED_NEIGHBOUR = /(?:^|\s)(\p{L}+)(?:,| and|, and|,? &) $/u
const NEIGHBOUR_AFTER = /^(?:,| and|, and) (\p{Lu}\p{L}+)/u
/** Matches a preceding line that ends with a flat or box: the next line is a town. */
const FLAT_BEFORE = /(?:apt|suite|unit|box|flat|apartment)\.? ?#?\d{1,5}[.,]? ?\n[ \t]{0,8}$/i
/** The endings of surnames in many languages. They count only in words that are in no list. */
const SURNAME_ENDING =
  /^\p{L}{3,20}(?:ov|ova|ev|eva|ski|sky|ska|ská|ský|ić|vich|enko|chuk|yan|shvili|sson|dóttir|opoulos|idis|akis|escu|inen)$/u
const PERSON_AFTER =
  /^(?:,? (?:said|says|told|asked|lives|lived|was born|died|wrote|added|replied|shouted|explained|has been|met|married|joined|began|thought|felt|(?:can|could|would|please|what|why|how) (?:I|you|we|do|can|is))(?!\p{L})|: ?\\?["“])/u
const SENTENCE_END = /(?:^|[.!?:;\n\r>•*|#([{"“”«]|[-–]\s)\s*$/u

type Guess = { type: PiiEntity; confidence: number }
/** A capitalized word and its kinds in the lists. */
type Word = { start: number; end: number; lower: string; kinds: number; isEveryday: boolean }

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
  const lower = word.toLowerCase()
  const kinds = kindsOf(lower)
  const isEveryday = !TITLES.has(lower) && (isStopWord(lower) || (kinds & (EVERYDAY | NATIONALITY)) === EVERYDAY)
  return { start, end: start + word.length, lower, kinds, isEveryday }
}

function isJoined(text: string, last: Word, next: number): boolean {
  if (next - last.end > GAP_CHARS) return false
  const gap = GAP.exec(text.slice(last.end, next))
  if (!gap) return false
  const isAbbreviated = last.lower.length === 1 || TITLES.has(last.lower) || last.lower === 'st'
  if (gap[1] !== '' && !isAbbreviated) return false
  // "University of Leeds" is one name. "Anna Schmidt of Siemens" is two.
  return [gap[2], gap[3]].every(
    (particle) => particle === undefined || PARTICLES.has(particle) || (particle === 'of' && !isPersonWord(last)),
  )
}

function classify(text: string, all: Word[], report: Report): void {
  const start = all[0]!.start
  const isFirst = SENTENCE_END.test(text.slice(Math.max(0, start - 8), start))
  const named = DETERMINERS.has(all[0]!.lower) ? all.slice(1) : all
  if (named.length > 0 && isOrganization(text, named)) {
    report(withNumber(text, named), named.at(-1)!.end, 'ORGANIZATION', 0.7)
    return
  }
  const words = withoutEveryday(all)
  const first = words[0]
  if (first === undefined) return
  if (TITLES.has(first.lower)) {
    if (words.length === 1 && text[first.end] !== '.') return
    const isShort = text[first.end] === '.'
    report(first.start, first.end + (isShort ? 1 : 0), 'TITLE', 0.6)
    if (words.length > 1) report(words[1]!.start, words.at(-1)!.end, 'PERSON', 0.8)
    return
  }
  classifyName(text, words, isFirst && first === all[0], report)
}

/** Whether a company's ending, the words around the name or its line in a letterhead show a company. */
function isOrganization(text: string, words: readonly Word[]): boolean {
  const { start } = words[0]!
  const last = words.at(-1)!
  if (words.length > 1 && LEGAL_FORMS.has(last.lower)) return true
  const behind = text.slice(last.end, last.end + AFTER_CHARS)
  // The cheap tests come first: most names fail all of them.
  const isAfterCue = ORGANIZATION_CUES.has(wordBefore(text, start)) && isBehindCompanyWords(text, start, behind)
  const isBeforeCue = !isAfterCue && (behind[0] === ' ' || behind[0] === ',') && ORGANIZATION_AFTER.test(behind)
  if (!isAfterCue && !isBeforeCue && !behind.startsWith('\n')) return false
  if (last.end - start < COMPANY_CHARS || !words.every(isNoOtherName)) return false
  if (isAfterCue) return !isPlacePhrase(words)
  if (isBeforeCue) return words.some(({ lower }) => !isStopWord(lower) && !TITLES.has(lower))
  return !isPersonWord(last) && isCompanyLine(text, words, behind)
}

/** Returns the word before a space, with its punctuation, in lower case. Long words are cut off. */
function wordBefore(text: string, start: number): string {
  if (text[start - 1] !== ' ') return ''
  const before = text.slice(Math.max(0, start - 12), start - 1)
  return before.slice(before.lastIndexOf(' ') + 1).toLowerCase()
}

function isBehindCompanyWords(text: string, start: number, behind: string): boolean {
  const before = text.slice(Math.max(0, start - BEFORE_CHARS), start).toLowerCase()
  return ORGANIZATION_BEFORE.test(before) && PROSE_AFTER.test(behind)
}

function isNoOtherName({ lower, kinds }: Word): boolean {
  return (kinds & (GIVEN_NAME | REGION | CITY | NATIONALITY)) === 0 && !TITLES.has(lower)
}

/** Whether the words fill a line of a letterhead or a signature where a company stands. */
function isCompanyLine(text: string, words: readonly Word[], behind: string): boolean {
  const { start } = words[0]!
  if (words.some(({ lower }) => lower.length === 1)) return false
  const line = text.slice(Math.max(0, start - LETTERHEAD_CHARS), start)
  if (LETTERHEAD_AFTER.test(behind) && LETTERHEAD_BEFORE.test(line)) return true
  const name = NAME_LINE_BEFORE.exec(line)
  return (
    name !== null &&
    isNameOfPerson(name[1]!) &&
    !(words.every(({ isEveryday }) => isEveryday) && PROFESSION_ENDING.test(words.at(-1)!.lower))
  )
}

/** Whether a line is a given name and a further name. */
export function isNameOfPerson(line: string): boolean {
  const names = line.toLowerCase().split(' ')
  return (kindsOf(names[0]!) & GIVEN_NAME) !== 0 || (kindsOf(names.at(-1)!) & SURNAME) !== 0
}

/** Returns the start of a company's name, including a number that it begins with: "3 Round Stones Inc". */
function withNumber(text: string, words: readonly Word[]): number {
  const { start } = words[0]!
  const number = /(?<![\p{L}\d.,-])\d{1,4} $/u.exec(text.slice(Math.max(0, start - 6), start))
  return LEGAL_FORMS.has(words.at(-1)!.lower) && number ? start - number[0].length : start
}

/** Removes everyday words at the start and end of a name, unless the words belong to a location, a company or a name. */
function withoutEveryday(words: readonly Word[]): Word[] {
  const mayEnd = (word: Word, before: Word | undefined) =>
    isEnding(word) ||
    ORGANIZATION_WORDS.has(words[0]!.lower) ||
    (word.kinds & (REGION | CITY)) !== 0 ||
    ORGANIZATION_WORDS.has(word.lower) ||
    before?.lower.length === 1 ||
    (isPersonWord(before) && (word.kinds & (GIVEN_NAME | SURNAME)) !== 0)
  let from = 0
  while (from < words.length && words[from]!.isEveryday && !isPlacePhrase(words.slice(from))) {
    if (ORGANIZATION_WORDS.has(words[from]!.lower) && from + 1 < words.length) break
    if ((words[from]!.kinds & GIVEN_NAME) !== 0 && !isStopWord(words[from]!.lower) && isPersonWord(words[from + 1]))
      break
    from++
  }
  let to = words.length
  while (
    to > from &&
    words[to - 1]!.isEveryday &&
    !mayEnd(words[to - 1]!, words[to - 2]) &&
    !isPlacePhrase(words.slice(from, to))
  )
    to--
  return words.slice(from, to)
}

/** Whether the word, or its part before a hyphen, is a given name and not also an everyday word: "Jean-Luc". */
function isGivenName(lower: string): boolean {
  if ((kindsOf(lower) & GIVEN_NAME) !== 0) return true
  const [part = ''] = lower.split('-', 1)
  return part !== lower && (kindsOf(part) & (GIVEN_NAME | EVERYDAY)) === GIVEN_NAME
}

/** Whether the word is a name of a person and nothing else. */
function isPersonWord(word: Word | undefined): boolean {
  if (word === undefined || word.isEveryday) return false
  return (word.kinds & (GIVEN_NAME | SURNAME)) !== 0 || SURNAME_ENDING.test(word.lower)
}

function isPlacePhrase(words: readonly Word[]): boolean {
  if (words.length === 1) return (words[0]!.kinds & (REGION | CITY)) !== 0
  return words.length > 1 && isPlace(words.map(({ lower }) => lower).join(' '))
}

function classifyName(text: string, words: readonly Word[], isFirst: boolean, report: Report): void {
  const { start } = words[0]!
  const { end } = words.at(-1)!
  const before = text.slice(Math.max(0, start - BEFORE_CHARS), start)
  const known = knownName(words, text.slice(start, end).toLowerCase(), before.toLowerCase())
  if (known) {
    if (known !== 'language') report(start, end, known.type, known.confidence)
    return
  }
  const behind = text.slice(end, end + AFTER_CHARS)
  const guess = guessOf(text, words, { before, behind, isFirst })
  if (guess) report(start, end, guess.type, guess.confidence)
  else reportParts(words, report)
}

type Surroundings = { before: string; behind: string; isFirst: boolean }

/** Classifies a name: first by lists of names, then by context words. */
function guessOf(text: string, words: readonly Word[], { before, behind, isFirst }: Surroundings): Guess | undefined {
  const [first] = words
  const last = words.at(-1)!
  if (FLAT_BEFORE.test(before) && LINE_AFTER.test(behind)) return { type: 'LOCATION', confidence: 0.5 }
  const isGiven = isGivenName(first!.lower)
  const isCode = words.length === 1 && /^ ?\d/.test(behind)
  const isSurname = isPersonWord(last)
  if (words.length > 1 && (isGiven || isSurname)) return { type: 'PERSON', confidence: 0.75 }
  const isNamed = looksLikeName(text, words)
  const hasInitial = words.slice(1, -1).some(({ lower }) => lower.length === 1)
  if (hasInitial || (isGiven && !isCode && isNamed)) return { type: 'PERSON', confidence: 0.6 }
  const context = before.toLowerCase()
  const word = /(\p{L}+) $/u.exec(context)?.[1] ?? ''
  if (isNamed && PERSON_BEFORE.test(context)) return { type: 'PERSON', confidence: 0.55 }
  if (isNamed && COMPANY_BEFORE.test(before) && PROSE_AFTER.test(behind))
    return { type: 'ORGANIZATION', confidence: 0.5 }
  if (PLACE_BEFORE.test(context) || PLACE_PREPOSITIONS.has(word)) {
    const isWritten = isNamed || words.every(({ start, end }) => /^\p{Lu}{4,}$/u.test(text.slice(start, end)))
    if (isWritten && PROSE_AFTER.test(behind)) return { type: 'LOCATION', confidence: 0.5 }
  }
  if (ADDRESS_BEFORE.test(before) && LINE_AFTER.test(behind) && !words.some(({ isEveryday }) => isEveryday)) {
    return { type: 'LOCATION', confidence: 0.5 }
  }
  if (!isNamed) return undefined
  if (PERSON_AFTER.test(behind) || isNextToName(context, behind)) return { type: 'PERSON', confidence: 0.55 }
  const isProse = PROSE_BEFORE.test(before) && PROSE_AFTER.test(behind)
  if (words.length === 1) {
    const isSure = isProse && !DETERMINERS.has(word)
    const isSubject = isFirst && /^(?:['’]s)?,? \p{Ll}/u.test(behind)
    return isSurname && (isFirst ? isSubject : isSure || /^['’]s /.test(behind))
      ? { type: 'PERSON', confidence: 0.5 }
      : undefined
  }
  if (words.length > 4 || words.some(({ isEveryday }) => isEveryday)) return undefined
  return (isProse && !DETERMINERS.has(word)) || (LINE_BEFORE.test(before) && /^(?:$|\s*\n|,| \p{Ll})/u.test(behind))
    ? { type: 'PERSON', confidence: 0.5 }
    : undefined
}

/** Whether the name is part of an enumeration that contains a given name: "Gaetane, Hannah and Anthony". */
function isNextToName(context: string, behind: string): boolean {
  const last = NAMED_NEIGHBOUR.exec(context)?.[1]
  const next = NEIGHBOUR_AFTER.exec(behind)?.[1]?.toLowerCase()
  return [last, next].some((name) => name !== undefined && isOnlyName(name))
}

/** Classifies a name by the lists, except a name of a town where a person's name belongs, and names of languages. */
function knownName(words: readonly Word[], phrase: string, context: string): Guess | 'language' | undefined {
  const kinds = words.length === 1 ? words[0]!.kinds : kindsOf(phrase)
  if ((kinds & REGION) !== 0 || ((kinds & CITY) !== 0 && !PERSON_BEFORE.test(context)))
    return { type: 'LOCATION', confidence: 0.6 }
  if ((kinds & NATIONALITY) !== 0)
    return LANGUAGE_BEFORE.test(context) ? 'language' : { type: 'NATIONALITY', confidence: 0.6 }
  if (words.length === 1) return undefined
  if (isEnding(words.at(-1)!)) return { type: 'ORGANIZATION', confidence: 0.7 }
  return words.some(({ lower }) => ORGANIZATION_WORDS.has(lower))
    ? { type: 'ORGANIZATION', confidence: 0.6 }
    : undefined
}

/** Reports the known names that occur within a longer unknown name. */
function reportParts(words: readonly Word[], report: Report): void {
  for (const { start, end, kinds } of words) {
    if ((kinds & (REGION | CITY)) !== 0) report(start, end, 'LOCATION', 0.5)
    else if ((kinds & NATIONALITY) !== 0) report(start, end, 'NATIONALITY', 0.5)
  }
}

/** Whether each word has the case of a name: "Anna", "McCoy", "O’Neill" and "J", but not "API" or "JavaScript". */
function looksLikeName(text: string, words: readonly Word[]): boolean {
  return (
    words.every(({ start, end }) => NAME_FORM.test(text.slice(start, end))) &&
    words.some(({ lower }) => lower.length > 2)
  )
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
