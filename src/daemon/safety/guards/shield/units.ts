import type { Concept } from './lexicon.ts'
import type { Window } from './reading.ts'
import { CONCEPTS, isSign, LINE_SYMBOL, type Words } from './words.ts'

/** A sentence or a line: a range of words, and whether it contains a question or a command. */
export type Unit = Window & {
  asks: boolean
  commands: boolean
  /** Whether the unit addresses the assistant or mentions its response. */
  addressed: boolean
  /** Whether the unit follows an empty line. */
  opens: boolean
}

const numbersOf = (concepts: readonly Concept[]) => new Set(concepts.map((concept) => CONCEPTS.indexOf(concept)))

/** Concepts that typically begin a command. */
export const COMMANDS = numbersOf([
  'OVERRIDE',
  'SHOW',
  'REVEAL',
  'INSERT',
  'SEND',
  'DEVICE',
  'PERSONA',
  'RESPOND',
  'ENCODE',
  'REQUEST',
])
const ADDRESSED = numbersOf(['RESPOND', 'YOU', 'CODE', 'AI', 'BRAND'])
/** Words that may precede a command. */
const PRELUDE = new Set('please kindly now and then can could you must bitte to in your'.split(' '))
/** Symbols that end a sentence if a space follows. */
const SPACED_ENDS = new Set(['.', '!', '?', ';', '…'])
const ENDS = new Set(['。', '？', '！', '؟', '।', '۔', '；'])
/** Symbols that separate values of data. */
const BARS = new Set(['|', '{', '}'])
const QUESTION_MARKS = new Set(['?', '？', '؟'])

/** The maximum length of a unit in words. Longer sentences are divided, at a comma if there is one. */
const LONGEST_UNIT = 28
const LEAST_BEFORE_COMMA = 18
/** Only units of at least this many words count as repetitions. Shorter units repeat in ordinary texts. */
const LEAST_REPEATED = 4

/**
 * Divides words into sentences and lines. Omits repeated units, because a text that is repeated many times has the same
 * meaning as the text alone.
 * @returns the words without the omitted units and without line breaks, and the units as ranges of these words
 */
export function unitsOf(read: Words): { words: Words; units: Unit[] } {
  const words: Words = { words: [], starts: [], concepts: [], symbols: [] }
  const units: Unit[] = []
  const known = new Set<number>()
  const total = read.words.length
  let from = 0
  let opens = false
  const take = (to: number) => {
    if (takeUnit(read, { from, to, opens }, known, words, units)) opens = false
  }
  for (let at = 0; at < total; at++) {
    const isLine = read.symbols[at] === LINE_SYMBOL
    if (!isLine && !endsAt(read, at, from)) continue
    take(isLine ? at : at + 1)
    if (isLine && read.symbols[at + 1] === LINE_SYMBOL) opens = true
    from = at + 1
  }
  take(total)
  return { words, units }
}

type Range = Window & Pick<Unit, 'opens'>

/** Adds a range of words as a unit, unless it is empty or a repetition. Returns whether it was added. */
function takeUnit(read: Words, { from, to, opens }: Range, known: Set<number>, kept: Words, units: Unit[]): boolean {
  if (from >= to) return false
  if (to - from >= LEAST_REPEATED) {
    const hash = hashOf(read.words, from, to)
    if (known.has(hash)) return false
    known.add(hash)
  }
  const start = kept.words.length
  for (let at = from; at < to; at++) {
    kept.words.push(read.words[at]!)
    kept.starts.push(read.starts[at]!)
    kept.concepts.push(read.concepts[at]!)
    kept.symbols.push(read.symbols[at]!)
  }
  units.push({ ...unitOf(kept, start, kept.words.length), opens })
  return true
}

/** Returns a hash of the letters. Two hashes make one number of 52 bits, so that collisions are improbable. */
function hashOf(words: readonly string[], from: number, to: number): number {
  let low = 17
  let high = 0x811c9dc5
  for (let at = from; at < to; at++) {
    const word = words[at]!
    for (let char = 0; char < word.length; char++) {
      const unit = word.charCodeAt(char)
      low = (Math.imul(low, 31) + unit) | 0
      high = Math.imul(high ^ unit, 0x01000193)
    }
    high = Math.imul(high ^ 32, 0x01000193)
  }
  return (high >>> 0) * 0x100000 + (low & 0xfffff)
}

function endsAt({ words, starts, symbols }: Words, at: number, from: number): boolean {
  const length = at - from + 1
  if (length >= LONGEST_UNIT) return true
  if (!isSign(symbols[at]!)) return false
  const word = words[at]!
  if (ENDS.has(word) || (BARS.has(word) && length > 1)) return true
  if (SPACED_ENDS.has(word)) {
    const next = starts[at + 1]
    return next === undefined || next > starts[at]! + 1 || symbols[at + 1] === LINE_SYMBOL
  }
  return length >= LEAST_BEFORE_COMMA && (word === ',' || word === '，' || word === '、')
}

function unitOf({ words, symbols, concepts }: Words, from: number, to: number): Omit<Unit, 'opens'> {
  let head = from
  while (head < to && (PRELUDE.has(words[head]!) || isSign(symbols[head]!))) head++
  let addressed = false
  for (let at = from; at < to && !addressed; at++) addressed = concepts[at]!.some((concept) => ADDRESSED.has(concept))
  const asks = QUESTION_MARKS.has(words[to - 1]!)
  return { from, to, asks, addressed, commands: head < to && concepts[head]!.some((concept) => COMMANDS.has(concept)) }
}

/**
 * A piece of a text: a range of units that is judged together. `scale` is the index of its size in SCALES. `isAlone`: the
 * piece is judged like a text of its own.
 */
export type Piece = { from: number; to: number; scale: number; isAlone?: true }

/**
 * The least sizes of pieces in words, and the distances between their starts: sentences, groups of sentences,
 * paragraphs, pages.
 */
const SCALES = [
  { words: 4, step: 0 },
  { words: 16, step: 0 },
  { words: 36, step: 18 },
  { words: 90, step: 45 },
  { words: 300, step: 200 },
] as const
export const SCALE_COUNT = SCALES.length
/** The scale of whole texts. */
export const WHOLE_SCALE = SCALES.length - 1
/** Pieces below this scale are sentences and groups of sentences. */
export const LARGE_SCALE = 3
/** A scale is omitted if the whole text is hardly longer than its pieces. */
const LEAST_SURPLUS = 1.3

/** A paragraph of a short text is judged like a whole text, so that an attack between two paragraphs stays one. */
const MOST_PARAGRAPHS = 8
const PARAGRAPH_WORDS = 150

function paragraphsOf(units: readonly Unit[]): Piece[] {
  const starts = units.flatMap(({ opens }, at) => (at === 0 || opens ? [at] : []))
  if (starts.length < 2 || starts.length > MOST_PARAGRAPHS) return []
  return starts
    .map((from, at) => ({ from, to: starts[at + 1] ?? units.length, scale: WHOLE_SCALE }))
    .filter(({ from, to }) => units[to - 1]!.to - units[from]!.from <= PARAGRAPH_WORDS)
}

/** Returns the pieces of a text. A short text is a single piece. */
export function piecesOf(units: readonly Unit[]): Piece[] {
  const last = units.length
  if (last === 0) return []
  const total = units[last - 1]!.to
  const pieces: Piece[] = []
  for (const [scale, { words, step }] of SCALES.entries()) {
    const isLargest = scale === WHOLE_SCALE
    if (isLargest && total <= words) pieces.push({ from: 0, to: last, scale })
    else if (last > 1 && (isLargest || total > words * LEAST_SURPLUS)) {
      for (let from = 0; from < last; ) {
        let to = from + 1
        while (to < last && units[to - 1]!.to - units[from]!.from < words) to++
        pieces.push({ from, to, scale })
        if (to >= last) break
        const start = units[from]!.from
        from++
        while (from < last - 1 && units[from]!.to - start <= step) from++
      }
    }
  }
  // The largest piece stays the last one.
  pieces.splice(-1, 0, ...paragraphsOf(units))
  return pieces
}
