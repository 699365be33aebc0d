// The one view of text: how every guard reads a text that was written so that a plain search would miss its values.
import { remembering } from '../detection.ts'
import { isAscii } from './characters.ts'
import { reversedPatch, rot13 } from './encodings.ts'
import { layoutPatches } from './layout.ts'
import { MappedText, type Patch } from './mapped-text.ts'
import { lookAlikePatches, plainPatches } from './plain-text.ts'
import { decodedPatches } from './rows.ts'

/** The maximum nesting depth of encoded text. */
const DEPTH = 2

/**
 * Returns the text as it is meant: plain characters, decoded, and without layout inside of values. Returns undefined if
 * that is the text itself, which is the case for nearly all text.
 */
export const viewOf = remembering(read)

function read(text: string): MappedText | undefined {
  let view = isAscii(text) ? undefined : withPatches(text, tellingPatches(text, plainPatches(text)))
  if (!isAscii(view?.text ?? text)) view = withPatches(text, lookAlikePatches(view?.text ?? text), view)
  for (let depth = 0; depth < DEPTH; depth++) {
    const patches = decodedPatches(view?.text ?? text)
    if (patches.length === 0) break
    view = withPatches(text, patches, view)
  }
  return withPatches(text, layoutPatches(view?.text ?? text, view), view)
}

const withPatches = (text: string, patches: readonly Patch[], view?: MappedText): MappedText | undefined =>
  patches.length === 0 ? view : new MappedText(view?.text ?? text, patches, view)

const VALUE_CHARACTER = /[A-Za-z0-9@]/
const WORD_CHARACTER = /[A-Za-z0-9_@.+-]/
const ASSIGNS = /[:=]/
const DIGIT = /[0-9]/

/**
 * Keeps the patches that can matter to a value. Typographic dashes, dots and quotes between words are left alone, so that
 * ordinary prose and most Chinese text is read once.
 */
function tellingPatches(text: string, patches: readonly Patch[]): Patch[] {
  return patches.filter((patch, at) => {
    if (VALUE_CHARACTER.test(patch.text)) return true
    const [before, after] = [plainBefore(text, patches, at), plainAfter(text, patches, at)]
    if (ASSIGNS.test(patch.text)) return WORD_CHARACTER.test(after) || after === '"' || after === ' '
    if (before === '' || after === '') return false
    if (DIGIT.test(before) || DIGIT.test(after) || after === '@' || before === '@') return true
    return patch.text !== ' ' && patch.text !== '-' && WORD_CHARACTER.test(before) && WORD_CHARACTER.test(after)
  })
}

/** Returns the character before a patch as it is read, without invisible characters. */
function plainBefore(text: string, patches: readonly Patch[], at: number): string {
  for (let index = at; index > 0 && patches[index - 1]?.end === patches[index]?.start; index--) {
    const read = patches[index - 1]?.text ?? ''
    if (read !== '') return read.slice(-1)
    if (index === 1 || patches[index - 2]?.end !== patches[index - 1]?.start) {
      return text.charAt((patches[index - 1]?.start ?? 0) - 1)
    }
  }
  return text.charAt((patches[at]?.start ?? 0) - 1)
}

function plainAfter(text: string, patches: readonly Patch[], at: number): string {
  for (let index = at; patches[index + 1]?.start === patches[index]?.end; index++) {
    const read = patches[index + 1]?.text ?? ''
    if (read !== '') return read.slice(0, 1)
    if (patches[index + 2]?.start !== patches[index + 1]?.end) return text.charAt(patches[index + 1]?.end ?? 0)
  }
  return text.charAt(patches[at]?.end ?? 0)
}

/** The minimum length of a token. */
const TOKEN_CHARS = 16
const HEX_OR_NUMBER = /^[0-9a-fA-F:.,_-]*$/
const HASH = /^sha\d{1,3}[-:]/

/** Returns the long runs that may be a token written backwards, and those shifted by ROT13. */
export const hiddenViewsOf = remembering((text): readonly MappedText[] => {
  const runs = tokenRuns(text)
  if (runs.length === 0) return []
  const only = (turn: (start: number, end: number) => Patch) => {
    const patches: Patch[] = []
    let from = 0
    for (const { start, end } of runs) {
      if (start > from) patches.push({ start: from, end: start, text: ' ' })
      patches.push({ ...turn(start, end), isDecoded: true })
      from = end
    }
    if (from < text.length) patches.push({ start: from, end: text.length, text: ' ' })
    return new MappedText(text, patches)
  }
  return [only((start, end) => reversedPatch(text, start, end)), only((start, end) => shiftedPatch(text, start, end))]
})

function shiftedPatch(text: string, start: number, end: number): Patch {
  const starts = Array.from({ length: end - start }, (_, at) => start + at)
  return { start, end, text: rot13(text.slice(start, end)), starts, ends: starts.map((at) => at + 1) }
}

const isRun = (code: number): boolean => code > 0x20 && code < 0x7f && code !== 0x22 && code !== 0x27 && code !== 0x60

function tokenRuns(text: string): { start: number; end: number }[] {
  const runs: { start: number; end: number }[] = []
  for (let begin = 0; begin + TOKEN_CHARS <= text.length; ) {
    let at = begin + TOKEN_CHARS - 1
    while (at >= begin && isRun(text.charCodeAt(at))) at--
    if (at >= begin) {
      begin = at + 1
      continue
    }
    let end = begin + TOKEN_CHARS
    while (end < text.length && isRun(text.charCodeAt(end))) end++
    const run = text.slice(begin, Math.min(end, begin + MOST_TOKEN_CHARS))
    if (end - begin <= MOST_TOKEN_CHARS && DIGIT.test(run) && !HEX_OR_NUMBER.test(run) && !HASH.test(run)) {
      runs.push({ start: begin, end })
    }
    begin = end
  }
  return runs
}
const MOST_TOKEN_CHARS = 4_096
