import { isStopWord } from '../../../platform/text/words.ts'
import { PARTICLES } from './lexicon/name-words.ts'
import { isOnlyName } from './lexicon/word-list.ts'
import { lineAfter, oneOf, type Recognizer } from './recognizer.ts'

/** Matches words that introduce a person. The name follows in lower case. */
const INTRODUCTION =
  /(?:\b(?:[Nn]ame(?: is|['’]s)|[Nn]amed (?:him|her)|[Cc]all(?:ed|s)? (?:me|him|her)|[Ii](?:['’]| a)m|[Tt]his is|[Dd]ear|[Hh](?:i|ello|ey)|(?:[MmDd]rs?|[Mm]s)\.?)|\b(?:[Nn]ames?|[Aa]ddress|[Uu]ser|[Ff]rom|[Tt]o|[Ss]igned):|\b(?:[Tt]hanks|[Rr]egards|[Cc]heers),)[ \n]/g
/** Whether the character may stand before the first word of a line. */
const beginsLine = oneOf(' >"“')
const WORD = /\p{Ll}[\p{Ll}\p{M}'’-]{1,30}(?![\p{L}\d_@])|\p{Ll}(?=\.? )/uy
const LETTERS = /[\p{L}\p{M}'’. -]{0,40}/uy
const LONGEST_LETTERS = 40
const NAMES = 4
const LOWER_A = 97

/**
 * Finds names in lower case: listed names after an introduction ("my name is vitoria"), and two listed names at the
 * beginning of a line.
 */
export const lowerNameRecognizer: Recognizer = {
  entities: ['PERSON'],
  scan(text, _digits, _wanted, report) {
    let open = text.length
    const read = (start: number, isIntroduced: boolean) => {
      if (text.charCodeAt(start) < LOWER_A) return
      const { end, known, isOpen } = namesAt(text, start)
      if (isOpen) open = Math.min(open, start)
      if (known > (isIntroduced ? 0 : 1)) report(start, end, 'PERSON', 0.55)
    }
    for (const { index, 0: words } of text.matchAll(INTRODUCTION)) read(index + words.length, true)
    for (let line = 0; line >= 0; line = lineAfter(text, line)) {
      let start = line
      while (start - line < 3 && beginsLine(text.charCodeAt(start))) start++
      read(start, false)
    }
    return open
  },
}

/**
 * Reads up to four names that follow one another.
 * @returns the end of the last name and the number of listed names. `isOpen`: the word after them is incomplete.
 */
function namesAt(text: string, start: number): { end: number; known: number; isOpen: boolean } {
  let end = start
  let known = 0
  let at = start
  for (let words = 0; words < NAMES; words++, at++) {
    WORD.lastIndex = at
    const word = text.charCodeAt(at) >= LOWER_A ? WORD.exec(text)?.[0] : undefined
    if (word === undefined) break
    if (isName(word)) {
      known++
      end = at + word.length
    } else if (known === 0 || !(PARTICLES.has(word) || word.length === 1)) break
    at += word.length
    if (text[at] !== ' ') break
  }
  // Only the end of the text needs the slower test.
  const isNearEnd = text.length - at <= LONGEST_LETTERS
  return { end, known, isOpen: isNearEnd && lettersEnd(text, known > 0 ? at : start) === text.length }
}

/** Returns the end of the lower-case letters at the position. */
function lettersEnd(text: string, at: number): number {
  LETTERS.lastIndex = at
  return at + (LETTERS.exec(text)?.[0].length ?? 0)
}

function isName(word: string): boolean {
  return isOnlyName(word) && !isStopWord(word)
}
