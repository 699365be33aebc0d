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
  nextDigit,
  type Recognizer,
  type Report,
  textBefore,
  wordEnd,
  wordStart,
  wordsBefore,
} from './recognizer.ts'
import { isWalletAddress } from './wallets.ts'

/** No number is longer, its separators included; no word of letters and digits is, either. */
const NUMBER_CHARS = 48
const WORD_CHARS = 80
/** What is read behind a number: a separator, three more digits, and blanks up to the end of its line. */
const LOOK_AHEAD_CHARS = 6
const LEADING_LETTERS = 3
const SHORTEST_WALLET = 26
/** A word of two letters, and what stands around it. */
const SHORTEST_LABEL = 3

const DIGIT_RULES = rulesByHead('digit')
const LETTER_RULES = rulesByHead('letter')
const CODICE_FISCALE_RULES = IDENTITY_RULES.filter(({ entity }) => entity === 'IT_CODICE_FISCALE')
const CARD_HEADS = new Set([4, 12, 13, 14, 15, 16, 17, 18, 19])

const SEPARATORS = ' -./'
const ALL_LETTERS = /(?<!\w)[A-Z]{16}(?!\w)/g
const OPENS_WITH_LETTERS = /(?<!\w)[A-Za-z]{1,3}[ -]$/

/** Cards, accounts, wallets and the numbers by which states know people. Every one starts at a word that has a digit. */
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
  scan(text, _wanted, report) {
    let open = trailingWordStart(text)
    for (let digit = nextDigit(text, 0); digit >= 0; ) {
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
      digit = nextDigit(text, found)
    }
    // A codice fiscale may have letters only.
    ALL_LETTERS.lastIndex = 0
    while (ALL_LETTERS.test(text)) scanRules(text, ALL_LETTERS.lastIndex - 16, CODICE_FISCALE_RULES, report)
    return open
  },
}

type Word = { start: number; end: number; from: number }

/** @returns where the last of what was found ends */
function scanWord(text: string, { start, end, from }: Word, report: Report): number {
  if (end - start >= SHORTEST_WALLET && isWalletAddress(text.slice(start, end))) {
    report(start, end, 'CRYPTO_WALLET', 0.95)
    return end
  }
  if (!startsCleanly(text, start)) return end
  let found = end
  if (isDigit(text.charCodeAt(start))) {
    const head = headEnd(text, start, isDigit) - start
    if (CARD_HEADS.has(head)) found = Math.max(found, scanCard(text, start, report))
    found = Math.max(found, scanRules(text, start, DIGIT_RULES.get(head), report))
  }
  const led = from < start && startsCleanly(text, from) ? from : start
  if (isAsciiLetter(text.charCodeAt(led))) {
    const head = headEnd(text, led, isAsciiLetter) - led
    found = Math.max(found, scanRules(text, led, LETTER_RULES.get(head), report))
  }
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

function scanRules(text: string, start: number, rules: readonly IdentityRule[] | undefined, report: Report): number {
  let found = start
  for (const { entity, pattern, words, withoutWords, isValid, confidence } of rules ?? []) {
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

/** @param from where letters begin that may belong to the number at `start` */
function scanLabelled(text: string, from: number, start: number, report: Report): number {
  const before = textBefore(text, from)
  if (before.length < SHORTEST_LABEL) return start
  // Most numbers are too short to be looked at for what stands before them.
  const { length, digits } = sizeOf(text, from, runEnd(text, start))
  const rules = LABELLED_RULES.filter((rule) => length >= rule.minLength && digits >= rule.minDigits)
  if (rules.length === 0) return start
  const words = before.toLowerCase()
  for (const rule of rules) {
    const end = rule.label.test(words) ? labelledEnd(text, from, start, rule) : start
    if (end === start) continue
    report(from, end, rule.entity, 0.8)
    return end
  }
  return start
}

/** How many letters and digits there are, and how many of them are digits. */
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

/** The longest number there that the label can mean, whole words only; `start` when there is none. */
function labelledEnd(text: string, from: number, start: number, rule: LabelledRule): number {
  const until = runEnd(text, start)
  for (let end = until; end > start; end--) {
    if (end < until && !SEPARATORS.includes(text[end]!)) continue
    const compact = compactOf(text.slice(from, end))
    if (compact.length > rule.maxLength) continue
    const isNumber = compact.length >= rule.minLength && compact.replace(/\D/g, '').length >= rule.minDigits
    return isNumber ? end : start
  }
  return start
}

/** The number reaches the end of the text, or what is read behind it does. */
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

/** Where a word begins that more text could lengthen: into a number, or into one that a letter or three lead. */
function trailingWordStart(text: string): number {
  const tail = text.slice(-4)
  const letters = OPENS_WITH_LETTERS.exec(tail)
  if (letters) return text.length - tail.length + letters.index
  const start = wordStart(text, text.length)
  return text.length - start > WORD_CHARS ? text.length : startWithLetters(text, start)
}

/** "AB 12 34 56 C", "X-1234567-L": one to three letters, a blank or hyphen, then the digits. */
function startWithLetters(text: string, start: number): number {
  if (isAsciiLetter(text.charCodeAt(start))) return start
  const separator = text[start - 1]
  if (separator !== ' ' && separator !== '-') return start
  let from = start - 1
  while (from > 0 && start - 1 - from <= LEADING_LETTERS && isAsciiLetter(text.charCodeAt(from - 1))) from--
  const letters = start - 1 - from
  return letters >= 1 && letters <= LEADING_LETTERS && !isWordCode(text.charCodeAt(from - 1)) ? from : start
}

/** A number that hangs on another one, on an amount or on an international prefix is not one of its own. */
function startsCleanly(text: string, start: number): boolean {
  const before = text[start - 1]
  if (before === undefined) return true
  if ('+$€£¥'.includes(before)) return false
  if (!'-./'.includes(before)) return true
  let index = start - 2
  while (index >= 0 && start - index < WORD_CHARS && isWordCode(text.charCodeAt(index))) {
    if (isDigit(text.charCodeAt(index))) return false
    index--
  }
  return true
}

/** The end of words that hang together by single separators, each of them after the first with three letters at most
 * before its digits; NUMBER_CHARS from `start` at most. */
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
      if (!hasDigit || !SEPARATORS.includes(text[index]!)) return end
      hasDigit = false
      word = index + 1
    }
  }
  return end
}
