import { ALPHANUMERIC, has } from './characters.ts'

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
