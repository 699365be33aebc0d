import type { PiiEntity } from '../../../../shared/pii-entities.ts'

/**
 * Finds some entities in one pass. `report` gets every candidate, in any order; those of different recognizers may overlap.
 * Returns where the first candidate begins that more text could still bring about, change or lengthen; text.length when
 * there is none. What it decides of a candidate depends on CONTEXT_CHARS before it, never on what came earlier.
 */
export type Recognizer = {
  entities: readonly PiiEntity[]
  scan(text: string, digits: Digits, wanted: ReadonlySet<PiiEntity>, report: Report): number
}

export type Report = (start: number, end: number, type: PiiEntity, confidence: number) => void

/** How far back from a candidate its recognizer reads for the words that explain it. */
export const CONTEXT_CHARS = 96

const BLANKS_AROUND = 4
const DIGIT_0 = 48
const DIGIT_9 = 57

export function isDigit(code: number): boolean {
  return code >= DIGIT_0 && code <= DIGIT_9
}

/** A test for a few characters, which costs no string of one character each time: `text[at]` does. */
export function oneOf(characters: string): (code: number) => boolean {
  const codes = new Set(Array.from(characters, (character) => character.charCodeAt(0)))
  const ascii = Uint8Array.from({ length: 128 }, (_, code) => (codes.has(code) ? 1 : 0))
  return (code) => (code < 128 ? ascii[code] === 1 : codes.has(code))
}

export function isAsciiLetter(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 65 && code <= 90)
}

/** Letters, digits and `_`. Other scripts do not count: "电话13812345678" is a word and a number. */
export function isWordCode(code: number): boolean {
  return isDigit(code) || isAsciiLetter(code) || code === 95
}

const DIGITS = /\d+/g

/** Where the digits of a text are, for all who look at its numbers one after another. */
export class Digits {
  readonly #text: string
  /** Where each row of them ends. */
  readonly #ends: number[] = []
  #at = 0
  #last = 0

  constructor(text: string) {
    this.#text = text
    const ends = this.#ends
    DIGITS.lastIndex = 0
    while (DIGITS.test(text)) ends.push(DIGITS.lastIndex)
  }

  /** The first digit at or after `from`; -1 when there is none. */
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

/** Where the word begins that the character before `index` belongs to; `index` itself when that is no word character. */
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
 * The words before a candidate, in lower case, back to the digit before them: so every stretch of text is looked at for one
 * number only.
 */
export function wordsBefore(text: string, start: number): string {
  return textBefore(text, start).toLowerCase()
}

/** The same as it is written. */
export function textBefore(text: string, start: number): string {
  let from = start
  while (from > 0 && start - from < CONTEXT_CHARS && !isDigit(text.charCodeAt(from - 1))) from--
  return text.slice(from, start)
}

/** Behind another group of digits: the rest of a longer number rather than one of its own. */
export function followsGroup(text: string, start: number): boolean {
  if (text[start - 1] !== ' ') return false
  for (let index = start - 2; index >= 0 && start - index < 8 && isWordCode(text.charCodeAt(index)); index--) {
    if (isDigit(text.charCodeAt(index))) return true
  }
  return false
}

/** On its line there is nothing else, quotes and bullets apart. */
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
