import { SAME_SHAPE } from '../look-alikes.ts'

/** Matches invisible characters: soft hyphens, joiners, direction marks, fillers, variation selectors. */
const INVISIBLE =
  /[\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0]|\u034f|[\u17b4\u17b5]|[\u180b-\u180d]|[\ufe00-\ufe0f]/g
/** Invisible characters that are normal parts of emoji and of several scripts, and are therefore not counted. */
const FORMING = new Set(['\ufe0f', '\u200d', '\u200c'])
const TAGS = /[\u{e0020}-\u{e007e}]+/gu
const BEYOND = /[\u{e0000}-\u{e01ef}]/gu
const WORD = /[\p{L}\p{M}]+/gu
/**
 * Latin small capitals. Small capitals do not count as a normal alphabet, because attackers use them to write
 * look-alikes of normal words.
 */
const SMALL_CAPITALS = Array.from(SAME_SHAPE.keys()).filter((char) => /\p{Script=Latin}/u.test(char))
const LATIN_OR_SMALL_CAPITAL = new RegExp(`[a-z${SMALL_CAPITALS.join('')}]`, 'i')

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

/** Removes invisible characters, and replaces look-alike letters in words that mix alphabets. */
export function cleanLetters(text: string): CleanText {
  if (isAscii(text)) return { text, invisible: 0, lookalikes: 0, tags: '' }
  let invisible = 0
  let lookalikes = 0
  const tags = Array.from(text.matchAll(TAGS), ([run]) => spelledByTags(run)).join(' ')
  const visible = text.replace(BEYOND, '').replace(INVISIBLE, (char) => {
    if (!FORMING.has(char)) invisible++
    return ''
  })
  const clean = visible.normalize('NFKC').replace(WORD, (word) => {
    if (isAscii(word) || !LATIN_OR_SMALL_CAPITAL.test(word)) return word
    const latin = Array.from(word, (char) => SAME_SHAPE.get(char) ?? char).join('')
    if (latin === word || !isAscii(latin)) return word
    lookalikes++
    return latin
  })
  return { text: clean, invisible, lookalikes, tags }
}

const TAG_BASE = 0xe0000
const spelledByTags = (run: string): string =>
  Array.from(run, (char) => String.fromCharCode(char.codePointAt(0)! - TAG_BASE)).join('')

const NOT_ASCII = /[^\0-\x7f]/
export const isAscii = (text: string): boolean => !NOT_ASCII.test(text)
