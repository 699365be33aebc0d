import { type CleanText, cleanLetters } from './letters.ts'
import { withoutAccents } from './spelling.ts'
import { readWords, type Words } from './words.ts'

/** A text in all forms that the shield's layers read. */
export type Reading = {
  clean: CleanText
  /**
   * The text without accents, in the original case. Offsets of words also apply to this text, because both texts have
   * the same length.
   */
  spelled: string
  words: Words
}

/** A range of words. */
export type Window = { from: number; to: number }

export function readText(text: string): Reading {
  const letters = cleanLetters(text)
  const clean = { ...letters, text: withoutEllipses(letters.text) }
  const spelled = withoutAccents(clean.text)
  const plain = spelled.toLowerCase()
  // Some letters are longer in lower case, so lower case can shift offsets. If a text contains such letters, `spelled`
  // is the text in lower case.
  return { clean, spelled: plain.length === spelled.length ? spelled : plain, words: readWords(plain) }
}

/** Matches three or more dots. This also matches each "…", because `cleanLetters` replaces it with three dots. */
const ELLIPSES = /\.{3,}(?:[^\S\n]+\.{3,})*/g
const AFTER_SENTENCE = /[^\S\n]*(?:\n|$)|["'”’)\]}»]/y

/**
 * Normalizes ellipses, so that the classifier does not use them as a signal. Data sets mark truncated texts with them,
 * and people also end texts with them. Removes ellipses at the end of a text, line or quotation. Replaces all others
 * with a full stop.
 */
function withoutEllipses(text: string): string {
  const trimmed = text.trimEnd()
  if (!trimmed.includes('...')) return trimmed
  const read = trimmed.replace(ELLIPSES, (run, at: number) => {
    AFTER_SENTENCE.lastIndex = at + run.length
    if (!AFTER_SENTENCE.test(trimmed)) return '.'
    // A full stop before the ellipsis is kept, as in "report." followed by "...".
    return '.'.repeat(run.search(/[^.]|$/) % 3)
  })
  return read.trimEnd()
}
