import { isInternationalNumber, isNationalNumber, USUAL_REGIONS } from './numbering-plans.ts'
import {
  followsGroup,
  isAlone,
  isDigit,
  isWordCode,
  oneOf,
  type Recognizer,
  type Report,
  wordsBefore,
} from './recognizer.ts'

const NUMBER_CHARS = 40
const NUMBER_GROUPS = 8
const MIN_DIGITS = 6
const MIN_DIGITS_IN_TEXT = 8
const MAX_DIGITS = 15
/** How many characters are read after a number: enough for an extension ("ext. 12345") or a label ("office"). */
const LOOK_AHEAD_CHARS = 18

const isSeparator = oneOf(' -./()\u00a0\u2010\u2011\u2012\u2013')
const isLead = oneOf('+(')
const isPartOfOther = oneOf('$€£¥+&=')
const hangsOn = oneOf('-./')
const EXTENSION = /(?: ?(?:x|#)| ?(?:ext|extn|durchwahl|poste|int)\.?:?) ?(\d{1,6})(?!\w)/iy
const LABEL =
  /(?:(?<![\p{L}\d])(?:(?:tele|mobil|smart|cell)?phones?|phone (?:no|number)|tel[eé]?|t[eé]l[eé]fon\w{0,8}|telf|mobile?|mob|cell(?:ular)?|celular|m[oó]vil|fax|telefax|hotline|whats ?app|handy\w{0,6}|rufnummer|festnetz|portable|cellulare|telem[oó]vel|telefoon\w{0,6}|gsm|puhelin|komórk\w{1,3}|call(?:ing|ed)?|dial|sms|ring|text(?:ed)?|reach|contact|answering|messages?|voicemail|desk|anrufen|appele[rz]|llam\w{1,5}|chiam\w{1,5}|lig(?:ar|ue))(?![\p{L}])|电话|手机|電話|携帯|전화|телефон|тел\.|моб\.)[^\d]{0,28}$/u
const LABEL_AFTER = /[ \-–(]{1,3}(?:office|fax|mobile|mob|cell|home|work|desk|direct|tel)(?![a-z])/iy
const NORTH_AMERICAN = /^(?:1[ .-])?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}([-. ]))\d{3}[-. ]\d{4}$/
const NATIONAL_IN_ONE_PIECE = /^0\d{8,10}$/
const NORTH_AMERICAN_DIGITS = /^1?[2-9]\d{2}[2-9]\d{6}$/
const NATIONAL_GROUPS = /^\(?0\d{1,4}\)?(?:[ .\-/]\d{2,8}){1,4}$/
const DATE = /^(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:19|20)?\d{2})(?![-/.]?\d)/
const MADE_UP_DIGITS = 8
const CONFIDENCE = { international: 0.95, labelled: 0.86, shaped: 0.65 }

/**
 * Finds phone numbers. Numbers with `+` or 00 must be valid in a numbering plan. Numbers in a typical form need no
 * label: `(415) 555-0132`, `020 7946 0958`. All other numbers need a label. `regions` (ISO 3166-1) also enables
 * ungrouped national numbers of these regions.
 */
export function phoneRecognizer(regions: readonly string[]): Recognizer {
  return {
    entities: ['PHONE'],
    scan(text, digits, _wanted, report) {
      let open = leadStart(text, text.length)
      for (let digit = digits.next(0); digit >= 0; ) {
        if (isWordCode(text.charCodeAt(digit - 1))) {
          digit = digits.next(digitsEnd(text, digit))
          continue
        }
        const start = leadStart(text, digit)
        const ends = groupEnds(text, digit)
        const until = ends.at(-1)!
        // A sequence that has too many digits, such as a table row, is not searched for phone numbers.
        if (ends.length > NUMBER_GROUPS || until - start > NUMBER_CHARS) {
          digit = digits.next(until)
          continue
        }
        if (until + LOOK_AHEAD_CHARS > text.length && (until > digit + 5 || until + 4 > text.length)) {
          open = Math.min(open, start)
        }
        const found = findPhone(text, start, ends, regions, report)
        digit = digits.next(found ?? ends[0]!)
      }
      return open
    },
  }
}

/** @returns the end of the number including its extension, or undefined if there is no phone number */
function findPhone(text: string, start: number, ends: readonly number[], regions: readonly string[], report: Report) {
  const head = ends[0]! - start
  if (ends.at(-1)! - start < MIN_DIGITS || !startsCleanly(text, start)) return undefined
  const isCalled = LABEL.test(wordsBefore(text, start))
  // A number needs a label unless it has one of the following beginnings.
  const isLed = '+('.includes(text[start]!) || head === 3 || head >= 10
  const isDialled = text[start] === '0' || (text[start] === '1' && head === 1) || regions.length > 0
  const isOwn = isDialled && !followsGroup(text, start)
  const mayBeShaped = isCalled || isLed || isOwn
  for (let index = ends.length - 1; index >= 0; index--) {
    const end = ends[index]!
    if (!endsCleanly(text, end)) continue
    EXTENSION.lastIndex = end
    const whole = end + (EXTENSION.exec(text)?.[0].length ?? 0)
    LABEL_AFTER.lastIndex = whole
    const hasLabelAfter = LABEL_AFTER.test(text)
    if (!mayBeShaped && !hasLabelAfter) continue
    const confidence = confidenceOf(text, { start, end, whole, isCalled, hasLabelAfter }, regions)
    if (confidence === 0) continue
    report(start, whole, 'PHONE', confidence)
    return whole
  }
  return undefined
}

/**
 * A possible phone number from `start` to `end`, and whether a label precedes or follows it. `whole` is the end
 * including the extension.
 */
type Reading = { start: number; end: number; whole: number; isCalled: boolean; hasLabelAfter: boolean }

/** Returns the confidence, or 0 if this is not a phone number. */
function confidenceOf(text: string, reading: Reading, regions: readonly string[]): number {
  const { start, end, whole, isCalled, hasLabelAfter } = reading
  const value = text.slice(start, end)
  const digits = value.replace(/\D/g, '')
  if (digits.length < MIN_DIGITS || digits.length > MAX_DIGITS + 2 || digits.startsWith('000')) return 0
  if (!areBracketsClosed(value)) return 0
  const isLabelled = hasLabelAfter || (isCalled && digits.length > MIN_DIGITS)
  if (value[0] === '+' || value[1] === '+') {
    return isInternationalNumber(digits) || isLabelled || whole > end ? CONFIDENCE.international : 0
  }
  if (DATE.test(value)) return 0
  if (digits.startsWith('00') && isInternationalNumber(digits.slice(2)) && !followsGroup(text, start)) {
    return CONFIDENCE.international
  }
  if (isLabelled) return isMadeUp(value) ? 0 : CONFIDENCE.labelled
  return isShaped(text, value, digits, reading, regions) ? CONFIDENCE.shaped : 0
}

/**
 * Whether the digits are ungrouped and end in a pair of digits that occurs four times in a row, as in 201090909090.
 * Such numbers are invented.
 */
function isMadeUp(value: string): boolean {
  const end = value.slice(-MADE_UP_DIGITS)
  const [one, other] = end
  return end.length === MADE_UP_DIGITS && one !== other && end === `${one}${other}`.repeat(MADE_UP_DIGITS / 2)
}

/** Whether the number is written in a typical format of phone numbers. */
function isShaped(
  text: string,
  value: string,
  digits: string,
  { start, end, whole }: Reading,
  regions: readonly string[],
): boolean {
  if (NORTH_AMERICAN.test(value)) return true
  if (whole > end && NORTH_AMERICAN_DIGITS.test(digits)) return true
  if (followsGroup(text, start)) return false
  const known = [...regions, ...USUAL_REGIONS]
  if (NATIONAL_GROUPS.test(value) && digits.length >= 9 && isNationalNumber(digits, known)) return true
  if (NATIONAL_IN_ONE_PIECE.test(value) && isAlone(text, start, whole) && isNationalNumber(digits, known)) return true
  const leastDigits = isAlone(text, start, whole) ? MIN_DIGITS : MIN_DIGITS_IN_TEXT
  return digits.length >= leastDigits && isNationalNumber(digits, regions)
}

/** Returns the position of the leading `+` or bracket. */
function leadStart(text: string, digit: number): number {
  let start = digit
  while (start > 0 && digit - start < 2 && isLead(text.charCodeAt(start - 1))) start--
  return start
}

function digitsEnd(text: string, from: number): number {
  let end = from
  while (end < text.length && isDigit(text.charCodeAt(end))) end++
  return end
}

/** Returns the end of each digit group. Groups are joined by one or two separators. */
function groupEnds(text: string, from: number): number[] {
  const ends = [digitsEnd(text, from)]
  for (let end = ends[0]!; ; ) {
    let next = end
    while (next - end < 3 && next < text.length && isSeparator(text.charCodeAt(next))) next++
    if (next === end || !isDigit(text.charCodeAt(next))) return ends
    end = digitsEnd(text, next)
    ends.push(end)
  }
}

function areBracketsClosed(value: string): boolean {
  const open = value.indexOf('(')
  return open < 0 ? !value.includes(')') : value.indexOf(')') > open
}

/**
 * Whether a new value starts with the number. After a letter, digit, slash or dot, the number is part of another value.
 */
function startsCleanly(text: string, start: number): boolean {
  if (start === 0) return true
  const before = text.charCodeAt(start - 1)
  if (isWordCode(before) || isPartOfOther(before)) return false
  return !(hangsOn(before) && isDigit(text.charCodeAt(start - 2)))
}

/** Whether the value ends with the number. Letters may follow the number only as part of an extension. */
function endsCleanly(text: string, end: number): boolean {
  if (!isWordCode(text.charCodeAt(end)))
    return !('-./:'.includes(text[end] ?? ' ') && isDigit(text.charCodeAt(end + 1)))
  EXTENSION.lastIndex = end
  return EXTENSION.test(text)
}
