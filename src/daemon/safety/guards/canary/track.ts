import {
  codePointOf,
  isHighSurrogate,
  isLowSurrogate,
  letterOf,
  letterOfSign,
  plainLetterOf,
} from '../view/characters.ts'
import { CANARY_WORD_LETTERS, CANARY_WORDS, type Canary } from './marker.ts'

/**
 * The number of consecutive letters that identify a canary. A canary has 36 letters. A random match occurs once in
 * several gigabytes of text.
 */
const TELLING_LETTERS = 16
/**
 * The length of a seed: the shortest part of a canary that starts a match. A stream may release the first word of a
 * canary, because a match is suspected only after a seed.
 */
const SEED_LETTERS = CANARY_WORD_LETTERS
const SEED_STEPS = SEED_LETTERS - 1
/** The maximum distance between two letters of a run, in characters. */
const GAP_CHARS = 16
/**
 * The number of different words that identify a canary. These words must be within WORDS_WITHIN_CHARS characters, with
 * any text between them.
 */
const TELLING_WORDS = 3
const WORDS_WITHIN_CHARS = 160

const ALPHABET = 26
const STEP_BITS = 5
const KEY_MASK = (1 << (STEP_BITS * SEED_STEPS)) - 1
const FILTER_BITS = 14

/** One spelling of a canary: the alphabet distance from each letter to the next. */
type Sequence = { canary: number; steps: readonly number[] }
/** The position of a seed in a sequence. */
type Seed = { sequence: number; at: number }

/** Contains every sequence of SEED_LETTERS letters in the canaries, in all spellings. */
export type Seeds = {
  canaries: readonly Canary[]
  sequences: readonly Sequence[]
  byKey: ReadonlyMap<number, readonly Seed[]>
  /**
   * A prefilter that rejects nearly all text. The bitset is small, so that loading it is fast: it has usually been
   * evicted from the CPU cache when a stream needs it.
   */
  filter: Int32Array
}

/**
 * Shifting all letters does not change the distances between letters. The search therefore also finds ROT13 and other
 * Caesar ciphers. The other spellings are the reversed alphabet (Atbash), and both alphabets written backwards.
 */
export function createSeeds(canaries: readonly Canary[]): Seeds {
  const sequences = canaries.flatMap(({ words }, canary) => {
    const letters = Array.from(words.join(''), (letter) => letter.charCodeAt(0) - 97)
    return [letters, letters.toReversed()].flatMap((order) => [
      { canary, steps: stepsOf(order) },
      { canary, steps: stepsOf(order.map((letter) => ALPHABET - 1 - letter)) },
    ])
  })
  const byKey = new Map<number, Seed[]>()
  const filter = new Int32Array((1 << FILTER_BITS) / 32)
  for (const [sequence, { steps }] of sequences.entries()) {
    for (let at = 0; at + SEED_STEPS <= steps.length; at++) {
      const key = steps.slice(at, at + SEED_STEPS).reduce(withStep, 0)
      byKey.set(key, [...(byKey.get(key) ?? []), { sequence, at }])
      const bit = filterBit(key)
      filter[bit >> 5] = (filter[bit >> 5] as number) | (1 << (bit & 31))
    }
  }
  return { canaries, sequences, byKey, filter }
}

const stepsOf = (letters: readonly number[]): number[] =>
  letters.slice(1).map((letter, at) => (letter - (letters[at] as number) + ALPHABET) % ALPHABET)

/** Returns the alphabet distance from one letter to the next. */
const stepTo = (letter: number, last: number): number => {
  const step = letter - last
  // This code is branch-free: the sign is random, so the CPU would often mispredict a branch.
  return step + ((step >> 31) & ALPHABET)
}
const withStep = (key: number, step: number): number => ((key << STEP_BITS) | step) & KEY_MASK
const filterBit = (key: number): number => (key ^ (key >> FILTER_BITS)) & ((1 << FILTER_BITS) - 1)

function mayBeSeed(filter: Int32Array, key: number): boolean {
  const bit = filterBit(key)
  return (((filter[bit >> 5] as number) >> (bit & 31)) & 1) === 1
}

/**
 * A prefilter. Returns true for every text that contains a seed as plain text. Returns false for nearly every other
 * text.
 */
export function mayHoldSeed(units: Uint16Array, length: number, { filter, byKey }: Seeds): boolean {
  let key = 0
  let last = 0
  let isAfterLetter = false
  for (let at = 0; at < length; at++) {
    const code = units[at] as number
    let letter = plainLetterOf(code)
    if (letter < 0) {
      if (code >= 128) {
        if (isHighSurrogate(code)) continue
        const high = isLowSurrogate(code) && at > 0 ? (units[at - 1] as number) : 0
        letter = letterOf(isHighSurrogate(high) ? codePointOf(high, code) : code)
      } else if (isAfterLetter) letter = letterOfSign(code)
    }
    isAfterLetter = letter >= 0
    if (letter < 0) continue
    key = withStep(key, stepTo(letter, last))
    last = letter
    if (mayBeSeed(filter, key) && byKey.has(key)) return true
  }
  return false
}

/** A part of a canary that later letters may extend. */
type Run = { at: number; letter: number; letters: number; start: number; sighting: Sighting | undefined }

export type Sighting = { canary: number; start: number; end: number }

/** A whole word of a canary. */
type WordSeen = Sighting & { word: number }

/** Collects the matches that all tracks found in one text. */
export class Sightings {
  readonly #runs: Sighting[] = []
  readonly #words: WordSeen[] = []

  add(sighting: Sighting): Sighting {
    this.#runs.push(sighting)
    return sighting
  }

  addWord(seen: WordSeen): void {
    this.#words.push(seen)
  }

  /**
   * Returns the matches in which the tracks found enough consecutive letters of a canary, or enough of its words near
   * each other. The matches are unordered.
   */
  all(): Sighting[] {
    return [...this.#runs, ...this.#nearWords()]
  }

  #nearWords(): Sighting[] {
    if (this.#words.length < TELLING_WORDS) return []
    /** For each canary, the last match of each of its words. */
    const seen: number[][] = []
    return this.#words
      .toSorted((one, other) => one.start - other.start)
      .flatMap(({ canary, word, start, end }) => {
        seen[canary] ??= []
        const seenAt = seen[canary]
        seenAt[word] = start
        const near = seenAt.filter((at) => at >= start - WORDS_WITHIN_CHARS)
        return near.length >= TELLING_WORDS ? [{ canary, start, end }] : []
      })
  }
}

/** Tracks the letters of one reading of a text: the text as written, or decoded. */
export class Track {
  readonly #seeds: Seeds
  readonly #sightings: Sightings
  readonly #runs: (Run | undefined)[] = []
  #letters = 0
  #last = -1
  #end = 0
  #key = 0
  /** The number of letters since the last gap. */
  #row = 0

  constructor(seeds: Seeds, sightings: Sightings) {
    this.#seeds = seeds
    this.#sightings = sightings
  }

  /** @param letter 0 for a; @param at the index of the last character that encodes the letter */
  add(letter: number, at: number): void {
    if (at - this.#end > GAP_CHARS) this.#row = 0
    this.#key = withStep(this.#key, stepTo(letter, this.#last))
    this.#last = letter
    this.#end = at + 1
    this.#letters++
    this.#row++
    if (mayBeSeed(this.#seeds.filter, this.#key)) this.#sow(this.#key, at)
  }

  /** Ends the current run: the next letter starts a new run. */
  cut(): void {
    this.#row = 0
  }

  /** Returns the start of a partial canary that later letters could extend. */
  openFrom(length: number): number {
    let open = length
    if (this.#row < SEED_LETTERS || length - this.#end > GAP_CHARS) return open
    for (const [sequence, run] of this.#runs.entries()) {
      if (run?.letter !== this.#letters || this.#isWhole(sequence, run.at)) continue
      open = Math.min(open, run.start)
    }
    return open
  }

  #sow(key: number, start: number): void {
    if (this.#row < SEED_LETTERS) return
    const end = start + 1
    for (const { sequence, at } of this.#seeds.byKey.get(key) ?? []) {
      const before = this.#runs[sequence]
      const canary = this.#seeds.sequences[sequence]?.canary ?? 0
      if (at % CANARY_WORD_LETTERS === 0) {
        this.#sightings.addWord({ canary, word: this.#wordAt(sequence, at), start, end })
      }
      if (before && before.letter === this.#letters - 1 && before.at === at - 1) {
        before.at = at
        before.letter = this.#letters
        before.letters++
        if (before.sighting) before.sighting.end = end
        else if (before.letters >= TELLING_LETTERS) {
          before.sighting = this.#sightings.add({ canary, start: before.start, end })
        }
      } else {
        this.#runs[sequence] = { at, letter: this.#letters, letters: SEED_LETTERS, start, sighting: undefined }
      }
    }
  }

  /** If a canary is written backwards, its words are counted from the end. */
  #wordAt(sequence: number, at: number): number {
    const word = at / CANARY_WORD_LETTERS
    return sequence % WRITINGS < WRITINGS / 2 ? word : CANARY_WORDS - 1 - word
  }

  #isWhole(sequence: number, at: number): boolean {
    return at + SEED_STEPS === this.#seeds.sequences[sequence]?.steps.length
  }
}

/** The number of spellings: forwards and backwards, each with the normal and the reversed alphabet. */
const WRITINGS = 4
