import { LATIN_OF } from '../../../platform/text/look-alikes.ts'
import { isAscii, isHighSurrogate, plainOf } from './characters.ts'
import type { Patch } from './mapped-text.ts'

/** Returns the patches that give every character its plain form. Look-alike letters need the whole word: see below. */
export function plainPatches(text: string): Patch[] {
  const patches: Patch[] = []
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < 128 || isIdeographOrSyllable(code)) continue
    const point = text.codePointAt(at) as number
    const end = at + (point > 0xffff ? 2 : 1)
    const plain = plainOf(point)
    // A combining mark after a digit or a sign belongs to no letter.
    if (isStrayMark(text, at)) patches.push({ start: at, end, text: '' })
    else if (plain.length !== end - at || plain !== text.slice(at, end)) patches.push({ start: at, end, text: plain })
    at = end - 1
  }
  return patches
}

/** Whether the character is one of the letters of Chinese, Japanese and Korean, which have no plainer form. */
const isIdeographOrSyllable = (code: number): boolean =>
  (code >= 0x3400 && code <= 0x9fff) || (code >= 0x3041 && code <= 0x3096) || (code >= 0xac00 && code <= 0xd7a3)

const MARK = /^\p{M}/u
const LEAST_MARK = 0x300

function isStrayMark(text: string, at: number): boolean {
  if (text.charCodeAt(at) < LEAST_MARK || isHighSurrogate(text.charCodeAt(at)) || at === 0) return false
  const before = text.charCodeAt(at - 1)
  const isLetter = (before | 0x20) >= 0x61 && (before | 0x20) <= 0x7a
  return before < 128 && !isLetter && MARK.test(text.charAt(at))
}

const LATIN = /[A-Za-z]/
const LATIN_SCRIPT = /\p{Script=Latin}/u
/** Small capitals count as Latin letters here, because no living orthography writes words with them. */
const SMALL_CAPITALS = new Set(Array.from(LATIN_OF.keys()).filter((char) => LATIN_SCRIPT.test(char)))
const LOOK_ALIKE = new RegExp(`[${Array.from(LATIN_OF.keys()).join('')}]`, 'u')
const WORD = /[\p{L}\p{M}]+/gu

/**
 * Returns the patches that replace look-alike letters, one for each word. Only words that mix Latin letters with
 * look-alikes are changed, because a word of one script is what it seems to be.
 */
export function lookAlikePatches(text: string): Patch[] {
  if (!LOOK_ALIKE.test(text)) return []
  const patches: Patch[] = []
  for (const { 0: word, index: start } of text.matchAll(WORD)) {
    if (isAscii(word)) continue
    const chars = Array.from(word)
    const isMixed = LATIN.test(word) || chars.some((char) => SMALL_CAPITALS.has(char))
    if (!isMixed || chars.some((char) => char > '\x7f' && !LATIN_OF.has(char))) continue
    patches.push({ start, end: start + word.length, ...spelled(chars, start) })
  }
  return patches
}

function spelled(chars: readonly string[], from: number): Omit<Patch, 'start' | 'end'> {
  const starts: number[] = []
  const ends: number[] = []
  let text = ''
  let at = from
  for (const char of chars) {
    text += LATIN_OF.get(char) ?? char
    starts.push(at)
    at += char.length
    ends.push(at)
  }
  return { text, starts, ends }
}
