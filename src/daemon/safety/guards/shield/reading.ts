import { type CleanText, cleanLetters } from './letters.ts'
import { readWords, type Words, withoutAccents } from './words.ts'

/** A text as the layers read it. */
export type Reading = {
  clean: CleanText
  /** Without accents; its case still stands. As long as what was read into words. */
  spelled: string
  words: Words
}

/** The part of a text that is judged at once: a range of its words. */
export type Window = { from: number; to: number }

/** An attack hidden in a long text is found by looking at pieces of it: so many words each, and so many words on. */
const WINDOW_WORDS = 300
const STEP_WORDS = 200

export function readText(text: string): Reading {
  const letters = cleanLetters(text)
  const clean = { ...letters, text: withoutEllipses(letters.text) }
  const spelled = withoutAccents(clean.text)
  const plain = spelled.toLowerCase()
  // A letter that becomes two in lower case would move everything after it.
  return { clean, spelled: plain.length === spelled.length ? spelled : plain, words: readWords(plain) }
}

/** The windows of a text with so many words; none without words, and the last one ends where the text does. */
export function* windowsOf(words: number): Generator<Window> {
  if (words === 0) return
  for (let from = 0; ; from += STEP_WORDS) {
    const to = Math.min(words, from + WINDOW_WORDS)
    yield { from, to }
    if (to >= words) return
  }
}

/** `cleanLetters` has spelled "…" with three dots. */
const ELLIPSES = /\.{3,}(?:[^\S\n]+\.{3,})*/g
const AFTER_SENTENCE = /[^\S\n]*(?:\n|$)|["'”’)\]}»]/y

/**
 * Collections cut their texts off with an ellipsis, and people end theirs with one: it must not tell attacks from other
 * texts. At the end of a text, line or quotation it goes; elsewhere a full stop takes its place.
 */
function withoutEllipses(text: string): string {
  const trimmed = text.trimEnd()
  if (!trimmed.includes('...')) return trimmed
  const read = trimmed.replace(ELLIPSES, (run, at: number) => {
    AFTER_SENTENCE.lastIndex = at + run.length
    if (!AFTER_SENTENCE.test(trimmed)) return '.'
    // "report." with "..." after it keeps its full stop.
    return '.'.repeat(run.search(/[^.]|$/) % 3)
  })
  return read.trimEnd()
}
