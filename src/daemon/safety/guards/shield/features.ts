// Turns a text into features. The features of words are collected once per sentence, so that the many pieces of a text
// that overlap cost little more than the text alone.
import { allPhrases, PHRASES, type PhraseHit } from './phrases.ts'
import type { Reading } from './reading.ts'
import { addSignals, firstFrom, kindOutside, SIGNAL_COUNT, type Sums, sumsOf, TEXT_KINDS } from './signals.ts'
import { isData, TEXT_SOURCES, type TextSource } from './source.ts'
import { type Piece, piecesOf, SCALE_COUNT, type Unit, unitsOf } from './units.ts'
import { CONCEPTS, CONTENT_SYMBOL, type Words } from './words.ts'

/** The number of slots for sequences of adjacent symbols (words.ts). Such sequences describe the form of a wording. */
const SHAPES = 32_768
/** The number of slots for sequences of concepts. Any other words may stand between the concepts. */
const CHAINS = 16_384
const WORDINGS = 8_192

const SHAPES_AT = 0
const CHAINS_AT = SHAPES_AT + SHAPES
const WORDINGS_AT = CHAINS_AT + CHAINS
/** The index of the first named feature. The named features are few, and do not depend on wording. */
export const NAMED_AT = WORDINGS_AT + WORDINGS
const PHRASES_AT = NAMED_AT
const CONCEPTS_AT = PHRASES_AT + PHRASES.length
const MANY_AT = CONCEPTS_AT + CONCEPTS.length
const SIGNALS_AT = MANY_AT + CONCEPTS.length

const KINDS_OF_REQUEST = 4
const REST_KINDS = TEXT_KINDS + 1
const REST_REQUESTS = 3
const POSITIONS = 4
const KINSHIPS = 4
const HIDDEN_AT = SIGNALS_AT + SIGNAL_COUNT
const SIZES_AT = HIDDEN_AT + 1
/** Named features of texts that should be data. A request in such a text has another meaning than one of a user. */
const DATA_AT = SIZES_AT + SCALE_COUNT
const NAMED = DATA_AT - NAMED_AT
const REQUESTS_AT = DATA_AT + NAMED
const POSITIONS_AT = REQUESTS_AT + KINDS_OF_REQUEST * REST_KINDS * REST_REQUESTS
const KINSHIPS_AT = POSITIONS_AT + KINDS_OF_REQUEST * POSITIONS
const SOURCES_AT = KINSHIPS_AT + KINSHIPS
/** The number of features. */
export const FEATURES = SOURCES_AT + TEXT_SOURCES.length

/** The groups of features of words. Each group is normalized, so that its weight does not depend on a piece's length. */
export const GROUPS = [
  { from: SHAPES_AT, weight: 2 },
  { from: CHAINS_AT, weight: 3 },
  { from: WORDINGS_AT, weight: 1 },
] as const
const LEAST_IN_GROUP = 12

/** Returns the value of each feature in a group with `count` features. */
export const valueInGroup = (weight: number, count: number): number =>
  weight / Math.sqrt(Math.max(LEAST_IN_GROUP, count))

/** The features of a text. */
export type TextFeatures = {
  words: Words
  units: readonly Unit[]
  pieces: readonly Piece[]
  /** The features of words, of all units: those of unit `u` and group `g` begin at `starts[u * GROUPS.length + g]`. */
  indices: Int32Array
  starts: Int32Array
  phrases: readonly PhraseHit[]
  sums: Sums
  /** How often each concept occurs before each unit. */
  concepts: Int32Array
  isHidden: boolean
  /** The share of words without a concept that also occur elsewhere, for each unit: their number, and the known ones. */
  contents: readonly (readonly string[])[]
  contentCounts: ReadonlyMap<string, number>
}

const LONGEST_SHAPE = 3
/** The maximum distance between the concepts of a chain, in words. */
const CHAIN_WORDS = 8
const CHAIN_LINKS = 4
const START_SYMBOL = 5_003

/** Contains, for each feature, the last unit in which the feature was counted, over all texts. */
const seenIn = new Float64Array(NAMED_AT)
let current = 0
let buffer = new Int32Array(65_536)
let used = 0

/** Returns the features of a text. @param isHidden whether the text was decoded from another text */
export function readFeatures({ words: read, spelled }: Reading, isHidden = false): TextFeatures {
  const { words, units } = unitsOf(read)
  const starts = new Int32Array(units.length * GROUPS.length + 1)
  const concepts = new Int32Array((units.length + 1) * CONCEPTS.length)
  const contents: string[][] = []
  const contentCounts = new Map<string, number>()
  used = 0
  for (const [number, unit] of units.entries()) {
    current++
    addShapes(words, unit)
    starts[number * GROUPS.length + 1] = used
    addChains(words, unit)
    starts[number * GROUPS.length + 2] = used
    addWordings(words, unit)
    starts[number * GROUPS.length + 3] = used
    countConcepts(words, unit, concepts, number)
    contents.push(contentsOf(words, unit, contentCounts))
  }
  return {
    words,
    units,
    pieces: piecesOf(units),
    indices: buffer.slice(0, used),
    starts,
    phrases: allPhrases(words, 0, words.words.length),
    sums: sumsOf(words, units, spelled),
    concepts,
    isHidden,
    contents,
    contentCounts,
  }
}

function addOnce(index: number): void {
  if (seenIn[index] === current) return
  seenIn[index] = current
  if (used === buffer.length) {
    const longer = new Int32Array(2 * used)
    longer.set(buffer)
    buffer = longer
  }
  buffer[used++] = index
}

const mix = (hash: number, symbol: number) => Math.imul(hash ^ symbol, 0x9e3779b1) ^ (hash >>> 15)
const slot = (hash: number, slots: number) => (Math.imul(hash ^ (hash >>> 13), 0x85ebca6b) >>> 8) & (slots - 1)

function addShapes({ symbols }: Words, { from, to }: Unit): void {
  for (let start = from - 1; start < to; start++) {
    let hash = 17
    for (let length = 1; length <= LONGEST_SHAPE && start + length <= to; length++) {
      const at = start + length - 1
      hash = mix(hash, at < from ? START_SYMBOL : symbols[at]!)
      if (at >= from) addOnce(SHAPES_AT + slot(hash, SHAPES))
    }
  }
}

/** Adds pairs and triples of concepts that are near each other. */
function addChains({ concepts }: Words, { from, to }: Unit): void {
  let links: { word: number; concept: number; before: number }[] = []
  for (let word = from; word < to; word++) {
    const here = concepts[word]!
    if (here.length === 0) continue
    const near = links.filter((link) => word - link.word <= CHAIN_WORDS).slice(-CHAIN_LINKS)
    const made: typeof links = []
    for (const concept of here) {
      made.push({ word, concept, before: near.at(-1)?.concept ?? -1 })
      for (const link of near) {
        const pair = mix(mix(29, link.concept), concept)
        addOnce(CHAINS_AT + slot(pair, CHAINS))
        if (link.before >= 0) addOnce(CHAINS_AT + slot(mix(pair, link.before + 977), CHAINS))
      }
    }
    links = [...near, ...made]
  }
}

function addWordings({ words, symbols }: Words, { from, to }: Unit): void {
  let previous = 0
  for (let at = from; at < to; at++) {
    // A word without a concept is skipped, because it may be a name.
    if (symbols[at] === CONTENT_SYMBOL) {
      previous = 0
      continue
    }
    const word = words[at]!
    let hash = 41
    for (let char = 0; char < word.length; char++) hash = mix(hash, word.charCodeAt(char))
    addOnce(WORDINGS_AT + slot(hash, WORDINGS))
    if (previous !== 0) addOnce(WORDINGS_AT + slot(mix(previous, hash), WORDINGS))
    previous = hash
  }
}

function countConcepts({ concepts }: Words, { from, to }: Unit, sums: Int32Array, unit: number): void {
  const row = unit * CONCEPTS.length
  const next = row + CONCEPTS.length
  for (let concept = 0; concept < CONCEPTS.length; concept++) sums[next + concept] = sums[row + concept]!
  for (let word = from; word < to; word++) for (const concept of concepts[word]!) sums[next + concept]!++
}

/** Returns the distinct words of a unit that have no concept, and counts in how many units each of them occurs. */
function contentsOf({ words, symbols }: Words, { from, to }: Unit, counts: Map<string, number>): string[] {
  const found = new Set<string>()
  for (let at = from; at < to; at++) if (symbols[at] === CONTENT_SYMBOL) found.add(words[at]!)
  for (const word of found) counts.set(word, (counts.get(word) ?? 0) + 1)
  return [...found]
}

const lastOf = ({ last }: PhraseHit): number => last

const phraseSeenIn = new Float64Array(PHRASES.length)

/** Reports the named features of a piece with their values: its phrases, concepts, signals, context and source. */
export function addNamed(
  text: TextFeatures,
  piece: Piece,
  source: TextSource,
  add: (index: number, value: number) => void,
): void {
  const inData = isData(source)
  const named = (index: number, value = 1) => {
    add(index, value)
    if (inData) add(index + NAMED, value)
  }
  const from = text.units[piece.from]!.from
  const to = text.units[piece.to - 1]!.to
  current++
  for (let at = firstFrom(text.phrases, from, lastOf); at < text.phrases.length; at++) {
    const { phrase, first, last } = text.phrases[at]!
    if (last >= to) break
    if (first < from) continue
    const number = PHRASES.indexOf(phrase)
    if (phraseSeenIn[number] === current) continue
    phraseSeenIn[number] = current
    named(PHRASES_AT + number)
  }
  const before = piece.from * CONCEPTS.length
  const after = piece.to * CONCEPTS.length
  for (let concept = 0; concept < CONCEPTS.length; concept++) {
    const count = text.concepts[after + concept]! - text.concepts[before + concept]!
    if (count > 0) named(CONCEPTS_AT + concept)
    if (count > 2) named(MANY_AT + concept, Math.min(1.5, Math.log2(count) / 3))
  }
  addSignals(text.sums, from, to, (signal) => named(SIGNALS_AT + signal))
  // A user may write a request among other text. In data, it matters whether a request differs from the rest.
  if (inData) addContext(text, piece, from, to, add)
  if (text.isHidden) named(HIDDEN_AT)
  named(SIZES_AT + piece.scale)
  add(SOURCES_AT + TEXT_SOURCES.indexOf(source), 1)
}

const requestOf = ({ asks, commands, addressed }: Unit): number =>
  asks || commands ? (asks ? 0 : 2) + (addressed ? 1 : 0) : -1

const FEW = 0.35

/** Adds how a piece relates to the rest of the text. */
function addContext(
  { units, words, sums, contents, contentCounts }: TextFeatures,
  piece: Piece,
  from: number,
  to: number,
  add: (index: number, value: number) => void,
): void {
  const isWhole = piece.isAlone === true || (piece.from === 0 && piece.to === units.length)
  const rest = isWhole ? TEXT_KINDS : kindOutside(sums, words.words.length, from, to)
  let outside = 0
  let wanting = 0
  const near = 24
  for (let at = Math.max(0, piece.from - near); at < Math.min(units.length, piece.to + near); at++) {
    if (at >= piece.from && at < piece.to) continue
    outside++
    if (requestOf(units[at]!) >= 0) wanting++
  }
  const requests = wanting === 0 ? 0 : wanting / outside < FEW ? 1 : 2
  const position = isWhole ? 3 : piece.from === 0 ? 0 : piece.to === units.length ? 1 : 2
  let kinds = 0
  for (let at = piece.from; at < piece.to; at++) {
    const kind = requestOf(units[at]!)
    if (kind < 0 || kinds & (1 << kind)) continue
    kinds |= 1 << kind
    add(REQUESTS_AT + (kind * REST_KINDS + rest) * REST_REQUESTS + requests, 1)
    add(POSITIONS_AT + kind * POSITIONS + position, 1)
  }
  if (isWhole) return
  let distinct = 0
  let shared = 0
  for (let at = piece.from; at < piece.to; at++) {
    for (const word of contents[at]!) {
      distinct++
      if (contentCounts.get(word)! > 1) shared++
    }
  }
  const kinship = distinct === 0 ? 0 : shared / distinct
  add(KINSHIPS_AT + (distinct === 0 ? 0 : kinship < 0.1 ? 1 : kinship < 0.3 ? 2 : 3), 1)
}
