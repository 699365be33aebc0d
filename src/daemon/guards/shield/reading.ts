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
  const clean = cleanLetters(text)
  const spelled = withoutAccents(clean.text)
  const plain = spelled.toLowerCase()
  // A letter that becomes two in lower case would move everything after it.
  return { clean, spelled: plain.length === spelled.length ? spelled : plain, words: readWords(plain) }
}

/** The windows of a text with so many words; at least one, and the last one ends where the text does. */
export function* windowsOf(words: number): Generator<Window> {
  for (let from = 0; ; from += STEP_WORDS) {
    const to = Math.min(words, from + WINDOW_WORDS)
    yield { from, to }
    if (to >= words) return
  }
}
