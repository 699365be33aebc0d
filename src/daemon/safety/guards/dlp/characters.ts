/** A set of ASCII characters as a table. A lookup is faster than a regular expression and takes constant time. */
export type CharacterSet = Uint8Array

const SIZE = 128

export function characterSet(members: string): CharacterSet {
  const set = new Uint8Array(SIZE)
  for (let at = 0; at < members.length; at += 1) set[members.charCodeAt(at)] = 1
  return set
}

export const has = (set: CharacterSet, code: number): boolean => set[code] === 1

/** Returns the end of the run of `set` characters that starts at `at`, or `limit` if the run is longer. */
export function endOf(set: CharacterSet, text: string, at: number, limit = text.length): number {
  let end = at
  while (end < limit && set[text.charCodeAt(end)] === 1) end += 1
  return end
}

const DIGITS = '0123456789'
const LOWER = 'abcdefghijklmnopqrstuvwxyz'
const UPPER = LOWER.toUpperCase()

export const DIGIT = characterSet(DIGITS)
export const HEX = characterSet(`${DIGITS}abcdefABCDEF`)
export const LETTER = characterSet(LOWER + UPPER)
export const UPPERCASE_OR_DIGIT = characterSet(UPPER + DIGITS)
export const ALPHANUMERIC = characterSet(LOWER + UPPER + DIGITS)
/** The characters of variable names. */
export const WORD = characterSet(`${LOWER}${UPPER}${DIGITS}_`)
/** The characters of setting names, and of tokens with several parts. */
export const NAME = characterSet(`${LOWER}${UPPER}${DIGITS}_.-`)
/** The characters of tokens, including the separators of their parts. */
export const PARTS = characterSet(`${LOWER}${UPPER}${DIGITS}_.-=!`)
/** The characters of URL paths. */
export const PATH = characterSet(`${LOWER}${UPPER}${DIGITS}_.-@/`)
/** base64url. */
export const SLUG = characterSet(`${LOWER}${UPPER}${DIGITS}_-`)
export const BASE64 = characterSet(`${LOWER}${UPPER}${DIGITS}+/=`)

/** The characters that end a token: whitespace, quotes, brackets and list separators. */
const DELIMITERS = characterSet('"\'`<>(){}[],;|\\')
/** The characters of tokens, addresses and passwords that contain no whitespace. */
export const RUN: CharacterSet = Uint8Array.from({ length: SIZE }, (_, code) =>
  code > 0x20 && code < 0x7f && DELIMITERS[code] === 0 ? 1 : 0,
)
