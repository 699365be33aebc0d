// Names that look alike although their letters belong to different scripts (UTS #39, mixed-script confusables).
import { LATIN_OF } from './look-alikes.ts'

/**
 * Returns the skeleton of a name: in lower case, and with a Latin letter for each letter that looks like one. Two names
 * with different skeletons do not look alike.
 */
export const skeletonOf = (name: string): string =>
  Array.from(name.normalize('NFKC'), (char) => LATIN_OF.get(char) ?? char)
    .join('')
    .toLowerCase()

/** The scripts of the letters in LATIN_OF. Letters of any other script count as one script. */
const SCRIPTS = ['Latin', 'Greek', 'Cyrillic', 'Armenian', 'Cherokee', 'Coptic', 'Georgian', 'Lisu'] as const
const PATTERNS = SCRIPTS.map((script) => ({ script, pattern: new RegExp(`^\\p{Script=${script}}$`, 'u') }))

const scriptOf = (char: string): string =>
  PATTERNS.find(({ pattern }) => pattern.test(char))?.script ?? 'another script'

/**
 * Returns the first letter of `name` that looks like a letter of another script in `other`, if the names look alike.
 * Names that differ only in letters of one script, such as Казак and Қазақ, do not look alike to their readers.
 */
export function lookAlikeIn(name: string, other: string): { letter: string; script: string } | undefined {
  if (skeletonOf(name) !== skeletonOf(other)) return undefined
  const others = Array.from(other.normalize('NFKC'))
  for (const [at, letter] of Array.from(name.normalize('NFKC')).entries()) {
    const counterpart = others[at]
    if (counterpart === undefined || letter.toLowerCase() === counterpart.toLowerCase()) continue
    const script = scriptOf(letter)
    if (script !== scriptOf(counterpart)) return { letter, script }
  }
  return undefined
}
