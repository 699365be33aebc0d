/** Sets of ASCII characters as tables: a lookup is cheaper than a pattern, and its cost does not depend on the text. */
export type CharacterSet = Uint8Array

const SIZE = 128

export function characterSet(members: string): CharacterSet {
  const set = new Uint8Array(SIZE)
  for (let at = 0; at < members.length; at += 1) set[members.charCodeAt(at)] = 1
  return set
}

export const has = (set: CharacterSet, code: number): boolean => set[code] === 1

/** Where the characters of `set` that begin at `at` end; no further than `limit`. */
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
/** What names of variables are made of. */
export const WORD = characterSet(`${LOWER}${UPPER}${DIGITS}_`)
/** What names of settings and tokens of several parts are made of. */
export const NAME = characterSet(`${LOWER}${UPPER}${DIGITS}_.-`)
/** What tokens are made of, and the signs between their parts. */
export const PARTS = characterSet(`${LOWER}${UPPER}${DIGITS}_.-=!`)
/** Paths of addresses. */
export const PATH = characterSet(`${LOWER}${UPPER}${DIGITS}_.-@/`)
/** base64 as URLs have it. */
export const SLUG = characterSet(`${LOWER}${UPPER}${DIGITS}_-`)
export const BASE64 = characterSet(`${LOWER}${UPPER}${DIGITS}+/=`)

/** What ends a token wherever it stands: blanks, quotes, brackets and what separates the members of lists. */
const DELIMITERS = characterSet('"\'`<>(){}[],;|\\')
/** What tokens, addresses and passwords without blanks are made of. */
export const RUN: CharacterSet = Uint8Array.from({ length: SIZE }, (_, code) =>
  code > 0x20 && code < 0x7f && DELIMITERS[code] === 0 ? 1 : 0,
)
