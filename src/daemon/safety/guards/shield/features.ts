import { findPhrases, PHRASES, type PhraseHit } from './phrases.ts'
import type { Reading, Window } from './reading.ts'
import { ODDITIES, odditiesOf, type Segment } from './segments.ts'
import { SIGNAL_COUNT, signalsOf } from './signals.ts'
import { CONCEPTS, CONTENT_SYMBOL, LINE_SYMBOL, type Words } from './words.ts'

/** The features of a window: the indices of nonzero features, and their values. */
export type Features = { indices: number[]; values: number[] }

/** The number of slots for sequences of adjacent symbols (words.ts). Such sequences describe the form of a wording. */
const SHAPES = 32_768
/** The number of slots for sequences of concepts. Any other words may stand between the concepts. */
const CHAINS = 16_384
const WORDINGS = 8_192
/** The number of slots for requests that differ from the surrounding text: their starts and subjects. */
const ODD_SHAPES = 4_096

const SHAPES_AT = 0
const CHAINS_AT = SHAPES_AT + SHAPES
const WORDINGS_AT = CHAINS_AT + CHAINS
/** The index of the first named feature. The named features are few, and do not depend on wording. */
export const NAMED_AT = WORDINGS_AT + WORDINGS
const PHRASES_AT = NAMED_AT
const CONCEPTS_AT = PHRASES_AT + PHRASES.length
const MANY_AT = CONCEPTS_AT + CONCEPTS.length
const SIGNALS_AT = MANY_AT + CONCEPTS.length
const ODDITIES_AT = SIGNALS_AT + SIGNAL_COUNT
const ODD_AT = ODDITIES_AT + ODDITIES
/** The number of features. */
export const FEATURES = ODD_AT + ODD_SHAPES

const LONGEST_SHAPE = 3
/** The maximum distance between the concepts of a chain, in words. */
const CHAIN_WORDS = 8
const CHAIN_LINKS = 4
const LEAST_GROUP = 12

/**
 * Contains, for each feature, the last window in which the feature was counted. This array avoids adding a feature
 * twice per window, and needs no allocation per window.
 */
const seenIn = new Float64Array(FEATURES)
let current = 0

/** Returns the features of a window, and its phrases. */
export function featuresOf(
  { words: read, spelled }: Reading,
  window: Window,
): { features: Features; phrases: PhraseHit[] } {
  const phrases = findPhrases(read, window.from, window.to)
  const features: Features = { indices: [], values: [] }
  current++
  addGroup(features, 2, () => addShapes(features, read, window))
  addGroup(features, 3, () => addChains(features, read, window))
  addGroup(features, 1, () => addWordings(features, read, window))
  for (const { phrase } of phrases) add(features, PHRASES_AT + PHRASES.indexOf(phrase), 1)
  const counts = new Uint16Array(CONCEPTS.length)
  for (let word = window.from; word < window.to; word++) {
    for (const concept of read.concepts[word]!) counts[concept]!++
  }
  for (const [concept, count] of counts.entries()) {
    if (count > 0) add(features, CONCEPTS_AT + concept, 1)
    if (count > 2) add(features, MANY_AT + concept, Math.min(1.5, Math.log2(count) / 3))
  }
  for (const signal of signalsOf(read, spelled, window)) add(features, SIGNALS_AT + signal, 1)
  const { numbers, odd } = odditiesOf(read, window)
  for (const oddity of numbers) add(features, ODDITIES_AT + oddity, 1)
  addGroup(features, 2, () => addOddShapes(features, read, odd))
  return { features, phrases }
}

function add({ indices, values }: Features, index: number, value: number): void {
  indices.push(index)
  values.push(value)
}

/** Adds a group of features, normalized so that its weight does not depend on the text's length. */
function addGroup({ indices, values }: Features, weight: number, addAll: () => void): void {
  const before = indices.length
  addAll()
  const value = weight / Math.sqrt(Math.max(LEAST_GROUP, indices.length - before))
  while (values.length < indices.length) values.push(value)
}

function addOnce({ indices }: Features, index: number): void {
  if (seenIn[index] === current) return
  seenIn[index] = current
  indices.push(index)
}

const mix = (hash: number, symbol: number) => Math.imul(hash ^ symbol, 0x9e3779b1) ^ (hash >>> 15)
const slot = (hash: number, slots: number) => (Math.imul(hash ^ (hash >>> 13), 0x85ebca6b) >>> 8) & (slots - 1)

function addShapes(features: Features, { symbols }: Words, { from, to }: Window): void {
  for (let start = from; start < to; start++) {
    let hash = 17
    for (let length = 1; length <= LONGEST_SHAPE && start + length <= to; length++) {
      hash = mix(hash, symbols[start + length - 1]!)
      addOnce(features, SHAPES_AT + slot(hash, SHAPES))
    }
  }
}

/** Adds pairs and triples of concepts that are near each other. */
function addChains(features: Features, { concepts }: Words, { from, to }: Window): void {
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
        addOnce(features, CHAINS_AT + slot(pair, CHAINS))
        if (link.before >= 0) addOnce(features, CHAINS_AT + slot(mix(pair, link.before + 977), CHAINS))
      }
    }
    links = [...near, ...made]
  }
}

function addWordings(features: Features, { words, symbols }: Words, { from, to }: Window): void {
  let previous = 0
  for (let at = from; at < to; at++) {
    if (symbols[at] === LINE_SYMBOL) continue
    // A word without a concept is skipped, because it may be a name.
    if (symbols[at] === CONTENT_SYMBOL) {
      previous = 0
      continue
    }
    const word = words[at]!
    let hash = 41
    for (let char = 0; char < word.length; char++) hash = mix(hash, word.charCodeAt(char))
    addOnce(features, WORDINGS_AT + slot(hash, WORDINGS))
    if (previous !== 0) addOnce(features, WORDINGS_AT + slot(mix(previous, hash), WORDINGS))
    previous = hash
  }
}

const ODD_BEGINNING = 4
const ODD_WORDS = 40

function addOddShapes(features: Features, { symbols, concepts }: Words, odd: Segment[]): void {
  for (const { from, to } of odd) {
    let hash = 53
    for (let at = from; at < Math.min(to, from + ODD_BEGINNING); at++) {
      hash = mix(hash, symbols[at]!)
      addOnce(features, ODD_AT + slot(hash, ODD_SHAPES))
    }
    const about = new Set<number>()
    for (let at = from; at < Math.min(to, from + ODD_WORDS); at++) for (const one of concepts[at]!) about.add(one)
    for (const one of about) {
      addOnce(features, ODD_AT + slot(mix(71, one), ODD_SHAPES))
      for (const other of about) if (one < other) addOnce(features, ODD_AT + slot(mix(mix(73, one), other), ODD_SHAPES))
    }
  }
}
