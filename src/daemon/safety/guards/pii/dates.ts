import { isDigit, isWordCode, oneOf, type Recognizer, wordsBefore } from './recognizer.ts'

const MONTHS =
  '(?:jan(?:uary|uar|vier|eiro)?|feb(?:ruary|ruar)?|f[eé]vrier|mar(?:ch|s|zo)?|märz|apr(?:il)?|avril|abril|ma[iy]o?|maggio|jun[ei]?o?|juin|jul[iy]?o?|juillet|aug(?:ust)?|août|agosto|sep(?:t(?:ember|embre|iembre)?)?|settembre|o[ck]t(?:ober|obre|ubre)?|ottobre|nov(?:ember|embre|iembre)?|de[cz](?:ember|embre)?|décembre|diciembre|dicembre|dezembro|enero|gennaio|febrero|febbraio)\\.?'
const TIME = '(?:[ T]\\d{1,2}:\\d{2}(?::\\d{2}(?:\\.\\d{1,6})?)?(?:Z|[+-]\\d{2}:?\\d{2})?)?'
const NUMERIC = `(?:\\d{4}([-/.])\\d{1,2}\\1\\d{1,2}${TIME}|\\d{1,2}([-/.])\\d{1,2}\\2(?:\\d{4}|\\d{2})|\\d{1,2}/(?:19|20)\\d{2})(?![\\w/-])`
const DAY_FIRST = `\\d{1,2}(?:st|nd|rd|th|\\.|er|º)?(?: (?:of|de|di))?[ -]${MONTHS}(?:(?: de| del|,)?[ -]\\d{4})?(?![\\w])`
const DATE = new RegExp(`(?:${NUMERIC}|${DAY_FIRST})`, 'iy')
const MONTH_BEFORE = new RegExp(`(?<![\\p{L}\\d])${MONTHS}[ -]$`, 'iu')
/** The last two letters of month names and their abbreviations. */
const MONTH_ENDINGS = new Set(
  'an ry ar er ro eb ch rs zo rz pr il ai ay yo io un ne ni no eo in ul ly li lo et ug st to ep pt re ct kt ov ec ez'
    .split(' ')
    .map((pair) => pair.charCodeAt(0) * 128 + pair.charCodeAt(1)),
)
const LOWER = 0x20
const POINT = 46
/** The first letters of month names, and of words that stand between a day and its month. */
const beginsMonth = oneOf('adefgjmnosADEFGJMNOS')
const endsDay = oneOf('enrstºENRST')
const SPACE = 32
/** Characters that join a number to the following number. */
const isPartOfLarger = oneOf('-/.,:$€£')
const joinsNumbers = oneOf('-/.')
const MONTH_FIRST = /\d{1,2}(?:st|nd|rd|th)?(?:,? (?:19|20)\d{2})?(?![\w])|(?:19|20)\d{2}(?![\w])/y
const YEAR = /(?:1[89]|20)\d{2}s?(?!\w|[-./]\d)/y
const YEAR_WORDS =
  /(?<![\p{L}\d])(?:in|since|during|until|from|by|of|year|the|a|is a|to|between|and|around|before|after|circa|summer|winter|spring|autumn|fall|im jahr|seit|en|depuis|desde|nel|dal)[ (]{1,2}$/u
const DAY_NAMES = /(?<!\w)(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?(?!\w)/g
/** Matches a month name, or the beginning of a month name or of an ordinal suffix. */
const NAME_BEGINNING = /(?<![\p{L}\d])\p{L}{1,10}\.?[ -]?$/u
const TAIL_CHARS = 16
const BIRTH =
  /(?:(?<![\p{L}\d])(?:born|b\.|birth ?(?:day|date)?|dob|d\.o\.b\.?|geb(?:oren|\.)?|geburts(?:datum|tag)\w{0,2}|n[eé]e? le|naissance|nacid[oa]|nacimiento|fecha de nac\.?|nat[oa] il|nascita|nascid[oa]|nascimento|geboren|geboortedatum|födelsedatum|född|fødselsdato|født|syntymäaika|urodzon[yai]|urodzenia|narozen\w?)(?![\p{L}])|рожден|родил|生年月日|出生|생년월일)[^\d\n]{0,40}$/u
const AGE_BEFORE = /(?<![\p{L}\d])(?:aged?(?: of| is|:)?|turn(?:ed|s|ing)?|i am|i'm|he's|she's)(?: just)? $/u
const AGE_AFTER = /[ -](?:years?|yrs?|y|jahre?|ans|años|anni)[ -](?:old|of age|alt)(?!\w)|[ -]?y\/?o(?!\w)/iy
/** A number such as "4.17.21" is more often a version than a date. */
const VERSION = /^\d{1,2}\.\d{1,2}\.\d{2}$/
const DATE_CHARS = 48
const AGE_CHARS = 18
const NUMBERS_ONLY = /^[\d\-/.:TZ+ ]*$/i
const DAY_AND_MONTH =
  /^\d{1,4}(?:st?|nd?|rd?|th?|\.|er?|º)?,?(?:[ -](?:of?|d[ei]?)?)?(?:[ -]?\p{L}{0,10}\.?)?(?:,| del?| d)?[ -]?\d{0,4}$/iu

/** Finds calendar dates, dates of birth (by the words before them) and ages. */
export const dateRecognizer: Recognizer = {
  entities: ['DATE_OF_BIRTH', 'DATE', 'AGE'],
  scan(text, digits, wanted, report) {
    let open = text.length
    for (let digit = digits.next(0); digit >= 0; ) {
      const before = text.charCodeAt(digit - 1)
      let found = numberEnd(text, digit)
      if (!isWordCode(before) && !isPartOfLarger(before)) {
        const start = before === SPACE ? monthStart(text, digit) : digit
        const left = text.length - digit
        if ((wanted.has('AGE') && left < AGE_CHARS) || (left < DATE_CHARS && mayGoOn(text.slice(digit)))) {
          open = Math.min(open, start)
        }
        const end = start < digit || mayBeginDate(text, digit, found) ? dateEnd(text, digit, start < digit) : -1
        if (end > digit) {
          if (BIRTH.test(wordsBefore(text, start))) {
            report(start, end, wanted.has('DATE_OF_BIRTH') ? 'DATE_OF_BIRTH' : 'DATE', 0.88)
          } else if (!VERSION.test(text.slice(digit, end))) report(start, end, 'DATE', 0.6)
          found = end
        } else if (wanted.has('AGE') && found - digit <= 3 && isAge(text, digit, found))
          report(digit, found, 'AGE', 0.6)
        else if (wanted.has('DATE') && found - digit === 4) {
          YEAR.lastIndex = digit
          const year = YEAR.exec(text)?.[0]
          if (year !== undefined && YEAR_WORDS.test(tailBefore(text, digit)))
            report(digit, digit + year.length, 'DATE', 0.5)
        }
      }
      digit = digits.next(found)
    }
    if (wanted.has('DATE')) {
      for (const { index, 0: day } of text.matchAll(DAY_NAMES)) report(index, index + day.length, 'DATE', 0.5)
    }
    const tail = text.slice(-TAIL_CHARS)
    const beginning = NAME_BEGINNING.exec(tail)
    return beginning ? Math.min(open, text.length - tail.length + beginning.index) : open
  },
}

function tailBefore(text: string, digit: number): string {
  return text.slice(Math.max(0, digit - TAIL_CHARS), digit).toLowerCase()
}

/** Returns the start of the month name before the number, or the start of the number if no month name precedes it. */
function monthStart(text: string, digit: number): number {
  if (!mayEndMonth(text, digit - 1)) return digit
  const words = tailBefore(text, digit)
  const month = MONTH_BEFORE.exec(words)
  return month ? digit - words.length + month.index : digit
}

/**
 * Whether the last two letters before `end` may be the end of a month name. Words with non-ASCII letters always pass.
 */
function mayEndMonth(text: string, end: number): boolean {
  const [before, last] = [text.charCodeAt(end - 2), text.charCodeAt(end - 1)]
  if (last === POINT || before >= 128 || last >= 128) return true
  return MONTH_ENDINGS.has((before | LOWER) * 128 + (last | LOWER))
}

/** Whether the digits may begin a date. The result depends on the characters after the digits. */
function mayBeginDate(text: string, digit: number, end: number): boolean {
  const next = text.charCodeAt(end)
  if (end === text.length || joinsNumbers(next)) return end - digit <= 4
  return end - digit <= 2 && (next === SPACE ? beginsMonth(text.charCodeAt(end + 1)) : endsDay(next))
}

/** Returns the end of the date, or -1 if no date begins here. */
function dateEnd(text: string, digit: number, afterMonth: boolean): number {
  const pattern = afterMonth ? MONTH_FIRST : DATE
  pattern.lastIndex = digit
  const date = pattern.exec(text)?.[0]
  if (date === undefined || !(afterMonth || isPlausible(date))) return -1
  return digit + date.length
}

/**
 * Whether a numeric date contains a possible day and a possible month. Dates with a month name are always plausible.
 */
function isPlausible(date: string): boolean {
  if (/\p{L}{2}/u.test(date)) return true
  const numbers = date.slice(0, 10).split(/[-/.]/, 3).map(Number.parseFloat)
  const [one, other] = numbers.filter((number) => number <= 31)
  return one !== undefined && one > 0 && (other === undefined || (other > 0 && Math.min(one, other) <= 12))
}

function isAge(text: string, start: number, end: number): boolean {
  if (Number(text.slice(start, end)) > 120) return false
  AGE_AFTER.lastIndex = end
  return (
    AGE_AFTER.test(text) ||
    (AGE_BEFORE.test(tailBefore(text, start)) && !/^(?:[.,:]?\d|%|st|nd|rd|th)/.test(text.slice(end, end + 3)))
  )
}

function numberEnd(text: string, from: number): number {
  let end = from
  while (end < text.length && isDigit(text.charCodeAt(end))) end++
  return end
}

/** Whether the rest of the text may be the beginning of a date, or a whole date that later text may continue. */
function mayGoOn(rest: string): boolean {
  return NUMBERS_ONLY.test(rest) || DAY_AND_MONTH.test(rest)
}
