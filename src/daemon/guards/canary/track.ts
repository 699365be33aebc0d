import { CANARY_WORD_LETTERS, CANARY_WORDS, type Canary } from './marker.ts'

/** So many letters in a row, of 36, give a canary away: by chance once in some gigabytes of text. */
const TELLING_LETTERS = 16
/** What so many letters, the first word, give away may have left before anything is suspected. */
const SEED_LETTERS = CANARY_WORD_LETTERS
const SEED_STEPS = SEED_LETTERS - 1
/** Characters between two letters that still belong together. */
const GAP_CHARS = 16
/** So many different words of one canary within so many characters give it away, whatever stands between them. */
const TELLING_WORDS = 3
const WORDS_WITHIN_CHARS = 160

const ALPHABET = 26
const STEP_BITS = 5
const KEY_MASK = (1 << (STEP_BITS * SEED_STEPS)) - 1
const FILTER_BITS = 12

/** A canary as it may be written: the steps from each letter to the next one, in the alphabet. */
type Sequence = { canary: number; steps: readonly number[] }
/** Where in a sequence a seed is. */
type Seed = { sequence: number; at: number }

/** Every part of the canaries that is SEED_LETTERS long, in all the ways to write it. */
export type Seeds = {
  canaries: readonly Canary[]
  sequences: readonly Sequence[]
  byKey: ReadonlyMap<number, readonly Seed[]>
  /** A cheap look that says "none" for nearly everything. */
  filter: Uint8Array
}

/**
 * Steps are the same for every letter shifted alike, so ROT13 and the ciphers of Caesar need no search of their own; beside
 * them there are the alphabet turned round, and both of it backwards.
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
  const filter = new Uint8Array(1 << FILTER_BITS)
  for (const [sequence, { steps }] of sequences.entries()) {
    for (let at = 0; at + SEED_STEPS <= steps.length; at++) {
      const key = steps.slice(at, at + SEED_STEPS).reduce(withStep, 0)
      byKey.set(key, [...(byKey.get(key) ?? []), { sequence, at }])
      filter[filterIndex(key)] = 1
    }
  }
  return { canaries, sequences, byKey, filter }
}

const stepsOf = (letters: readonly number[]): number[] =>
  letters.slice(1).map((letter, at) => (letter - (letters[at] as number) + ALPHABET) % ALPHABET)

const withStep = (key: number, step: number): number => ((key << STEP_BITS) | step) & KEY_MASK
const filterIndex = (key: number): number => (key ^ (key >> FILTER_BITS)) & ((1 << FILTER_BITS) - 1)

/** A part of a canary that grows. */
type Run = { at: number; letter: number; letters: number; start: number; sighting: Sighting | undefined }

export type Sighting = { canary: number; start: number; end: number }

/** What all tracks of one text have found. */
export class Sightings {
  readonly all: Sighting[] = []
  /** Where the words of each canary were seen last. */
  readonly #words: number[][] = []

  add(sighting: Sighting): Sighting {
    this.all.push(sighting)
    return sighting
  }

  addWord(canary: number, word: number, start: number, end: number): void {
    this.#words[canary] ??= []
    const seenAt = this.#words[canary]
    seenAt[word] = start
    const near = seenAt.filter((at) => at >= start - WORDS_WITHIN_CHARS)
    if (near.length >= TELLING_WORDS) this.add({ canary, start, end })
  }
}

/** Follows the letters of one reading of a text: as it stands, or what is behind an encoding. */
export class Track {
  readonly #seeds: Seeds
  readonly #sightings: Sightings
  readonly #runs: (Run | undefined)[] = []
  #letters = 0
  #last = -1
  #end = 0
  #key = 0
  /** Letters since the last gap. */
  #row = 0

  constructor(seeds: Seeds, sightings: Sightings) {
    this.#seeds = seeds
    this.#sightings = sightings
  }

  /** @param letter from 0 for a; @param start where the text that means it begins */
  add(letter: number, start: number, end: number): void {
    if (start - this.#end > GAP_CHARS) this.#row = 0
    const step = letter >= this.#last ? letter - this.#last : letter - this.#last + ALPHABET
    this.#key = withStep(this.#key, step)
    this.#last = letter
    this.#end = end
    this.#letters++
    this.#row++
    if (this.#row >= SEED_LETTERS && this.#seeds.filter[filterIndex(this.#key)] === 1) this.#sow(start, end)
  }

  /** What comes next does not continue what was read. */
  cut(): void {
    this.#row = 0
  }

  /** Where a part of a canary begins that more letters could still lengthen. */
  openFrom(length: number): number {
    let open = length
    if (this.#row < SEED_LETTERS || length - this.#end > GAP_CHARS) return open
    for (const [sequence, run] of this.#runs.entries()) {
      if (run?.letter !== this.#letters || this.#isWhole(sequence, run.at)) continue
      open = Math.min(open, run.start)
    }
    return open
  }

  #sow(start: number, end: number): void {
    for (const { sequence, at } of this.#seeds.byKey.get(this.#key) ?? []) {
      const before = this.#runs[sequence]
      const canary = this.#seeds.sequences[sequence]?.canary ?? 0
      if (at % CANARY_WORD_LETTERS === 0) this.#sightings.addWord(canary, this.#wordAt(sequence, at), start, end)
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

  /** Of a canary written backwards, words count from the end. */
  #wordAt(sequence: number, at: number): number {
    const word = at / CANARY_WORD_LETTERS
    return sequence % WRITINGS < WRITINGS / 2 ? word : CANARY_WORDS - 1 - word
  }

  #isWhole(sequence: number, at: number): boolean {
    return at + SEED_STEPS === this.#seeds.sequences[sequence]?.steps.length
  }
}

/** Forwards and backwards, each with both alphabets. */
const WRITINGS = 4
