// Finds cards, accounts, wallets and national identity numbers. This file is long, because each number type has its own
// checks.
import { CARD_PATTERN, CARD_WORDS, isCardNumber, isUsualCard } from './cards.ts'
import { readIban } from './ibans.ts'
import { IDENTITY_RULES, type IdentityRule } from './identity-rules.ts'
import { LABELLED_RULES, type LabelledRule } from './labelled-rules.ts'
import {
  followsGroup,
  isAlone,
  isAsciiLetter,
  isDigit,
  isWordCode,
  oneOf,
  type Recognizer,
  type Report,
  wordEnd,
  wordStart,
  wordsBefore,
} from './recognizer.ts'
import { isWalletAddress } from './wallets.ts'

/** The maximum length of a number with its separators, and of a word that mixes letters and digits. */
const NUMBER_CHARS = 48
const WORD_CHARS = 80
/**
 * How many characters are read after a number: a separator, three more digits, and spaces up to the end of the line.
 */
const LOOK_AHEAD_CHARS = 6
const LEADING_LETTERS = 3
const SHORTEST_WALLET = 26
/** The minimum length of a label: two letters, and the characters around them. */
const SHORTEST_LABEL = 3

const DIGIT_RULES = rulesByHead('digit')
const LETTER_RULES = rulesByHead('letter')
const CODICE_FISCALE_RULES = IDENTITY_RULES.filter(({ entity }) => entity === 'IT_CODICE_FISCALE')
/** The minimum number of digits of a card or a labelled number. */
const CARD_DIGITS = 12
/** The largest number of digits that any rule requires. */
const ENOUGH_DIGITS = Math.max(CARD_DIGITS, ...IDENTITY_RULES.map(({ minDigits }) => minDigits))
const LABELLED_DIGITS = Math.min(...LABELLED_RULES.map(({ minDigits }) => minDigits))
const SPACE = 32
const HYPHEN = 45
const CARD_HEADS = new Set([4, 12, 13, 14, 15, 16, 17, 18, 19])

const isSeparator = oneOf(' -./')
/** Whether the character may join digit groups. The separators in all patterns are between U+0020 and U+002F. */
const joins = (code: number): boolean => code >= 0x20 && code <= 0x2f
const CODICE_FISCALE_CHARS = 16
const leadsAmount = oneOf('+$€£¥')
const hangsOn = oneOf('-./')
const OPENS_WITH_LETTERS = /(?<!\w)[A-Za-z]{1,3}[ -]$/

/** Finds cards, accounts, wallets and national identity numbers. Each value starts at a word that contains a digit. */
export const identityRecognizer: Recognizer = {
  entities: [
    'CREDIT_CARD',
    'IBAN',
    'CRYPTO_WALLET',
    'PASSPORT',
    'DRIVER_LICENSE',
    'NATIONAL_ID',
    ...IDENTITY_RULES.map(({ entity }) => entity),
  ],
  scan(text, digits, _wanted, report) {
    let open = trailingWordStart(text)
    for (let digit = digits.next(0); digit >= 0; ) {
      const start = wordStart(text, digit)
      const word = { start, end: wordEnd(text, digit), from: startWithLetters(text, start) }
      let found = word.end
      if (word.end - start <= WORD_CHARS) {
        if (start + NUMBER_CHARS + LOOK_AHEAD_CHARS > text.length && mayGoOn(text, start))
          open = Math.min(open, word.from)
        const iban = readIban(text, word.from)
        if (iban?.isOpen) open = Math.min(open, word.from)
        if (iban?.isValid) report(word.from, iban.end, 'IBAN', 0.99)
        found = iban?.isValid ? iban.end : scanWord(text, word, report)
      }
      digit = digits.next(found)
    }
    // A codice fiscale may contain no digits, so a separate search finds it.
    for (const start of lettersOnly(text)) scanRules(text, start, CODICE_FISCALE_RULES, 0, report)
    return open
  },
}

type Word = { start: number; end: number; from: number }

/** @returns the end of the last finding */
function scanWord(text: string, { start, end, from }: Word, report: Report): number {
  if (end - start >= SHORTEST_WALLET && isWalletAddress(text.slice(start, end))) {
    report(start, end, 'CRYPTO_WALLET', 0.95)
    return end
  }
  if (!startsCleanly(text, start)) return end
  const digits = digitsFrom(text, start)
  let found = end
  if (isDigit(text.charCodeAt(start))) {
    const head = headEnd(text, start, isDigit) - start
    if (digits >= CARD_DIGITS && CARD_HEADS.has(head)) found = Math.max(found, scanCard(text, start, report))
    found = Math.max(found, scanRules(text, start, DIGIT_RULES.get(head), digits, report))
  }
  const led = from < start && startsCleanly(text, from) ? from : start
  if (isAsciiLetter(text.charCodeAt(led))) {
    const head = headEnd(text, led, isAsciiLetter) - led
    found = Math.max(found, scanRules(text, led, LETTER_RULES.get(head), digits, report))
  }
  // Searches for a label only if the number is long enough for a labelled rule.
  if (digits < LABELLED_DIGITS) return found
  const isCode = text.slice(led, start) === text.slice(led, start).toUpperCase()
  return Math.max(found, scanLabelled(text, isCode ? led : start, start, report))
}

function scanCard(text: string, start: number, report: Report): number {
  CARD_PATTERN.lastIndex = start
  const value = CARD_PATTERN.exec(text)?.[0]
  if (value === undefined) return start
  const digits = compactOf(value)
  const end = start + value.length
  if (!isCardNumber(digits)) return start
  const explained = CARD_WORDS.test(wordsBefore(text, start)) || isAlone(text, start, end)
  if (!explained && !isUsualCard(digits)) return start
  report(start, end, 'CREDIT_CARD', explained ? 0.99 : 0.92)
  return end
}

/** @param digits an upper bound of the number of digits at `start` */
function scanRules(
  text: string,
  start: number,
  rules: readonly IdentityRule[] | undefined,
  digits: number,
  report: Report,
): number {
  let found = start
  for (const { entity, minDigits, pattern, words, withoutWords, isValid, confidence } of rules ?? []) {
    if (digits < minDigits) continue
    pattern.lastIndex = start
    const value = pattern.exec(text)?.[0]
    if (value === undefined) continue
    const end = start + value.length
    const explained = words.test(wordsBefore(text, start))
    if (!isValid(compactOf(value), explained)) continue
    const needs = withoutWords(value)
    if (!explained && needs !== 'always' && !(needs === 'alone' && isAlone(text, start, end))) continue
    if (!explained && value.includes(' ') && followsGroup(text, start)) continue
    report(start, end, entity, explained ? 0.98 : confidence)
    found = Math.max(found, end)
  }
  return found
}

/** @param from the index where the number may begin, if letters before `start` are part of it */
function scanLabelled(text: string, from: number, start: number, report: Report): number {
  if (textIsShort(text, from)) return start
  const { length, digits } = sizeOf(text, from, runEnd(text, start))
  const rules = LABELLED_RULES.filter((rule) => length >= rule.minLength && digits >= rule.minDigits)
  if (rules.length === 0) return start
  const words = wordsBefore(text, from)
  for (const rule of rules) {
    const end = rule.label.test(words) ? labelledEnd(text, from, start, rule) : start
    if (end === start) continue
    report(from, end, rule.entity, 0.8)
    return end
  }
  return start
}

/** Whether the text between the previous digit and `at` is too short for a label. */
function textIsShort(text: string, at: number): boolean {
  if (at < SHORTEST_LABEL) return true
  for (let index = at - SHORTEST_LABEL; index < at; index++) if (isDigit(text.charCodeAt(index))) return true
  return false
}

/** Returns two counts: letters and digits together, and digits alone. */
function sizeOf(text: string, from: number, to: number): { length: number; digits: number } {
  let length = 0
  let digits = 0
  for (let index = from; index < to; index++) {
    const code = text.charCodeAt(index)
    if (isDigit(code)) digits++
    if (isDigit(code) || isAsciiLetter(code)) length++
  }
  return { length, digits }
}

/**
 * Returns the end of the longest number to which the label can refer. The number consists of whole words. Returns
 * `start` if there is no such number.
 */
function labelledEnd(text: string, from: number, start: number, rule: LabelledRule): number {
  const until = runEnd(text, start)
  for (let end = until; end > start; end--) {
    if (end < until && !isSeparator(text.charCodeAt(end))) continue
    const compact = compactOf(text.slice(from, end))
    if (compact.length > rule.maxLength) continue
    const isNumber = compact.length >= rule.minLength && compact.replace(/\D/g, '').length >= rule.minDigits
    return isNumber ? end : start
  }
  return start
}

/** Whether the end of the text follows the number so closely that later text may change the decision. */
function mayGoOn(text: string, start: number): boolean {
  return runEnd(text, start) + LOOK_AHEAD_CHARS > text.length
}

function rulesByHead(startsWith: IdentityRule['startsWith']): ReadonlyMap<number, readonly IdentityRule[]> {
  const rules = new Map<number, IdentityRule[]>()
  for (const rule of IDENTITY_RULES.filter((each) => each.startsWith === startsWith)) {
    for (const head of rule.heads) rules.set(head, [...(rules.get(head) ?? []), rule])
  }
  return rules
}

function headEnd(text: string, start: number, isOfHead: (code: number) => boolean): number {
  let end = start
  while (end < text.length && end - start < WORD_CHARS && isOfHead(text.charCodeAt(end))) end++
  return end
}

function compactOf(value: string): string {
  return value.replace(/[^A-Za-z0-9]/g, '').toUpperCase()
}

/**
 * Returns the start of a word that more text could extend to a number. Such a word may have up to three leading
 * letters.
 */
function trailingWordStart(text: string): number {
  const tail = text.slice(-4)
  const letters = OPENS_WITH_LETTERS.exec(tail)
  if (letters) return text.length - tail.length + letters.index
  const start = wordStart(text, text.length)
  return text.length - start > WORD_CHARS ? text.length : startWithLetters(text, start)
}

/**
 * Returns the start of a number including its leading letters. One to three letters may precede the digits, with a
 * space or hyphen in between ("AB 12 34 56 C", "X-1234567-L").
 */
function startWithLetters(text: string, start: number): number {
  if (isAsciiLetter(text.charCodeAt(start))) return start
  const separator = text.charCodeAt(start - 1)
  if (separator !== SPACE && separator !== HYPHEN) return start
  let from = start - 1
  while (from > 0 && start - 1 - from <= LEADING_LETTERS && isAsciiLetter(text.charCodeAt(from - 1))) from--
  const letters = start - 1 - from
  return letters >= 1 && letters <= LEADING_LETTERS && !isWordCode(text.charCodeAt(from - 1)) ? from : start
}

/**
 * Whether a new number starts at `start`. Digits are not a new number if they continue another number, an amount or an
 * international prefix.
 */
function startsCleanly(text: string, start: number): boolean {
  const before = text.charCodeAt(start - 1)
  if (leadsAmount(before)) return false
  if (!hangsOn(before)) return true
  let index = start - 2
  while (index >= 0 && start - index < WORD_CHARS && isWordCode(text.charCodeAt(index))) {
    if (isDigit(text.charCodeAt(index))) return false
    index--
  }
  return true
}

/** Returns the positions of words with exactly CODICE_FISCALE_CHARS capital letters. */
function lettersOnly(text: string): number[] {
  const starts: number[] = []
  // Checks only every 16th position, because each word of 16 letters covers one of these positions.
  for (let index = CODICE_FISCALE_CHARS - 1; index < text.length; index += CODICE_FISCALE_CHARS) {
    if (!isCapital(text.charCodeAt(index))) continue
    let start = index
    while (index - start < CODICE_FISCALE_CHARS && isCapital(text.charCodeAt(start - 1))) start--
    const end = start + CODICE_FISCALE_CHARS
    if (end <= index || isWordCode(text.charCodeAt(start - 1)) || isWordCode(text.charCodeAt(end))) continue
    let last = index
    while (last < end && isCapital(text.charCodeAt(last))) last++
    if (last === end) starts.push(start)
  }
  return starts
}

function isCapital(code: number): boolean {
  return code >= 65 && code <= 90
}

/** Returns the maximum digit count of a number that begins in the word at `start`. Stops counting at ENOUGH_DIGITS. */
function digitsFrom(text: string, start: number): number {
  let digits = 0
  let before = 0
  const limit = Math.min(text.length, start + NUMBER_CHARS)
  for (let index = start; index < limit && digits < ENOUGH_DIGITS; index++) {
    const code = text.charCodeAt(index)
    if (isDigit(code)) digits++
    else if (!isWordCode(code)) {
      // A group without a digit ends the number.
      if (!joins(code) || digits === before) return digits
      before = digits
    }
  }
  return digits
}

/**
 * Returns the end of a sequence of words that single separators join. Each word after the first must have at most three
 * letters before its digits. The sequence ends at most NUMBER_CHARS after `start`.
 */
function runEnd(text: string, start: number): number {
  let end = start
  for (
    let index = start, word = start, hasDigit = false;
    index < text.length && index - start < NUMBER_CHARS;
    index++
  ) {
    const code = text.charCodeAt(index)
    if (isDigit(code)) hasDigit = true
    if (isWordCode(code)) {
      if (hasDigit) end = index + 1
      else if (word !== start && index - word >= LEADING_LETTERS) return end
    } else {
      if (!hasDigit || !isSeparator(code)) return end
      hasDigit = false
      word = index + 1
    }
  }
  return end
}
