// Judges whether an address carries data to its host.

/** The texts of a request in the forms that are compared with addresses. */
export type KnownTexts = {
  /** Whether the system prompt or a user wrote this address. */
  isGiven(url: string): boolean
  /** Whether any text of the request contains this address. */
  contains(url: string): boolean
  /** Whether the request contains these letters and digits, ignoring case and all other characters. */
  containsLetters(letters: string): boolean
}

const QUERY_CHARS = 128
const VALUE_CHARS = 40
const PATH_CHARS = 200
const SEGMENT_CHARS = 80
const LABEL_CHARS = 40
/** The minimum length of random text, and the minimum share of changes between digits, capitals and small letters. */
const RANDOM_CHARS = 16
const RANDOM_CHANGES = 0.2
/** A longer word without a separator is no word of a language. */
const WORD_CHARS = 40
/** Card numbers have as many digits. The numbers of pages have fewer. */
const NUMBER_DIGITS = 15
/**
 * The minimum number of letters and digits that a value of the query shares with the request. A value of one plain word
 * needs more, because it is often a setting of the page.
 */
const KNOWN_IN_QUERY = 6
const KNOWN_WORD_IN_QUERY = 10
/** The same for a segment of the path, which often names the subject of the request. */
const KNOWN_IN_PATH = 24
const KNOWN_NUMBER = /\d{5,}/g
const EMAIL = /(?:@|%40)[^\s@/.]{1,63}\.[a-z]{2}/i
const SHORT_SEGMENTS = 8
const PATH_WORDS = 4

export const lettersIn = (text: string): string => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '')

/** Whether the host, path, query or fragment of an address carries data. */
export function carriesData(url: URL, known: KnownTexts): boolean {
  if (url.username !== '' || url.password !== '') return true
  return hostCarries(url.hostname) || queryCarries(url, known) || pathCarries(url, known)
}

const hostCarries = (host: string): boolean =>
  host.split('.').some((label) => label.length > LABEL_CHARS || isOpaque(label))

function queryCarries({ search, searchParams }: URL, known: KnownTexts): boolean {
  if (search.length > QUERY_CHARS) return true
  for (const pair of searchParams) {
    if (pair.some((text) => text.length > VALUE_CHARS || isOpaque(text))) return true
    const value = pair[1] === '' ? pair[0] : pair[1]
    const letters = lettersIn(value)
    const least = /^\p{L}+$/u.test(value) ? KNOWN_WORD_IN_QUERY : KNOWN_IN_QUERY
    if (letters.length >= least && known.containsLetters(letters)) return true
    if (containsKnownNumber(value, known)) return true
  }
  return false
}

function pathCarries({ pathname, hash }: URL, known: KnownTexts): boolean {
  if (pathname.length > PATH_CHARS) return true
  const segments = [...pathname.split('/'), hash.slice(1)].map(decoded).filter((segment) => segment !== '')
  if (segments.filter(({ length }) => length <= 2).length >= SHORT_SEGMENTS) return true
  return segments.some((segment) => {
    if (segment.length > SEGMENT_CHARS || isOpaque(segment) || segment.split(/\s+/).length > PATH_WORDS) return true
    const letters = lettersIn(segment)
    if (letters.length >= KNOWN_IN_PATH && known.containsLetters(letters)) return true
    return containsKnownNumber(segment, known)
  })
}

const containsKnownNumber = (text: string, known: KnownTexts): boolean =>
  (text.match(KNOWN_NUMBER) ?? []).some((digits) => known.containsLetters(digits))

const isOpaque = (text: string): boolean => EMAIL.test(text) || text.split(/[-_.~+=,;:&\s/]+/).some(isRandom)

/** Whether a word looks like encoded or random text, or is a long number. */
function isRandom(word: string): boolean {
  if (/^\d+$/.test(word)) return word.length >= NUMBER_DIGITS
  if (word.length > WORD_CHARS) return true
  // Names of functions and classes mix capitals and small letters, but rarely digits.
  if (word.length < RANDOM_CHARS || word.replace(/\D+/g, '').length < 2) return false
  let changes = 0
  for (let at = 1; at < word.length; at++) if (kindOf(word, at) !== kindOf(word, at - 1)) changes++
  return changes / word.length >= RANDOM_CHANGES
}

function kindOf(word: string, at: number): number {
  const code = word.charCodeAt(at)
  if (code >= 48 && code <= 57) return 0
  return code >= 65 && code <= 90 ? 1 : 2
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
