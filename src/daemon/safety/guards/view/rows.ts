// Finds the places of a text that may be encoded, so that nothing else is decoded. In prose, most characters are skipped.
import {
  type Base64Letters,
  binaryPatches,
  decimalPatches,
  ENCODED_CHARS,
  entityPatches,
  escapePatches,
  fromBase64,
  hexPatches,
  isBase64,
  LEAST_RUN_CHARS,
  percentPatches,
} from './encodings.ts'
import type { Patch, Range } from './mapped-text.ts'

const LIST_CHARACTERS = Uint8Array.from({ length: 128 }, (_, code) =>
  /[0-9a-fA-FxX ,:;|\\-]/.test(String.fromCharCode(code)) ? 1 : 0,
)
/** Whether the character occurs in a list of character codes. */
export const isInList = (code: number): boolean => code < 128 && LIST_CHARACTERS[code] === 1

/** Returns the next run of at least LEAST_RUN_CHARS characters of a set, at or after `from`. */
export function nextRun(text: string, from: number, isIn: (code: number) => boolean): Range | undefined {
  for (let begin = from; begin + LEAST_RUN_CHARS <= text.length; ) {
    // Checks a possible run backwards from its end. In most texts, this skips most characters.
    let at = begin + LEAST_RUN_CHARS - 1
    while (at >= begin && isIn(text.charCodeAt(at))) at--
    if (at >= begin) {
      begin = at + 1
      continue
    }
    let end = begin + LEAST_RUN_CHARS
    while (end < text.length && isIn(text.charCodeAt(end))) end++
    return { start: begin, end }
  }
  return undefined
}

/**
 * Returns the patches that decode all encoded parts of a text. Parts that decode to nothing readable are left alone. The
 * patches are ordered and disjoint.
 */
export function decodedPatches(text: string): Patch[] {
  const patches = [
    ...listPatches(text),
    ...base64Patches(text),
    ...(text.includes('%') ? percentPatches(text) : []),
    ...(text.includes('&') ? entityPatches(text).filter(isTelling) : []),
    ...(text.includes('\\') ? escapePatches(text).filter(({ start, end }) => end - start > SHORT_ESCAPE_CHARS) : []),
  ]
  return apart(patches).map((patch) => ({ ...patch, isDecoded: true }))
}

const SHORT_ESCAPE_CHARS = 2
/** Characters that documents in HTML escape everywhere, and that no value contains. */
const MARKUP = new Set(['<', '>', '&', '"', "'"])
const isTelling = ({ text }: Patch): boolean => !MARKUP.has(text)

/** Keeps the patch that begins first, and of those the longest. */
export function apart(patches: Patch[]): Patch[] {
  if (patches.length < 2) return patches
  const kept: Patch[] = []
  let free = 0
  for (const patch of patches.sort((one, other) => one.start - other.start || other.end - one.end)) {
    if (patch.start < free) continue
    kept.push(patch)
    free = patch.end
  }
  return kept
}

function listPatches(text: string): Patch[] {
  const patches: Patch[] = []
  for (let run = nextRun(text, 0, isInList); run; run = nextRun(text, run.end, isInList)) {
    const { start, end } = withPrefix(text, run)
    const list = text.slice(start, end)
    for (const patch of [...binaryPatches(list), ...decimalPatches(list), ...hexPatches(list)]) {
      patches.push(moved(patch, start))
    }
  }
  return patches
}

/** The letters before a run decide whether its first character begins a number. */
const withPrefix = (text: string, { start, end }: Range): Range => {
  let from = start
  while (from > 0 && start - from < 2 && /\w/.test(text.charAt(from - 1))) from--
  return { start: from, end }
}

const moved = ({ start, end, text, starts = [], ends = [] }: Patch, by: number): Patch => ({
  start: start + by,
  end: end + by,
  text,
  starts: starts.map((at) => at + by),
  ends: ends.map((at) => at + by),
})

const isLineEnd = (code: number): boolean => code === 0x0a || code === 0x0d
const isBlankOrQuote = (code: number): boolean => code === 0x20 || code === 0x09 || code === 0x3e
const INDENT_CHARS = 8

function base64Patches(text: string): Patch[] {
  const patches: Patch[] = []
  for (let run = nextRun(text, 0, isBase64); run; ) {
    const letters: { codes: number[]; at: number[] } = { codes: [], at: [] }
    let { start, end } = run
    for (;;) {
      for (let at = start; at < end && letters.codes.length < ENCODED_CHARS; at++) {
        letters.codes.push(text.charCodeAt(at))
        letters.at.push(at)
      }
      // The text goes on in the next line, if there is one and it consists of base64.
      const next = nextLineOf(text, end)
      if (next === undefined || !isBase64(text.charCodeAt(next))) break
      start = next
      end = next
      while (end < text.length && isBase64(text.charCodeAt(end))) end++
    }
    if (isMixed(letters.codes)) patches.push(...fromBase64(letters satisfies Base64Letters).map(padded(text)))
    run = nextRun(text, Math.max(end, run.end), isBase64)
  }
  return patches
}

/** Returns the start of the next line, without its indentation. Returns undefined if the line does not end here. */
export function nextLineOf(text: string, at: number): number | undefined {
  let next = at
  while (next < text.length && isLineEnd(text.charCodeAt(next)) && next - at < 2) next++
  if (next === at) return undefined
  const line = next
  while (next < text.length && isBlankOrQuote(text.charCodeAt(next)) && next - line < INDENT_CHARS) next++
  return next
}

/** Excludes words, paths, identifiers and hashes in hex: in most of them, all letters have the same case. */
function isMixed(codes: readonly number[]): boolean {
  let kinds = 0
  for (const code of codes) {
    if (code >= 0x61) kinds |= 1
    else if (code >= 0x41 && code <= 0x5a) kinds |= 2
    if (kinds === 3) return true
  }
  return false
}

const EQUALS = 0x3d
/** Extends a patch over the `=` that ends base64. */
const padded =
  (text: string) =>
  (patch: Patch): Patch => {
    let { end } = patch
    while (end < patch.end + 2 && text.charCodeAt(end) === EQUALS) end++
    return end === patch.end ? patch : { ...patch, end }
  }
