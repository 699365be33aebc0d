import { isStopWord } from '../../../platform/text/words.ts'
import { addressEnd, PART_CHARS } from './address-parts.ts'
import { PARTICLES } from './lexicon/name-words.ts'
import {
  STREET_ENDINGS,
  STREET_KINDS_AFTER,
  STREET_KINDS_BEFORE,
  STREET_WORDS,
  UNIT_WORDS,
} from './lexicon/street-words.ts'
import { EVERYDAY, isPlace, kindsOf, STREET_SUFFIX } from './lexicon/word-list.ts'
import { isDigit, isWordCode, type Recognizer, type Report, textBefore } from './recognizer.ts'

const WORD = /\p{L}[\p{L}\p{M}'’-]{0,30}|\d{1,6}[A-Za-z]?(?![\p{L}\d])/uy
const WORDS_AHEAD = 7
const WORDS_AFTER = 4
const BEFORE_CHARS = 72
const LONGEST_NUMBER = 7
const LOOK_AHEAD_CHARS = 4
const UNIT_BEFORE = /(?<!\w)(\p{L}{2,10}|p\.? ?o\.? box)\.? ?#?$/iu
const POSTCODE_BEFORE =
  /(?<!\p{L})(?:zip(?: ?code)?|post(?:al)? ?code|postleitzahl|plz|code postal|c[oó]digo postal|cap|cep|pin ?code|(?:apo|fpo|dpo) (?:aa|ae|ap))(?: is| number)?[:#]? {0,2}$/iu
const STATE_BEFORE = /(?<!\p{L})\p{Lu}\p{Ll}+, [A-Z]{2} $/u
const PLACE_BEFORE = /(?<!\p{L})(\p{Lu}\p{L}+(?: \p{Lu}?\p{L}+){0,2}) $/u
const POSTCODE = /\d{2,6}(?:[- ]\d{2,4}(?!\d))?(?: [A-Z]{2})?(?!\w)/y
const UK_POSTCODE = /(?<!\w)[A-PR-UWYZ][A-HK-Y]?\d[\dA-HJKPS-UW]? ?\d[ABD-HJLNP-UW-Z]{2}(?!\w)/g
const CORNER_STREET = String.raw`(?:\d{1,5} )?\p{Lu}[\p{L}\p{M}'’-]{1,30}(?: (?:\p{Lu}[\p{L}\p{M}'’-]{1,30}|\d{1,5}(?!\p{L})|\p{Ll}{1,3})){0,4}`
/** Matches the crossing of two streets: "the corner of Bond Street and 5th Avenue". */
const CORNER = new RegExp(`(?:[Tt]he )?corner of ${CORNER_STREET} (?:and|&) ${CORNER_STREET}`, 'gu')
const CORNER_BEGINNING = /(?:[Tt]he )?corner of [^.,;:!?\n]*$/
const CORNER_WORDS = 'corner of '
/** Longer crossings are not found, so that a stream need not wait for them. */
const CORNER_CHARS = 64
const TAIL_WORDS = /(?<![\p{L}\p{M}\d])(?:\p{L}[\p{L}\p{M}'’-]{0,30}\.? ?#?,?(?: |$)){1,4}$/u

type Word = { start: number; end: number; lower: string; isNumber: boolean; isCapital: boolean }

/**
 * How certain it is that words and numbers are a street. `certain` streets are reported alone, and `likely` ones only
 * with a city, a postal code or a country behind them.
 */
type Street = { end: number; is: 'certain' | 'likely'; confidence: number }

/** The confidence of a street, of a street whose only sign is a second number, and of a whole address. */
const STREET = 0.78
const NUMBERS_ONLY = 0.55
const WHOLE = 0.85

/**
 * Finds streets with house numbers, flats, post-office boxes and labelled postal codes. The city, the postal code and
 * the country that follow a street belong to the same finding, also on other lines.
 */
export const addressRecognizer: Recognizer = {
  entities: ['ADDRESS'],
  scan(text, digits, _wanted, report) {
    let open = trailingStart(text)
    for (let digit = digits.next(0); digit >= 0; ) {
      let end = digit
      while (end < text.length && isWordCode(text.charCodeAt(end))) end++
      if (startsCleanly(text, digit) && end - digit <= LONGEST_NUMBER) {
        const ahead = wordsAhead(text, digit)
        const last = ahead.at(-1)?.end ?? digit
        const start = streetStart(text, digit)
        if (last + LOOK_AHEAD_CHARS > text.length) open = Math.min(open, start)
        const found = scanNumber(text, start, ahead, report)
        if (found.isOpen) open = Math.min(open, found.start)
        end = Math.max(end, found.end)
      }
      digit = digits.next(end)
    }
    if (text.includes(CORNER_WORDS)) open = Math.min(open, scanCorners(text, report))
    for (const { index, 0: code } of text.matchAll(UK_POSTCODE)) report(index, index + code.length, 'ADDRESS', 0.5)
    return open
  },
}

/** Returns the start of a crossing that the end of the text may cut off. */
function scanCorners(text: string, report: Report): number {
  for (const { index, 0: corner } of text.matchAll(CORNER)) {
    if (corner.length <= CORNER_CHARS) report(index, index + corner.length, 'ADDRESS', WHOLE)
  }
  const tail = text.slice(-CORNER_CHARS - 1)
  const beginning = CORNER_BEGINNING.exec(tail)
  return beginning ? text.length - tail.length + beginning.index : text.length
}

/** The end of a finding, or the position of the number if there is none. `isOpen`: later text may lengthen the finding. */
type Found = { start: number; end: number; isOpen: boolean }

/** The house number is the first word of `ahead`. */
function scanNumber(text: string, from: number, ahead: readonly Word[], report: Report): Found {
  const [number] = ahead
  if (number === undefined) return { start: from, end: from, isOpen: false }
  const before = textBefore(text, number.start)
  const start = Math.min(from, number.start - unitChars(before))
  const street =
    streetOf(ahead) ??
    (start < number.start ? { end: number.end, is: 'certain' as const, confidence: STREET } : undefined)
  if (street !== undefined) {
    const rest = addressEnd(text, street.end, startsLine(text, start))
    const isWhole = rest.end > street.end
    if (isWhole || street.is === 'certain') report(start, rest.end, 'ADDRESS', isWhole ? WHOLE : street.confidence)
    return {
      start,
      end: isWhole || street.is === 'certain' ? rest.end : start,
      isOpen: rest.at + PART_CHARS > text.length,
    }
  }
  if (!isBeforePostcode(before, number)) return { start, end: start, isOpen: false }
  POSTCODE.lastIndex = number.start
  const code = POSTCODE.exec(text)?.[0]
  if (code === undefined) return { start, end: start, isOpen: false }
  report(number.start, number.start + code.length, 'ADDRESS', 0.5)
  return { start, end: number.start + code.length, isOpen: false }
}

/**
 * Whether the number may be a postal code: it has a label, or follows a state code or a country ("Springfield, IL
 * 62704", "Portugal 30971").
 */
function isBeforePostcode(before: string, number: Word): boolean {
  if (POSTCODE_BEFORE.test(before)) return true
  if (number.end - number.start < 4) return false
  const places = PLACE_BEFORE.exec(before)?.[1]?.toLowerCase().split(' ')
  return (
    STATE_BEFORE.test(before) ||
    !!places?.some((_, index) => isPlace(places.slice(index).join(' ')) && number.end - number.start > 4)
  )
}

/**
 * Returns the street that begins with a number. It ends after its street type or second number: "12 Station Road",
 * "704 1436 Redbud Drive", "6750 Koskikatu 25".
 */
function streetOf(ahead: readonly Word[]): Street | undefined {
  const from = ahead[1]?.isNumber ? 2 : 1
  const startsWithKind = ahead[from] !== undefined && STREET_KINDS_BEFORE.has(ahead[from].lower)
  let hasLower = false
  for (let index = from; index < ahead.length; index++) {
    const word = ahead[index]!
    const isNamed = index > from
    if (isNamed && STREET_KINDS_AFTER.has(word.lower) && (!hasLower || STREET_WORDS.has(word.lower))) {
      const next = ahead[index + 1]
      return { end: next?.isNumber ? next.end : word.end, is: 'certain', confidence: STREET }
    }
    if (isNamed && word.isCapital && (kindsOf(word.lower) & STREET_SUFFIX) !== 0)
      return { end: word.end, is: 'likely', confidence: STREET }
    if (word.isNumber) {
      const isHouse = isNamed && ahead[0]!.end - ahead[0]!.start >= 2
      return isHouse ? { end: word.end, is: 'certain', confidence: startsWithKind ? STREET : NUMBERS_ONLY } : undefined
    }
    if (
      word.isCapital ||
      PARTICLES.has(word.lower) ||
      STREET_ENDINGS.test(word.lower) ||
      STREET_KINDS_BEFORE.has(word.lower)
    )
      continue
    if (word.lower.length === 1) continue
    if (isStopWord(word.lower) || (!startsWithKind && (kindsOf(word.lower) & EVERYDAY) !== 0)) return undefined
    hasLower = true
  }
  return undefined
}

/**
 * Returns up to seven words of one line, starting with the number at `from`. Only a short word, such as an
 * abbreviation, may end with a period.
 */
function wordsAhead(text: string, from: number): Word[] {
  const words: Word[] = []
  for (let index = from; words.length < WORDS_AHEAD; ) {
    const word = wordAt(text, index)
    if (word === undefined) break
    words.push(word)
    // Three or more consecutive numbers are not an address.
    if (words.length > 2 && words.every(({ isNumber }) => isNumber)) break
    const isShort = !word.isNumber && word.end - word.start <= 4
    const end = word.end + (isShort && text[word.end] === '.' ? 1 : 0)
    if (text[end] !== ' ') break
    index = end + 1
  }
  return words
}

function wordAt(text: string, index: number): Word | undefined {
  WORD.lastIndex = index
  const written = WORD.exec(text)?.[0]
  if (written === undefined) return undefined
  const lower = written.toLowerCase()
  const isNumber = isDigit(written.charCodeAt(0))
  return { start: index, end: index + written.length, lower, isNumber, isCapital: written[0] !== lower[0] }
}

/**
 * Returns the start of the street whose number is at `number`: "Via Franscini 71", "Hauptstraße 5". Returns `number` if
 * there is no street.
 */
function streetStart(text: string, number: number): number {
  let start = number
  if (text[number - 1] !== ' ' || isDigit(text.charCodeAt(number - 2))) return start
  for (let words = 0, index = number; words < WORDS_AFTER; words++) {
    const before = /(?<![\p{L}\p{M}\d])(\p{L}[\p{L}\p{M}'’-]{0,30})(\.?) $/u.exec(
      text.slice(Math.max(0, index - 36), index),
    )
    if (!before) break
    const lower = before[1]!.toLowerCase()
    index -= before[0].length
    if (words === 0 && STREET_ENDINGS.test(lower)) start = index
    if (words > 0 && STREET_KINDS_BEFORE.has(lower)) start = index
    if (words === 0 && (lower === 'u' || lower === 'utca')) continue
    if (lower === before[1] && !PARTICLES.has(lower) && !STREET_ENDINGS.test(lower)) break
  }
  return start
}

/** Returns the length of a flat or box label before a number. */
function unitChars(before: string): number {
  const unit = UNIT_BEFORE.exec(before)
  const word = unit?.[1]?.toLowerCase() ?? ''
  return unit && (UNIT_WORDS.has(word) || word.endsWith('box')) ? unit[0].length : 0
}

function startsCleanly(text: string, digit: number): boolean {
  return !isWordCode(text.charCodeAt(digit - 1)) && !'-./:,$€£'.includes(text[digit - 1] ?? ' ')
}

/** Returns the index where the last words of the text start; a number may follow them. */
function trailingStart(text: string): number {
  const tail = text.slice(-BEFORE_CHARS)
  const words = TAIL_WORDS.exec(tail)
  return words ? text.length - tail.length + words.index : text.length
}

/** Whether only spaces and quote marks precede the position on its line, and no label such as "Address:" the line. */
function startsLine(text: string, start: number): boolean {
  return /(?:^|[^:\s]\s*\n)[ \t>]{0,16}$/.test(text.slice(Math.max(0, start - 20), start))
}
