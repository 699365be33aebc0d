import { isAscii } from '../view/characters.ts'
import { MappedText } from '../view/mapped-text.ts'
import { lookAlikePatches, plainPatches } from '../view/plain-text.ts'

/** Invisible characters that are normal parts of emoji and of several scripts, and are therefore not counted. */
const FORMING = new Set(['\ufe0f', '\u200d', '\u200c'])
const TAGS = /[\u{e0020}-\u{e007e}]+/gu

export type CleanText = {
  /** The visible text, with look-alike letters replaced. */
  text: string
  /** The number of invisible characters. */
  invisible: number
  /** The number of words that mix alphabets. */
  lookalikes: number
  /** The hidden text in Unicode tag characters. These characters are invisible. */
  tags: string
}

/** Returns the text as the shared view reads it, and counts what was hidden in it. */
export function cleanLetters(raw: string): CleanText {
  if (isAscii(raw)) return { text: raw, invisible: 0, lookalikes: 0, tags: '' }
  const tags = Array.from(raw.matchAll(TAGS), ([run]) => spelledByTags(run)).join(' ')
  const text = tags === '' ? raw : raw.replace(TAGS, '')
  const patches = plainPatches(text)
  const plain = new MappedText(text, patches).text.normalize('NFKC')
  const words = lookAlikePatches(plain)
  return {
    text: new MappedText(plain, words).text,
    invisible: patches.filter(({ start, end, text: read }) => read === '' && !FORMING.has(text.slice(start, end)))
      .length,
    lookalikes: words.length,
    tags,
  }
}

const TAG_BASE = 0xe0000
const spelledByTags = (run: string): string =>
  Array.from(run, (char) => String.fromCharCode((char.codePointAt(0) as number) - TAG_BASE)).join('')
