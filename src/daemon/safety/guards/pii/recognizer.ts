import type { PiiEntity } from '../../../../shared/pii-entities.ts'

/**
 * Finds some kinds of personal data in one pass. `report` receives every candidate, in any order. Candidates of
 * different recognizers may overlap. Returns the start of the first candidate that more text could still create, change
 * or lengthen. Returns `text.length` if there is no such candidate. Decisions about a candidate ignore text that
 * precedes it by more than CONTEXT_CHARS.
 */
export type Recognizer = {
  entities: readonly PiiEntity[]
  scan(text: string, digits: Digits, wanted: ReadonlySet<PiiEntity>, report: Report): number
}

export type Report = (start: number, end: number, type: PiiEntity, confidence: number) => void

/** The maximum distance between a candidate and the context words before it. */
export const CONTEXT_CHARS = 96

const BLANKS_AROUND = 4
const DIGIT_0 = 48
const DIGIT_9 = 57

export function isDigit(code: number): boolean {
  return code >= DIGIT_0 && code <= DIGIT_9
}

/**
 * Returns a test for a set of characters. The test takes a character code, because `text[at]` would create a string on
 * each access.
 */
export function oneOf(characters: string): (code: number) => boolean {
  const codes = new Set(Array.from(characters, (character) => character.charCodeAt(0)))
  const ascii = Uint8Array.from({ length: 128 }, (_, code) => (codes.has(code) ? 1 : 0))
  return (code) => (code < 128 ? ascii[code] === 1 : codes.has(code))
}

export function isAsciiLetter(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 65 && code <= 90)
}

/**
 * Whether the character is an ASCII letter, a digit or `_`. Letters of other scripts do not count: "电话13812345678" is a
 * word followed by a number.
 */
export function isWordCode(code: number): boolean {
  return isDigit(code) || isAsciiLetter(code) || code === 95
}

const DIGITS = /\d+/g

/** The positions of a text's digits, shared by all recognizers of numbers. */
export class Digits {
  readonly #text: string
  /** The end offset of each run of digits. */
  readonly #ends: number[] = []
  #at = 0
  #last = 0

  constructor(text: string) {
    this.#text = text
    const ends = this.#ends
    DIGITS.lastIndex = 0
    while (DIGITS.test(text)) ends.push(DIGITS.lastIndex)
  }

  /** Returns the first digit at or after `from`, or -1 if there is none. */
  next(from: number): number {
    const text = this.#text
    const ends = this.#ends
    if (from < this.#last) this.#at = 0
    this.#last = from
    while (this.#at < ends.length && (ends[this.#at] as number) <= from) this.#at++
    if (this.#at === ends.length) return -1
    if (isDigit(text.charCodeAt(from))) return from
    let start = (ends[this.#at] as number) - 1
    while (isDigit(text.charCodeAt(start - 1))) start--
    return start
  }
}

/**
 * Returns the start of the word that contains the character at `index - 1`. Returns `index` if that character is not
 * part of a word.
 */
export function wordStart(text: string, index: number): number {
  let start = index
  while (start > 0 && isWordCode(text.charCodeAt(start - 1))) start--
  return start
}

export function wordEnd(text: string, index: number): number {
  let end = index
  while (end < text.length && isWordCode(text.charCodeAt(end))) end++
  return end
}

/**
 * Returns the words before a candidate, in lower case, back to the previous digit. Because of this limit, each word of
 * a text is read for only one number.
 */
export function wordsBefore(text: string, start: number): string {
  return textBefore(text, start).toLowerCase()
}

/** Like `wordsBefore`, but keeps the original case. */
export function textBefore(text: string, start: number): string {
  let from = start
  while (from > 0 && start - from < CONTEXT_CHARS && !isDigit(text.charCodeAt(from - 1))) from--
  return text.slice(from, start)
}

/** Whether another digit group precedes the digits, so that they are the rest of a longer number. */
export function followsGroup(text: string, start: number): boolean {
  if (text[start - 1] !== ' ') return false
  for (let index = start - 2; index >= 0 && start - index < 8 && isWordCode(text.charCodeAt(index)); index--) {
    if (isDigit(text.charCodeAt(index))) return true
  }
  return false
}

/** Whether the value is the only text on its line, except for quotes and bullets. */
export function isAlone(text: string, start: number, end: number): boolean {
  let before = start
  while (before > 0 && start - before < BLANKS_AROUND && ' \t"\'>*-'.includes(text[before - 1]!)) before--
  let after = end
  while (after < text.length && after - end < BLANKS_AROUND && ' \t"\'.,;'.includes(text[after]!)) after++
  return isLineBreak(text[before - 1]) && isLineBreak(text[after])
}

function isLineBreak(character: string | undefined): boolean {
  return character === undefined || character === '\n' || character === '\r'
}

/** Returns the start of the next line, or -1 if there is no further line. */
export function lineAfter(text: string, at: number): number {
  const end = text.indexOf('\n', at)
  return end < 0 ? -1 : end + 1
}
