// Where the end of a text that arrives in pieces may still change what a view reads.
import { DETECTION_HOLD_CHARS } from '../detection.ts'
import { binaryPatches, decimalPatches, fromBase64, hexPatches, isBase64, LEAST_RUN_CHARS } from './encodings.ts'
import { isInList } from './rows.ts'

const isBlank = (code: number): boolean =>
  code === 0x20 || code === 0x09 || code === 0x0a || code === 0x0d || code === 0x3e
const HAS_DIGIT = /\d/
/** A short word that belongs to a list of character codes, and ends with its separator. */
const CODE = /^(?:0x|\\x)?[0-9a-fA-F]{1,2}[,:;]?$/
const SEPARATORS_ONLY = /^[-_/·•*.>@]{1,4}$/

/**
 * Returns the start of the text at the end that later text may join into one value: the last word, the numbers and codes
 * before it, and the lines of base64 before it.
 */
export function openTailFrom(text: string): number {
  const least = Math.max(0, text.length - DETECTION_HOLD_CHARS)
  let open = wordStart(text, blanksStart(text, text.length), least)
  while (open > least) {
    const end = blanksStart(text, open)
    const start = wordStart(text, end, least)
    if (
      start === end ||
      open - end > MOST_BLANKS ||
      !goesOn(text.slice(start, end), text.slice(end, open), text.slice(open, open + BRACKETED_CHARS))
    )
      return open
    open = start
  }
  return open
}

const MOST_BLANKS = 10

/** A complete or incomplete `(at)` or `[dot]`. */
const BRACKETED = /^[[({](?:at?|do?t?)?(?:[\])}]|$)/i
const BRACKETED_CHARS = 5

/** Whether a value may consist of this word and the words after it, which begin with `next`. */
function goesOn(word: string, gap: string, next: string): boolean {
  if (next.startsWith('@') || BRACKETED.test(next.trimEnd()) || BRACKETED.test(word)) return true
  if (gap.includes('\n') && word.includes('@')) return true
  if (word.length <= MOST_LISTED_CHARS && (HAS_DIGIT.test(word) || CODE.test(word))) return true
  if (SEPARATORS_ONLY.test(word) || word.endsWith('@')) return true
  if (word.length === 1) return true
  return gap.includes('\n') && word.length >= LEAST_RUN_CHARS && isBase64(word.charCodeAt(word.length - 1))
}

/** The maximum length of a word in a list of numbers. */
const MOST_LISTED_CHARS = 24

function blanksStart(text: string, end: number): number {
  let start = end
  while (start > 0 && end - start <= MOST_BLANKS && isBlank(text.charCodeAt(start - 1))) start--
  return start
}

function wordStart(text: string, end: number, least: number): number {
  let start = end
  while (start > least && !isBlank(text.charCodeAt(start - 1))) start--
  return start
}

/**
 * Returns the start of an encoded text that has begun at the end of the text: base64 or character codes that so far are
 * readable. Returns `text.length` if there is none.
 */
export function encodedBegunFrom(text: string): number {
  let start = text.length
  while (start > 0 && text.length - start < DETECTION_HOLD_CHARS && isBase64OrLineEnd(text.charCodeAt(start - 1)))
    start--
  if (text.length - start >= LEAST_RUN_CHARS && isReadable(text, start)) return start
  start = text.length
  while (start > 0 && text.length - start < DETECTION_HOLD_CHARS && isInList(text.charCodeAt(start - 1))) start--
  if (text.length - start < LEAST_RUN_CHARS) return text.length
  const list = text.slice(start)
  const [patch] = [...hexPatches(list), ...decimalPatches(list), ...binaryPatches(list)].sort((a, b) => b.end - a.end)
  return patch && list.length - patch.end <= MOST_BLANKS ? start + patch.start : text.length
}

const isBase64OrLineEnd = (code: number): boolean => isBase64(code) || code === 0x0a || code === 0x0d

function isReadable(text: string, start: number): boolean {
  const codes: number[] = []
  const at: number[] = []
  for (let index = start; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (!isBase64(code)) continue
    codes.push(code)
    at.push(index)
  }
  return fromBase64({ codes, at }).length > 0
}

/** The beginning of a percent-encoded character, an entity or an escape, or a separator after letters that stand apart. */
const INCOMPLETE =
  /(?:(?<=[ ._|*-]\S)[ ._|*-]|%[0-9a-fA-F]?|&#?[xX]?[0-9a-zA-Z]{0,8}|\\(?:[uUxX]\{?[0-9a-fA-F]{0,5})?)$/
const INCOMPLETE_CHARS = 12

/** Returns the text without an incomplete encoded character at its end. */
export function withoutIncomplete(text: string): string {
  const tail = text.slice(-INCOMPLETE_CHARS)
  const match = INCOMPLETE.exec(tail)
  return match ? text.slice(0, text.length - tail.length + match.index) : text
}
