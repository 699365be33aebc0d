// How guards read one character: one table for the prompt shield, personal data, secrets and canaries.
import { LATIN_OF } from '../../../platform/text/look-alikes.ts'

const NOT_ASCII = /[^\0-\x7f]/
export const isAscii = (text: string): boolean => !NOT_ASCII.test(text)

/** Characters without a shape: joiners, direction marks, fillers, variation selectors, tags. */
const INVISIBLE = /^(?:\p{Default_Ignorable_Code_Point}|[\u2028\u2029\ufff9-\ufffb])$/u
const SPACE = /^\p{Zs}$/u
/** U+30FC lengthens a vowel in Japanese, and U+301C is a range mark there. Neither is a hyphen. */
const DASH = /^(?:\p{Pd}|[\u2043\u2212\u02d7])$/u
const WAVE_DASHES = new Set(['\u301c', '\u3030', '\ufe31', '\ufe32'])
const DIGIT = /^\p{Nd}$/u
const LINE_END = /^[\u0085\u2028\u2029]$/

const [TAGS_FROM, TAGS_TO] = [0xe0020, 0xe007e]
const TAG_BASE = 0xe0000
/** Blocks of letters in boxes and flags, which Unicode normalization leaves unchanged: the first character of each. */
const BOXED_ALPHABETS = [0x1f130, 0x1f150, 0x1f170, 0x1f1e6]
const ALPHABET = 26

/** The maximum number of cached characters. Without a limit, hostile texts could cache a million characters. */
const CACHED = 8_192
const known = new Map<number, string>()

/**
 * Returns how a guard reads a character that is not ASCII: its plain form, an empty string for an invisible character,
 * or the character itself. A tag character stands for an ASCII character.
 */
export function plainOf(point: number): string {
  let plain = known.get(point)
  if (plain === undefined) {
    plain = read(point)
    if (known.size >= CACHED) known.clear()
    known.set(point, plain)
  }
  return plain
}

function read(point: number): string {
  const char = String.fromCodePoint(point)
  if (point < 128) return char
  if (point >= TAGS_FROM && point <= TAGS_TO) return String.fromCharCode(point - TAG_BASE)
  if (LINE_END.test(char)) return '\n'
  if (INVISIBLE.test(char)) return ''
  if (SPACE.test(char)) return ' '
  if (DASH.test(char) && !WAVE_DASHES.has(char)) return '-'
  if (DIGIT.test(char)) return digitOf(point)
  const block = BOXED_ALPHABETS.find((from) => point >= from && point < from + ALPHABET)
  if (block !== undefined) return String.fromCharCode(0x41 + point - block)
  const normal = char.normalize('NFKC')
  // One character may normalize to several, of which some have a plainer form, such as a superscript minus.
  return normal === char ? char : Array.from(normal, (one) => plainOf(one.codePointAt(0) as number)).join('')
}

/** Decimal digits of every script are in blocks of ten, in ascending order (Unicode, stability policy). */
function digitOf(point: number): string {
  let zero = point
  while (DIGIT.test(String.fromCodePoint(zero - 1))) zero--
  return String((point - zero) % 10)
}

const letters = new Map<number, number>()
const A = 0x61
const NO_LETTER = -1
const ASCII_LETTERS = Int8Array.from({ length: 128 }, (_, code) => {
  const lower = code | 0x20
  return lower >= A && lower < A + ALPHABET && code >= 0x41 ? lower - A : NO_LETTER
})

/** Returns the index (a = 0 to z = 25) of an ASCII letter, or a negative number for other characters. */
export const plainLetterOf = (code: number): number => (code < 128 ? (ASCII_LETTERS[code] as number) : NO_LETTER)

/**
 * Returns the index (a = 0 to z = 25) of the letter that a character is or looks like. Returns a negative number for
 * all other characters.
 */
export function letterOf(point: number): number {
  if (point < 128) return plainLetterOf(point)
  let letter = letters.get(point)
  if (letter === undefined) {
    const plain = plainOf(point)
    const shape = LATIN_OF.get(plain) ?? plain.normalize('NFKD')
    // Some characters stand for several letters or for a letter in brackets; the first letter counts.
    const [first] = /[A-Za-z]/.exec(shape) ?? []
    letter = first === undefined ? NO_LETTER : plainLetterOf(first.charCodeAt(0))
    if (letters.size >= CACHED) letters.clear()
    letters.set(point, letter)
  }
  return letter
}

/** Leetspeak: digits and symbols, and the letter that each can stand for. */
export const LEET: Readonly<Record<string, string>> = {
  0: 'o',
  1: 'i',
  2: 'z',
  3: 'e',
  4: 'a',
  5: 's',
  7: 't',
  8: 'b',
  9: 'g',
  '@': 'a',
  $: 's',
  '!': 'i',
  '|': 'l',
  '+': 't',
  '€': 'e',
}

const SIGNS = Int8Array.from({ length: 128 }, (_, code) => {
  const sign = String.fromCharCode(code)
  const letter = /[02-9@$]/.test(sign) ? LEET[sign] : undefined
  return letter === undefined ? NO_LETTER : plainLetterOf(letter.charCodeAt(0))
})

/**
 * Returns the index of the letter that a digit, `@` or `$` can stand for inside a word. Returns a negative number for
 * other characters. The digit 1 stands for several letters.
 */
export const letterOfSign = (code: number): number => (code < 128 ? (SIGNS[code] as number) : NO_LETTER)

export const isHighSurrogate = (code: number): boolean => (code & 0xfc00) === 0xd800
export const isLowSurrogate = (code: number): boolean => (code & 0xfc00) === 0xdc00
export const codePointOf = (high: number, low: number): number => (high - 0xd800) * 0x400 + low - 0xdc00 + 0x10000

/** Returns the value of a hex digit, or a negative number for other characters. */
export function hexValueOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const lower = code | 0x20
  return lower >= A && lower <= 0x66 && code < 128 ? lower - A + 10 : -1
}
