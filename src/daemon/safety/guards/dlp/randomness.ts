import { ALPHANUMERIC, has, LETTER } from './characters.ts'

/** Statistics of a text's characters. They indicate whether the text is random. */
type Census = { length: number; digits: number; upper: number; lower: number; changes: number; distinct: number }

const seen = new Uint8Array(128)

/**
 * Counts the characters of a text. `changes` is the number of transitions between character classes (digit, capital,
 * small letter).
 */
function censusOf(text: string): Census {
  seen.fill(0)
  let [digits, upper, lower, changes, distinct] = [0, 0, 0, 0, 0]
  let before = 0
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code < 128 && seen[code] === 0) {
      seen[code] = 1
      distinct += 1
    }
    const kind = code >= 48 && code <= 57 ? 1 : code >= 65 && code <= 90 ? 2 : code >= 97 && code <= 122 ? 3 : 0
    if (kind === 1) digits += 1
    else if (kind === 2) upper += 1
    else if (kind === 3) lower += 1
    if (kind !== 0) {
      if (before !== 0 && kind !== before) changes += 1
      before = kind
    }
  }
  return { length: text.length, digits, upper, lower, changes, distinct }
}

/** The minimum length that can be judged. */
export const RANDOM_CHARS = 16
/** The minimum number of character class transitions in a random text. */
export const RANDOM_CHANGES = 3

/**
 * Whether these characters look machine-generated: letters and digits alternate more often than in names, versions and
 * words. A prefix of a few thousand characters is enough for this decision, so the caller truncates the text.
 */
export function looksRandom(text: string): boolean {
  if (text.length < RANDOM_CHARS) return false
  const { length, digits, upper, lower, changes, distinct } = censusOf(text)
  if (distinct < 8 || upper + lower === 0) return false
  if (digits >= 2 && changes >= (length < 24 ? 4 : RANDOM_CHANGES) && digits * 10 >= length) return true
  // Some base64 text has few digits, but it changes between upper and lower case more often than camelCase names do.
  return digits >= 1 && upper >= 3 && lower >= 3 && length >= 20 && changes * 5 >= length * 2
}

/** The most frequent pairs of letters in English words and in names of programs. */
const FREQUENT_PAIRS =
  'th he in er an re nd at on nt ha es st en ed to it ou ea hi is or ti as te et ng of al de se le sa si ar ve ra ld ur ' +
  'ro me li ll ne om no co us ta ch el ce ge ri io ic la ma ec ho wa rs ot tr di be so lo pe ut mo ac po un em ul ke pr ' +
  'su do ai sh ad ss ct ty ey ie ay am id ig op ap ov ow ev fi fo fr im ir ab ag ak cl cr ck bl br bu by da ex fe ff ga ' +
  'gh gr if ki ly mi mp na ns ob oc od oo os pa pl rd rk rm rn ru rt ry sc sp tu ub ui um up va vi wi wo ys pu il gi rl aw ew wr'
const IS_FREQUENT = new Uint8Array(32 * 32)
for (const pair of FREQUENT_PAIRS.split(' ')) IS_FREQUENT[pairAt(pair, 1)] = 1

/** The number of the pair of letters that ends at `at`, ignoring case. */
function pairAt(text: string, at: number): number {
  return (text.charCodeAt(at - 1) & 31) * 32 + (text.charCodeAt(at) & 31)
}

const isUpper = (code: number): boolean => code >= 65 && code <= 90
/** The parts of a name with several underscores or full stops are short: `sig_ecdsa_sha256`, `oauth2.rfc6749.tokens`. */
const NAME_OF_PARTS = /^_?[A-Za-z0-9]{1,9}(?:_[A-Za-z0-9]{0,9}){2,}$|^[a-z][a-z\d]{0,15}(?:\.[a-z][a-z\d_]{0,15}){2,}$/
const LEAST_LETTERS = 6

/**
 * Whether the text consists mainly of words, as in `exchangeX509Token` and `https://example.org/rfc7231#section-6`. The
 * letters of a word form pairs that are frequent in English, and random letters rarely do.
 */
export function isWordy(text: string): boolean {
  let [inWords, letters] = [0, 0]
  for (let at = 0; at < text.length; ) {
    const start = at
    let frequent = 0
    while (at < text.length && has(LETTER, text.charCodeAt(at))) {
      if (at > start) {
        // A capital after a small letter begins the next word of a name.
        if (isUpper(text.charCodeAt(at)) && !isUpper(text.charCodeAt(at - 1))) break
        frequent += IS_FREQUENT[pairAt(text, at)]!
      }
      at += 1
    }
    const length = at - start
    letters += length
    if (length === 0) at += 1
    else if (length >= 3 && frequent >= 0.6 * (length - 1)) inWords += length
  }
  return (letters >= LEAST_LETTERS && inWords >= 0.6 * letters) || NAME_OF_PARTS.test(text)
}

/** Placeholder words. */
const PLACEHOLDER_WORDS =
  /example|placeholder|change.?me|replace|redacted|insert|your|dummy|sample|xxxx|\.\.\.|\*\*\*|####|todo|^(?:0?123456789)+0?$|^(?:0{8}|1{8})/i

/** Whether the value is a placeholder, or consists of a few repeated characters. */
export function isPlaceholder(value: string): boolean {
  return PLACEHOLDER_WORDS.test(value) || isMonotonous(value)
}

/**
 * Whether the value has at least eight characters and at most three different letters and digits: `xxxxxxxx`,
 * `AAAA-AAAA`.
 */
export function isMonotonous(value: string): boolean {
  if (value.length < 8) return false
  const kinds = new Set<number>()
  for (let at = 0; at < value.length; at += 1) {
    const code = value.charCodeAt(at)
    if (has(ALPHANUMERIC, code)) kinds.add(code)
    if (kinds.size > 3) return false
  }
  return true
}
