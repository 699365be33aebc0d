// Recognizes misspelled words of attacks in English, because one changed letter must not hide a word from the lexicon.

/** Words that attacks need. The endings are written out, because a misspelling is compared with a whole word. */
const WORDS =
  `ignore ignoring ignores ignored disregard disregarding forget forgetting override overriding bypass bypassing
  discard dismiss neglect instead instruction instructions directive directives command commands prompt prompts guideline
  guidelines previous previously prior above preceding earlier original initial everything anything completely entire
  message messages conversation context document content information article articles sentence sentences system
  systems developer administrator assistant chatbot password passwords secret secrets confidential credentials hidden
  reveal revealing disclose expose display output outputs print printed repeat repeating translate summarize describe
  explain provide include including insert append embed incorporate integrate mention respond response responses
  answer answers answering reply replies begin start following follow execute retrieve delete transfer forward
  email upload download access account grant create remove unlock schedule address payment personal private pretend
  imagine roleplay character persona unfiltered uncensored unrestricted unlimited restriction restrictions limitation
  limitations filter filters ethical ethics moral illegal policy policies refuse refusing apologize warning warnings
  encode decode encoding backward backwards reverse reversed uppercase lowercase emoji base64 cipher language spanish
  french german story fictional hypothetical scenario important immediately urgent attention please your yourself rules
  script snippet import subprocess requests website product recommend advertise without cannot never always should must
  could would write phrase exactly string concatenate input user users task tasks question questions`.split(/\s+/)

/** Everyday words that look like misspellings of these words. */
const OTHER_WORDS =
  `request person phase star cold stat repl rely relies reuse reusing forge forged crate sting pint revered
  entre sore wold mush moist trail stats paces flag scrip scrips ruler ruled rue rued bot bit tas`.split(/\s+/)

const LEAST_CHARS = 4
const LONGEST_CHARS = 16

/** The words by the sum of the numbers of their letters, which does not depend on the order of the letters. */
let index: Map<number, string[]> | undefined
const known = new Set([...WORDS, ...OTHER_WORDS])

const numberOf = (code: number): number => (Math.imul(code + 7, 0x9e3779b1) ^ Math.imul(code, 0x85ebca6b)) | 0

function sumOf(word: string): number {
  let sum = 0
  for (let at = 0; at < word.length; at++) sum = (sum + numberOf(word.charCodeAt(at))) | 0
  return sum
}

function indexOfWords(): Map<number, string[]> {
  const made = new Map<number, string[]>()
  const add = (sum: number, word: string) => made.set(sum, [...(made.get(sum) ?? []), word])
  for (const word of WORDS) {
    const sum = sumOf(word)
    const letters = new Set(word.slice(1))
    add(sum, word)
    for (const letter of letters) {
      const number = numberOf(letter.charCodeAt(0))
      if (word.length > LEAST_CHARS) add((sum - number) | 0, word)
      add((sum + number) | 0, word)
    }
  }
  return made
}

/**
 * Returns the word of an attack that an unknown word is a misspelling of: two adjacent letters are swapped, one is
 * missing, or one is doubled. The first letter must be right.
 */
export function intendedWord(word: string): string | undefined {
  if (word.length < LEAST_CHARS || word.length > LONGEST_CHARS || known.has(word)) return undefined
  index ??= indexOfWords()
  return index.get(sumOf(word))?.find((one) => isMisspelling(word, one))
}

function isMisspelling(word: string, meant: string): boolean {
  let at = 0
  while (at < word.length && word[at] === meant[at]) at++
  if (at === 0) return false
  if (word.length === meant.length)
    return word[at] === meant[at + 1] && word[at + 1] === meant[at] && word.slice(at + 2) === meant.slice(at + 2)
  if (word.length < meant.length) return word.slice(at) === meant.slice(at + 1)
  return word[at] === word[at - 1] && word.slice(at + 1) === meant.slice(at)
}
