import { isAscii } from '../view/characters.ts'
import { wordsInLanguages } from './lexicon/languages.ts'
import { type Concept, FUNCTION_WORDS, LEXICON } from './lexicon.ts'
import { intendedWord } from './misspellings.ts'
import { plainSpelling } from './spelling.ts'

/** All concepts. The number of a concept is its index in this list. */
export const CONCEPTS = Object.keys(LEXICON) as Concept[]

/** The words of a text with their concepts, as parallel arrays. */
export type Words = {
  /** The form for comparisons: without accents, in lower case. A symbol counts as a word of one character. */
  words: string[]
  /** The start of each word in the original text. */
  starts: number[]
  /** The concept numbers of each word. */
  concepts: (readonly number[])[]
  /** The symbol of each word, a number. Words that have the same role in a sentence have the same symbol. */
  symbols: number[]
}

/** `expressions`: the expressions that begin with the word. `meant`: the word that a misspelled word stands for. */
type Entry = {
  concepts: readonly number[]
  symbol: number
  expressions?: readonly Expression[] | undefined
  meant?: string
}
type Expression = { rest: string[]; open: boolean; concept: number }

const NO_CONCEPTS: readonly number[] = []
/**
 * The number of symbols per concept: one for the concept alone, one for an expression, and one for each combination
 * with another concept.
 */
const SYMBOLS_PER_CONCEPT = 60
const FIRST_SIGN_SYMBOL = 3900
export const LINE_SYMBOL = 4092
export const PICTURE_SYMBOL = 4093
const NUMBER_SYMBOL = 4094
/** The symbol of a word without a known concept, such as a name. */
export const CONTENT_SYMBOL = 4095
export const FIRST_FUNCTION_SYMBOL = 4096

export const isSign = (symbol: number): boolean => symbol >= FIRST_SIGN_SYMBOL && symbol < LINE_SYMBOL

/** The size of the cache of word lookups. Texts repeat words. */
const CACHED_WORDS = 20_000
const LONGEST_WORD_CHARS = 48
const PREFIX_KEY_CHARS = 3

const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u
const LONG_UNSPACED = /[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u
/**
 * The length of an unknown word of such a script, in letters and vowel signs. The phrases measure distances in words, so
 * an unknown word must not count as many words.
 */
const UNKNOWN_CHARS = 2
const UNKNOWN_LONG_CHARS = 6

/** Invisible joiners, which are part of the usual spelling. `cleanLetters` removes them from texts. */
const JOINERS = /[\u200c\u200d]/g

/** The lexicon, indexed for lookup. */
type Index = {
  exact: Map<string, number[]>
  /** Prefixes by their first characters. */
  prefixes: Map<string, { prefix: string; concept: number }[]>
  /** Expressions by their first word. */
  expressions: Map<string, Expression[]>
  /** Words of scripts without spaces, by their first character, the longest first. */
  unspaced: Map<string, { entry: string; concepts: number[] }[]>
  functionWords: Map<string, number>
}

let made: Index | undefined
const remembered = new Map<string, Entry>()

/** Builds the index on first use. */
function index(): Index {
  made ??= makeIndex()
  return made
}

function makeIndex(): Index {
  const made: Index = {
    exact: new Map(),
    prefixes: new Map(),
    expressions: new Map(),
    unspaced: new Map(),
    functionWords: new Map(),
  }
  for (const [concept, name] of CONCEPTS.entries()) {
    for (const written of entriesOf(name)) {
      const open = written.endsWith('*')
      const entry = open ? written.slice(0, -1) : written
      if (!isAscii(entry) && UNSPACED.test(entry)) addUnspaced(made.unspaced, entry.replaceAll('_', ''), concept)
      else if (entry.includes('_')) {
        const [first = '', ...rest] = entry.split('_')
        listOf(made.expressions, first).push({ rest, open, concept })
      } else if (open) listOf(made.prefixes, entry.slice(0, PREFIX_KEY_CHARS)).push({ prefix: entry, concept })
      else listOf(made.exact, entry).push(concept)
    }
  }
  for (const entries of made.unspaced.values()) {
    entries.sort((one, other) => other.entry.length - one.entry.length)
  }
  for (const word of plainSpelling(FUNCTION_WORDS).split(/\s+/)) {
    if (!made.functionWords.has(word)) made.functionWords.set(word, FIRST_FUNCTION_SYMBOL + made.functionWords.size)
  }
  return made
}

/** Returns the entries of a concept in plain spelling, each once, because languages share words. */
function entriesOf(name: Concept): Set<string> {
  const written = `${LEXICON[name]} ${wordsInLanguages(name)}`.replace(JOINERS, '')
  return new Set(plainSpelling(written).trim().split(/\s+/))
}

function addUnspaced(unspaced: Index['unspaced'], entry: string, concept: number): void {
  const entries = listOf(unspaced, entry.charAt(0))
  const known = entries.find((one) => one.entry === entry)
  if (known?.concepts.includes(concept)) return
  if (known) known.concepts.push(concept)
  else entries.push({ entry, concepts: [concept] })
}

function listOf<Value>(map: Map<string, Value[]>, key: string): Value[] {
  const known = map.get(key)
  if (known) return known
  const made: Value[] = []
  map.set(key, made)
  return made
}

function entryOf(word: string): Entry {
  const known = remembered.get(word)
  if (known !== undefined) return known
  const found = lookUp(word)
  if (remembered.size >= CACHED_WORDS) remembered.clear()
  remembered.set(word, found)
  return found
}

function lookUp(word: string): Entry {
  const concepts = new Set([...conceptsOf(word), ...stemsOf(word).flatMap(conceptsOf)])
  const expressions = index().expressions.get(word)
  if (concepts.size > 0) return { concepts: [...concepts], symbol: symbolOf([...concepts]), expressions }
  const symbol = index().functionWords.get(word) ?? (/^\d/.test(word) ? NUMBER_SYMBOL : CONTENT_SYMBOL)
  const meant = symbol === CONTENT_SYMBOL && !expressions ? intendedWord(word) : undefined
  return meant === undefined ? { concepts: NO_CONCEPTS, symbol, expressions } : { ...entryOf(meant), meant }
}

function conceptsOf(word: string): number[] {
  const { exact, prefixes } = index()
  const concepts = [...(exact.get(word) ?? [])]
  for (const { prefix, concept } of prefixes.get(word.slice(0, PREFIX_KEY_CHARS)) ?? []) {
    if (word.startsWith(prefix)) concepts.push(concept)
  }
  return concepts
}

/** Arabic and Hebrew write "and", "the" and prepositions as a part of the next word. */
const JOINED = /^(?:(?:[وف]?[بلک]?ال|[وف]?لل|[وفبلک])(?=[\u0620-\u06ff]{3})|[והבלמשכ]{1,3}(?=[א-ת]{3}))/u
/** Returns the word without the words that are joined to its start: "وبالتعليمات" is "تعليمات". */
function stemsOf(word: string): string[] {
  const joined = JOINED.exec(word)?.[0] ?? ''
  return Array.from({ length: joined.length }, (_, at) => word.slice(at + 1))
}

const symbolOf = ([first = 0, second = -1]: readonly number[]): number => first * SYMBOLS_PER_CONCEPT + second + 1
const expressionSymbol = (concept: number): number => (concept + 1) * SYMBOLS_PER_CONCEPT - 1

/** Whether a word has a concept or is a function word. */
export function isKnownWord(word: string): boolean {
  const { concepts, symbol } = entryOf(word)
  return concepts.length > 0 || symbol >= FIRST_FUNCTION_SYMBOL
}

/** Returns the number of words, and how many of them have a concept or are function words. Reads at most `limit` words. */
export function knownWords({ words, symbols }: Words, limit: number): { words: number; known: number } {
  const read = { words: 0, known: 0 }
  for (let at = 0; at < symbols.length && read.words < limit; at++) {
    const symbol = symbols[at]!
    if (isSign(symbol) || (symbol >= LINE_SYMBOL && symbol < CONTENT_SYMBOL)) continue
    read.words++
    if (symbol !== CONTENT_SYMBOL && words[at]!.length > 1) read.known++
  }
  return read
}

const UNKNOWN = 0
const SPACE = 1
const LETTER = 2
const INNER = 3
const LINE = 4
const SIGN = 5
const BARE = 6
const PICTURE = 7
/** The cached kind of each UTF-16 code unit. */
const KINDS = new Uint8Array(65_536)

function kindOf(unit: number): number {
  const kind = KINDS[unit]!
  if (kind !== UNKNOWN) return kind
  const found = classify(unit)
  KINDS[unit] = found
  return found
}

function classify(unit: number): number {
  const char = String.fromCharCode(unit)
  if (unit >= 0xd800 && unit <= 0xdfff) return PICTURE
  if (char === '\n' || char === '\u2028') return LINE
  if (char === "'" || char === '’' || char === '-') return INNER
  if (UNSPACED.test(char)) return BARE
  if (/[\p{L}\p{N}\p{M}_]/u.test(char)) return LETTER
  if (/[\s\p{C}\p{Z}]/u.test(char)) return SPACE
  return unit >= 0x2190 && unit < 0x3000 ? PICTURE : SIGN
}

/** Splits a text in plain spelling into words. Takes time linear in the length of the text. */
export function readWords(plain: string): Words {
  const read: Words = { words: [], starts: [], concepts: [], symbols: [] }
  const openings: Opening[] = []
  for (let at = 0; at < plain.length; ) {
    const start = at
    const kind = kindOf(plain.charCodeAt(at++))
    if (kind === SPACE) continue
    if (kind === LETTER) {
      at = endOfWord(plain, start)
      const word = plain.slice(start, at).replace('’', "'")
      const entry = entryOf(word)
      if (entry.expressions) openings.push({ at: read.words.length, expressions: entry.expressions })
      push(read, entry.meant ?? word, start, entry)
    } else if (kind === BARE) {
      const { length, entry } = longestUnspaced(plain, start)
      at = start + length
      push(read, plain.slice(start, at), start, entry)
    } else if (kind === LINE) {
      push(read, '\n', start, { concepts: NO_CONCEPTS, symbol: LINE_SYMBOL })
    } else if (kind === PICTURE) {
      while (at < plain.length && kindOf(plain.charCodeAt(at)) === PICTURE) at++
      push(read, '☺', start, { concepts: NO_CONCEPTS, symbol: PICTURE_SYMBOL })
    } else {
      const sign = plain.charCodeAt(start)
      const symbol = FIRST_SIGN_SYMBOL + (sign < 128 ? sign : 1)
      push(read, plain.charAt(start), start, { concepts: NO_CONCEPTS, symbol })
    }
  }
  joinExpressions(read, openings)
  return read
}

function push(read: Words, word: string, start: number, { concepts, symbol }: Entry): void {
  read.words.push(word)
  read.starts.push(start)
  read.concepts.push(concepts)
  read.symbols.push(symbol)
}

function endOfWord(plain: string, start: number): number {
  const limit = Math.min(plain.length, start + LONGEST_WORD_CHARS)
  let at = start + 1
  while (at < limit) {
    const kind = kindOf(plain.charCodeAt(at))
    // "don't" and "role-play" each count as one word.
    const inner = kind === INNER && at + 1 < plain.length && kindOf(plain.charCodeAt(at + 1)) === LETTER
    if (kind !== LETTER && !inner) break
    at++
  }
  return at
}

/**
 * In scripts without spaces, the longest matching lexicon entry counts as a word. Otherwise the few letters before the
 * next entry do.
 */
function longestUnspaced(plain: string, start: number): { length: number; entry: Entry } {
  const found = unspacedAt(plain, start)
  if (found) return found
  const longest = LONG_UNSPACED.test(plain.charAt(start)) ? UNKNOWN_LONG_CHARS : UNKNOWN_CHARS
  let length = 1
  while (length < longest && kindOf(plain.charCodeAt(start + length)) === BARE && !unspacedAt(plain, start + length))
    length++
  return { length, entry: { concepts: NO_CONCEPTS, symbol: CONTENT_SYMBOL } }
}

function unspacedAt(plain: string, start: number): { length: number; entry: Entry } | undefined {
  for (const { entry, concepts } of index().unspaced.get(plain.charAt(start)) ?? []) {
    if (!plain.startsWith(entry, start)) continue
    return { length: entry.length, entry: { concepts, symbol: symbolOf(concepts) } }
  }
  return undefined
}

/** A word that begins expressions, by its number. */
type Opening = { at: number; expressions: readonly Expression[] }

/** Adds the concept of each expression to the expression's first word. */
function joinExpressions({ words, concepts, symbols }: Words, openings: readonly Opening[]): void {
  for (const { at, expressions } of openings) {
    for (const { rest, open, concept } of expressions) {
      const last = rest.length - 1
      const fits = rest.every((word, step) => {
        const found = words[at + 1 + step]
        return open && step === last ? found?.startsWith(word) : found === word
      })
      if (!fits) continue
      concepts[at] = [...concepts[at]!, concept]
      symbols[at] = expressionSymbol(concept)
    }
  }
}
