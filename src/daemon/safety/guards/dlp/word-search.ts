// Finds listed words in one pass over a text. This file is long, because it contains the automaton and both of its
// reading modes.
import { codeUnitsOf } from '../../../platform/text/code-units.ts'
import { DETECTION_HOLD_CHARS, type Detector, type Finding, remembering } from '../detection.ts'

const CODES = 65_536
const ROOT = 0

/**
 * Maps each UTF-16 code unit to its lower case, or to itself if the lower case is longer than one code unit. Offsets
 * therefore stay the same.
 */
const SMALL = Uint16Array.from({ length: CODES }, (_, code) => {
  const small = String.fromCharCode(code).toLowerCase()
  return small.length === 1 ? small.charCodeAt(0) : code
})

const UNCHANGED = Uint16Array.from({ length: CODES }, (_, code) => code)

const NO_CHARACTERS = new Uint8Array(CODES)
const PLAIN_WORD_CHARACTERS = Uint8Array.from({ length: CODES }, (_, code) => (isPlainWord(code) ? 1 : 0))

const WORD_CHARACTER = /[\p{L}\p{N}_]/u
/** Scripts that do not separate words by spaces. */
const WITHOUT_BLANKS = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u

function isPlainWord(code: number): boolean {
  return code < 128 && /\w/.test(String.fromCharCode(code))
}

export type WordSearchOptions = { type: string; caseSensitive?: boolean; wholeWords?: boolean; confidence?: number }

const [UNKNOWN, BETWEEN_WORDS, IN_WORD, WORD_BY_ITSELF] = [0, 1, 2, 3]
/** The word kind of each code unit, computed on first use. */
const KINDS = new Uint8Array(CODES)

function kindOf(code: number): number {
  const known = KINDS[code] ?? UNKNOWN
  if (known !== UNKNOWN) return known
  const char = String.fromCharCode(code)
  const kind = WITHOUT_BLANKS.test(char) ? WORD_BY_ITSELF : WORD_CHARACTER.test(char) ? IN_WORD : BETWEEN_WORDS
  KINDS[code] = kind
  return kind
}

/** Whether there is a word boundary between these characters. */
const isEdge = (outside: number, inside: number): boolean =>
  kindOf(inside) !== IN_WORD || kindOf(outside) === BETWEEN_WORDS

/**
 * Finds any of many words in one pass (Aho and Corasick, 1975). The time depends on the length of the text, not on the
 * number of words. If words overlap, keeps the word that begins first. If several words begin at the same position,
 * keeps the longest.
 */
export function createWordSearch(words: readonly string[], options: WordSearchOptions): Detector {
  const { type, caseSensitive = false, wholeWords = true, confidence = 1 } = options
  const folded = caseSensitive ? UNCHANGED : SMALL
  const trie = createTrie(words, folded)
  const backwards = createTrie(words.map(reversed), folded)
  const [longWords, shortWords] = [words.filter(isLong), words.filter((word) => !isLong(word))]
  const longEnding = longWords.length > 0 ? createEndings(longWords, folded, wholeWords) : undefined
  const shortEnding = shortWords.length > 0 ? createEndings(shortWords, folded, wholeWords) : undefined
  const shortHint = hintOf(shortWords, folded)

  // Searches from the end of the text, so that each position yields the words that begin there, longest first. In a
  // forward search, each position would yield the words that end there, and the longest of them could overlap another
  // finding.
  const find = remembering((text) => {
    const found: Finding[] = []
    const units = codeUnitsOf(text)
    let node = ROOT
    let long = longEnding ? text.length : NOWHERE
    let short = shortEnding && shortHint.test(text) ? text.length : NOWHERE
    for (let at = text.length - 1; at >= 0; at -= 1) {
      // In most texts, this step skips most characters.
      if (node === ROOT) {
        if (longEnding && long > at) long = longEnding(units, at, text.length)
        if (shortEnding && short > at) short = shortEnding(units, at, text.length)
        at = Math.max(long, short)
        if (at < 0) break
      }
      const own = units[at] as number
      const code = folded[own] as number
      if (node === ROOT && wholeWords && !ends(text, at + 1, own)) continue
      node = backwards.next(node, code)
      // No word matches here, or the only possible word continues after `at`.
      if (node === ROOT || (wholeWords && backwards.depthOf(node) === 1 && !ends(text, at + 1, own))) {
        node = ROOT
        continue
      }
      let word = backwards.wordAt(node)
      if (word === ROOT || (wholeWords && !begins(text, at, own))) continue
      while (wholeWords && word !== ROOT && !ends(text, at + backwards.depthOf(word))) {
        word = backwards.shorterWordAt(word)
      }
      if (word !== ROOT) found.push({ start: at, end: at + backwards.depthOf(word), type, confidence })
    }
    return apart(found.reverse())
  })

  return {
    find,
    holdsOnlyValues: true,
    openFrom(text) {
      const from = Math.max(0, text.length - trie.longest)
      let node = ROOT
      for (let at = from; at < text.length; at += 1) {
        node = trie.next(node, folded[text.charCodeAt(at)] as number)
      }
      const open = text.length - trie.depthOf(node)
      return open === text.length ? open : beforeFinding(open, text, find)
    },
  }
}

const PAIR_BITS = 12
/** Returns a hash slot for two code units. Several pairs share a slot. */
const pairIndex = (before: number, last: number): number => (Math.imul(before, 67) ^ last) & ((1 << PAIR_BITS) - 1)

/** Returns a table by pairIndex: 0 if no word ends with these two code units. */
function endingsOf(words: readonly string[], folded: Uint16Array): Uint8Array {
  const endings = new Uint8Array(1 << PAIR_BITS)
  for (const word of words) {
    const [last = 0, before] = foldedOf(word, folded).slice(-2).toReversed()
    if (before !== undefined) endings[pairIndex(before, last)] = 1
    // A word of one character may follow any other character, so it sets all pairs that end with this character.
    else for (let any = 0; any < CODES; any += 1) endings[pairIndex(any, last)] = 1
  }
  return endings
}

/** The minimum length of long words. A search that looks only for long words can skip most characters of a text. */
const LONG_CHARS = 5
const isLong = (word: string): boolean => word.length >= LONG_CHARS

const BEYOND_LATIN = /[\u0600-\u1fff\u2c00-\uffff]/
const ANYTHING = /[\s\S]/

/**
 * Returns a pattern that matches every text that contains one of these words. The pattern is a prefilter: texts in
 * Latin script need no search for words in other scripts.
 */
function hintOf(words: readonly string[], folded: Uint16Array): RegExp {
  const own = new Set(words.flatMap((word) => foldedOf(word, folded)))
  for (let code = 0; code < CODES; code += 1) {
    if (own.has(folded[code] as number) && !BEYOND_LATIN.test(String.fromCharCode(code))) return ANYTHING
  }
  return BEYOND_LATIN
}

const NOWHERE = -1

/**
 * Returns the last position up to `at` where a word may end, judged by the word's last characters and the next
 * character. Returns 0 if there is no such position after the first character.
 */
type Endings = (units: Uint16Array, at: number, length: number) => number

/**
 * Implements the algorithm of Wu and Manber (1994): reads two characters at a time in a window as long as the shortest
 * word. Skips all positions at which no word with these two characters can end.
 */
function createEndings(words: readonly string[], folded: Uint16Array, wholeWords: boolean): Endings {
  const mayEnd = endingsOf(words, folded)
  /**
   * 1 for word characters. A word that ends with a word character matches only before a non-word character or the end
   * of the text.
   */
  const goesOn = wholeWords ? PLAIN_WORD_CHARACTERS : NO_CHARACTERS
  const shortest = Math.min(...words.map(({ length }) => length))
  const chars = Math.max(2, shortest)
  /** A table by pairIndex: the minimum distance to the next position on the left at which a word may end. */
  const steps = new Uint8Array(1 << PAIR_BITS).fill(shortest < 2 ? 0 : Math.min(chars - 1, MOST_STEPS))
  for (const word of words) {
    const ending = foldedOf(word, folded).slice(-chars)
    for (let at = 0; at + 1 < ending.length; at += 1) {
      const pair = pairIndex(ending[at] as number, ending[at + 1] as number)
      steps[pair] = Math.min(steps[pair] as number, at)
    }
  }

  return (units, at, length) => {
    // Local copies, because V8 looks up closure variables on each access.
    const small = folded
    const stepOf = steps
    const ahead = chars - 1
    for (let end = at; end >= ahead; ) {
      const first = small[units[end - ahead] as number] as number
      const second = small[units[end - ahead + 1] as number] as number
      const step = stepOf[pairIndex(first, second)] as number
      if (step > 0) {
        end -= step
        continue
      }
      const before = units[end - 1] as number
      const last = units[end] as number
      const isPair = mayEnd[pairIndex(folded[before] as number, folded[last] as number)] as number
      const following = end + 1 < length ? (goesOn[units[end + 1] as number] as number) : 0
      // This code is branch-free: word ends are unpredictable, so the CPU would often mispredict a branch.
      if ((isPair & ~((goesOn[last] as number) & following)) === 1) return end
      end -= 1
    }
    return 0
  }
}
const MOST_STEPS = 255

const foldedOf = (word: string, folded: Uint16Array): number[] =>
  word.split('').map((char) => folded[char.charCodeAt(0)] as number)

const reversed = (word: string): string => word.split('').reverse().join('')

/** Whether a word begins at `start`, where `code` is its first character. */
const begins = (text: string, start: number, code: number): boolean =>
  start === 0 || isEdge(text.charCodeAt(start - 1), code)

/** Whether a word ends before `end`, where `code` is its last character. */
const ends = (text: string, end: number, code = text.charCodeAt(end - 1)): boolean =>
  end === text.length || isEdge(text.charCodeAt(end), code)

/** Removes each finding that overlaps an earlier finding. The input must be sorted by start. */
function apart(found: readonly Finding[]): Finding[] {
  const kept: Finding[] = []
  let free = 0
  for (const finding of found) {
    if (finding.start < free) continue
    kept.push(finding)
    free = finding.end
  }
  return kept
}

/** Returns `open`, or the start of the finding that spans `open`. */
export const beforeFinding = (open: number, text: string, find: (text: string) => Finding[]): number =>
  beforeOneOf(open, find(text.slice(heldFrom(open))))

/** Returns the first position at which a finding that spans `open` can begin. */
export const heldFrom = (open: number): number => Math.max(0, open - DETECTION_HOLD_CHARS)

/**
 * Like `beforeFinding`. @param findings the findings in the text from `heldFrom(open)` on, with offsets relative to
 * `heldFrom(open)`
 */
export function beforeOneOf(open: number, findings: readonly Finding[]): number {
  const from = heldFrom(open)
  for (const { start, end } of findings.toReversed()) {
    if (start + from < open && end + from > open) return start + from
  }
  return open
}

/**
 * The edges of the trie. The edges are stored in a hash table of plain numbers, because the table is accessed for most
 * characters of a text.
 */
class Edges {
  readonly #nodes: Int32Array
  readonly #codes: Uint16Array
  readonly #children: Int32Array
  readonly #mask: number

  constructor(most: number) {
    const size = 2 ** Math.ceil(Math.log2(2 * most + 2))
    this.#nodes = new Int32Array(size)
    this.#codes = new Uint16Array(size)
    this.#children = new Int32Array(size)
    this.#mask = size - 1
  }

  /** Returns ROOT if there is no such child. ROOT itself is never a child. */
  childOf(node: number, code: number): number {
    return this.#children[this.#slotOf(node, code)] as number
  }

  add(node: number, code: number, child: number): void {
    const slot = this.#slotOf(node, code)
    this.#nodes[slot] = node
    this.#codes[slot] = code
    this.#children[slot] = child
  }

  /** Returns the slot where this edge is stored, or would be stored. */
  #slotOf(node: number, code: number): number {
    let slot = (Math.imul(node, 0x9e3779b1) ^ Math.imul(code, 0x85ebca6b)) >>> 7
    for (;;) {
      slot &= this.#mask
      if (this.#children[slot] === ROOT || (this.#nodes[slot] === node && this.#codes[slot] === code)) return slot
      slot += 1
    }
  }
}

type Trie = {
  longest: number
  next(node: number, code: number): number
  depthOf(node: number): number
  /** Returns the end node of the longest word that ends at this node, or ROOT if there is none. */
  wordAt(node: number): number
  shorterWordAt(node: number): number
}

function createTrie(words: readonly string[], folded: Uint16Array): Trie {
  const edges = new Edges(words.reduce((chars, word) => chars + word.length, 0))
  const depths = [0]
  const isWord = [false]
  const parents: { node: number; code: number }[] = [{ node: ROOT, code: 0 }]
  for (const word of words) {
    let node = ROOT
    for (const code of foldedOf(word, folded)) {
      let child = edges.childOf(node, code)
      if (child === ROOT) {
        child = depths.length
        edges.add(node, code, child)
        depths.push((depths[node] ?? 0) + 1)
        isWord.push(false)
        parents.push({ node, code })
      }
      node = child
    }
    isWord[node] = true
  }

  // The failure link of a node leads to its longest proper suffix that is a prefix of a word.
  const fallbacks = new Int32Array(depths.length)
  const shorterWords = new Int32Array(depths.length)
  const longestWords = Int32Array.from(isWord, (ends, node) => (ends ? node : ROOT))
  const next = (from: number, code: number): number => {
    let node = from
    for (;;) {
      const child = edges.childOf(node, code)
      if (child !== ROOT || node === ROOT) return child
      node = fallbacks[node] ?? ROOT
    }
  }
  const byDepth = depths.map((_, node) => node).sort((one, other) => (depths[one] ?? 0) - (depths[other] ?? 0))
  for (const node of byDepth) {
    const { node: parent = ROOT, code = 0 } = parents[node] ?? {}
    if (parent === ROOT) continue
    const fallback = next(fallbacks[parent] ?? ROOT, code)
    fallbacks[node] = fallback
    shorterWords[node] = longestWords[fallback] ?? ROOT
    if (!isWord[node]) longestWords[node] = shorterWords[node]
  }
  return {
    longest: Math.max(1, ...words.map(({ length }) => length)),
    next,
    depthOf: (node) => depths[node] ?? 0,
    wordAt: (node) => longestWords[node] ?? ROOT,
    shorterWordAt: (node) => shorterWords[node] ?? ROOT,
  }
}
