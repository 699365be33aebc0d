// Names that look alike although their letters belong to different scripts (UTS #39, mixed-script confusables).
import { LATIN_OF } from './look-alikes.ts'

/**
 * Returns the skeleton of a name: in lower case, with a Latin letter for each letter that looks like one, and with one
 * letter for those that many fonts draw alike (I, l, 1 and |; O and 0). Two names with different skeletons do not look
 * alike.
 */
export const skeletonOf = (name: string): string =>
  lettersOf(name)
    .map(({ shape }) => shape)
    .join('')

/** A letter or mark of a name, and how it looks. `hidden` is a mark behind it that cannot be seen. */
type Letter = { char: string; shape: string; hidden?: string }

const DOT_ABOVE = '\u0307'
const DOTTED = new Set(['i', 'j'])

/** Splits letters from their accents, so that a Cyrillic letter with an accent looks like the Latin one. */
function lettersOf(name: string): Letter[] {
  const letters: Letter[] = []
  let before = ''
  for (const char of name.normalize('NFKD')) {
    const last = letters.at(-1)
    if (char === DOT_ABOVE && last !== undefined && DOTTED.has(before)) {
      last.hidden = char
      continue
    }
    before = LATIN_OF.get(char) ?? digitOf(char) ?? char
    const lower = before.toLowerCase()
    letters.push({ char, shape: ONE_SHAPE.get(lower) ?? lower })
  }
  return letters
}

/** UTS #39 gives these the same skeleton. Names are compared in lower case, so `i` is the letter I too. */
const ONE_SHAPE: ReadonlyMap<string, string> = new Map([
  ['i', 'l'],
  ['1', 'l'],
  ['|', 'l'],
  ['0', 'o'],
])

const ASCII = /^[\0-\x7f]$/
const DIGIT = /^\p{Nd}$/u

/** The ASCII digit of a digit of any script. Their blocks have ten digits each, in ascending order (Unicode). */
function digitOf(char: string): string | undefined {
  if (ASCII.test(char) || !DIGIT.test(char)) return undefined
  const point = char.codePointAt(0) as number
  let zero = point
  while (DIGIT.test(String.fromCodePoint(zero - 1))) zero--
  return String((point - zero) % 10)
}

/** The scripts of the letters in LATIN_OF. Letters of any other script count as one script. */
const SCRIPTS = ['Latin', 'Greek', 'Cyrillic', 'Armenian', 'Cherokee', 'Coptic', 'Georgian', 'Lisu'] as const
const PATTERNS = SCRIPTS.map((script) => ({ script, pattern: new RegExp(`^\\p{Script=${script}}$`, 'u') }))

/** ASCII digits and signs are written together with Latin letters, so they count as Latin: Team l and Team 1. */
const scriptOf = (char: string): string =>
  ASCII.test(char) ? 'Latin' : (PATTERNS.find(({ pattern }) => pattern.test(char))?.script ?? 'another script')

/** A character of a name that makes it look like another name. `script` is missing for a mark that cannot be seen. */
export type LookAlike = { letter: string; script?: string }

/**
 * Returns the first letter of `name` that looks like a letter of another script in `other`, if the names look alike.
 * Names that differ only in letters of one script, such as Казак and Қазақ, do not look alike to their readers.
 */
export function lookAlikeIn(name: string, other: string): LookAlike | undefined {
  const [letters, others] = [lettersOf(name), lettersOf(other)]
  if (letters.length !== others.length || letters.some(({ shape }, at) => shape !== others[at]?.shape)) return undefined
  for (const [at, { char, hidden }] of letters.entries()) {
    const counterpart = others[at] as Letter
    if (hidden !== counterpart.hidden) return { letter: DOT_ABOVE }
    if (char.toLowerCase() === counterpart.char.toLowerCase()) continue
    const script = scriptOf(char)
    if (script !== scriptOf(counterpart.char)) return { letter: char, script }
  }
  return undefined
}
