import { PARTICLES } from './lexicon/name-words.ts'
import { UNIT_WORDS } from './lexicon/street-words.ts'
import { isPlace, isRegion } from './lexicon/word-list.ts'

/** The number of characters that decide about the next part of an address. */
export const PART_CHARS = 64
const PARTS = 8
const CITY_WORDS = 4

/** Matches what may stand between two parts: a period, a comma, spaces, and up to two line breaks. */
const BETWEEN = /(?=[\s.,])\.?,?[ \t]{0,12}(?:\r?\n[ \t]{0,12}){0,2},?[ \t]{0,4}/y
const UNIT = /(\p{L}{2,9})\.? ?#?\d{1,5}[A-Za-z]?(?![\p{L}\d])/uy
const MILITARY = /[ADF]PO,? A[AEP](?: \d{5}(?:-\d{4})?)?(?!\w)/iy
const POSTCODE =
  /(?:[A-Z]{1,2}-)?(?:\d{2}-\d{3}|\d{4} [A-Z]{2}|\d{3} \d{2}(?= \p{Lu})|\d{4,6}(?:-\d{3,4})?)(?![\p{L}\d]|[-./:]\d)|[A-Z]{1,2}\d[\dA-Z]? ?\d[A-Z]{2}(?!\w)|[A-Z]\d[A-Z] ?\d[A-Z]\d(?!\w)/uy
const STATE = /[A-Z]{2,3}(?![\p{L}\d'’.])/uy
/** Matches what some lists of countries add: "Cyprus (Greek)". */
const ADDITION = / \(\p{L}{2,16}\)/uy
const WORD = /\p{L}[\p{L}\p{M}'’.-]{0,30}/uy

/** A line with a postal code and a word. */
const CITY_LINE = /^(?=.*\p{L}{3})(?=.*\d{4}|.*[A-Z]\d)/u

type Part = { end: number; is: 'certain' | 'possible'; isCode: boolean }

/**
 * Reads the parts that follow a street: flats, cities, postal codes, states and countries, also on other lines. A city
 * counts only if a postal code, a state or a country follows it. If the street has a line of its own, the next line must
 * contain the postal code: other lines of a block, such as a list of towns, are not part of the address.
 * @returns `end`: the end of the last certain part, or `from`. `at`: where reading stopped. The PART_CHARS after this
 * position decide that no further part follows.
 */
export function addressEnd(text: string, from: number, hasOwnLine: boolean): { end: number; at: number } {
  let end = from
  let at = from
  let hasCode = false
  for (let count = 0; count < PARTS; count++) {
    // The window makes the decision independent of all text behind it, so that a stream decides like a whole text.
    const window = text.slice(at, at + PART_CHARS)
    const between = matchAt(BETWEEN, window, 0)
    if (!between) break
    if (hasOwnLine && !hasCode && between.includes('\n') && !CITY_LINE.test(lineOf(window, between.length))) break
    const part = partOf(window, between, count > 0)
    if (part === undefined) break
    at += part.end
    hasCode ||= part.isCode
    if (part.is === 'certain') end = at
  }
  return { end, at }
}

function lineOf(window: string, start: number): string {
  return window.slice(start).split('\n', 1)[0]!
}

function partOf(window: string, between: string, isLater: boolean): Part | undefined {
  const start = between.length
  const isSeparate = /[\n,]/.test(between)
  const unit = matchOf(UNIT, window, start)
  if (unit && UNIT_WORDS.has(unit[1]!.toLowerCase()))
    return { end: start + unit[0].length, is: 'certain', isCode: false }
  const military = matchAt(MILITARY, window, start)
  if (military) return { end: start + military.length, is: 'certain', isCode: true }
  if (isLater || isSeparate) {
    const code = matchAt(POSTCODE, window, start)
    if (code) return { end: start + code.length, is: 'certain', isCode: true }
    const state = matchAt(STATE, window, start)
    if (state) {
      const is = isRegion(state.toLowerCase()) ? 'certain' : 'possible'
      return { end: start + state.length, is, isCode: false }
    }
  }
  return cityOf(window, start, isSeparate)
}

/** Returns up to four words that end in a listed place, or up to four capitalized words. */
function cityOf(window: string, start: number, isSeparate: boolean): Part | undefined {
  const words: string[] = []
  let city: Part | undefined
  for (let at = start; words.length < CITY_WORDS; at++) {
    const word = matchAt(WORD, window, at)?.replace(/\.$/, '')
    if (word === undefined) break
    const lower = word.toLowerCase()
    words.push(lower)
    at += word.length
    const isCapital = word[0] !== lower[0]
    const known = isCapital || isSeparate ? placeAtEnd(words) : undefined
    const addition = known === 'certain' ? (matchAt(ADDITION, window, at) ?? '') : ''
    at += addition.length
    if (known) city = { end: at, is: known, isCode: false }
    else if (!isCapital && !PARTICLES.has(lower) && lower.length > 2) break
    else if (isCapital && city?.is !== 'certain') city = { end: at, is: 'possible', isCode: false }
    if (window[at] !== ' ') break
  }
  return city
}

/** Whether the last words are a region, which ends an address, or a city. */
function placeAtEnd(words: readonly string[]): Part['is'] | undefined {
  const phrases = words.map((_, index) => words.slice(index).join(' '))
  if (phrases.some(isRegion)) return 'certain'
  return phrases.some(isPlace) ? 'possible' : undefined
}

function matchAt(pattern: RegExp, text: string, at: number): string | undefined {
  return matchOf(pattern, text, at)?.[0]
}

function matchOf(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at
  return pattern.exec(text)
}
