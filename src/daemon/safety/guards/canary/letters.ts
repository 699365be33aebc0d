import { ANY_SHAPE } from '../look-alikes.ts'

const A = 0x61
const NONE = -1
/** A lookup table for ASCII characters, by character code. */
const ASCII = Int8Array.from({ length: 128 }, (_, code) => {
  const lower = code | 0x20
  return /[A-Za-z]/.test(String.fromCharCode(code)) ? lower - A : NONE
})
const OTHERS = new Map<number, number>()
/**
 * The maximum number of cached characters. Without a limit, hostile texts could fill the cache with a million code
 * points.
 */
const MAX_OTHERS = 4_096

/** Returns the index of the letter (a = 0 to z = 25), or a negative number for other characters. */
export const plainLetterOf = (code: number): number => (code < 128 ? (ASCII[code] as number) : NONE)

/**
 * Returns the index (a = 0 to z = 25) of the letter that a character is or looks like. Returns a negative number for
 * all other characters.
 */
export function letterOf(codePoint: number): number {
  if (codePoint < 128) return plainLetterOf(codePoint)
  let letter = OTHERS.get(codePoint)
  if (letter === undefined) {
    letter = otherLetterOf(String.fromCodePoint(codePoint))
    if (OTHERS.size >= MAX_OTHERS) OTHERS.clear()
    OTHERS.set(codePoint, letter)
  }
  return letter
}

function otherLetterOf(character: string): number {
  const lower = character.toLowerCase()
  const plain = ANY_SHAPE.get(lower) ?? ANY_SHAPE.get(character) ?? character.normalize('NFKD').toLowerCase()
  // Uses the first letter, because some characters represent several letters, or a letter in brackets.
  const [letter] = /[a-z]/.exec(plain) ?? []
  return letter === undefined ? NONE : letter.charCodeAt(0) - A
}

const SIGNS: Record<string, string> = {
  '0': 'o',
  '2': 'z',
  '3': 'e',
  '4': 'a',
  '5': 's',
  '7': 't',
  '8': 'b',
  '9': 'g',
  '@': 'a',
  $: 's',
}
const OF_SIGNS = Int8Array.from({ length: 128 }, (_, code) => {
  const letter = SIGNS[String.fromCharCode(code)]
  return letter === undefined ? NONE : letter.charCodeAt(0) - A
})

/** Returns the index of the letter that this digit or symbol can replace, or a negative number for other characters. */
export const letterOfSign = (code: number): number => (code < 128 ? (OF_SIGNS[code] as number) : NONE)

export const isHighSurrogate = (code: number): boolean => (code & 0xfc00) === 0xd800
export const isLowSurrogate = (code: number): boolean => (code & 0xfc00) === 0xdc00
export const codePointOf = (high: number, low: number): number => (high - 0xd800) * 0x400 + low - 0xdc00 + 0x10000

/** A lookup table for ASCII characters, by character code. */
const HEX_VALUE = Int8Array.from({ length: 128 }, (_, code) => {
  const value = Number.parseInt(String.fromCharCode(code), 16)
  return Number.isNaN(value) ? NONE : value
})

/** Returns the value of a hex digit, or a negative number for other characters. */
export const hexValueOf = (code: number): number => (code < 128 ? (HEX_VALUE[code] as number) : NONE)
