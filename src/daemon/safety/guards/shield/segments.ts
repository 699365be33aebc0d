import type { Concept } from './lexicon.ts'
import type { Window } from './reading.ts'
import { CONCEPTS, isSign, LINE_SYMBOL, type Words } from './words.ts'

/** A sentence, line or value, and whether it contains a question or a command. */
export type Segment = {
  from: number
  to: number
  asks: boolean
  commands: boolean
  /** Whether the segment addresses the assistant or mentions its response. */
  addressed: boolean
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
const ENDS = new Set(['.', '!', '?', '。', '？', '！', ';', '"', '|', '{', '}', '>'])
const QUESTION_MARKS = new Set(['?', '？'])
const LEAST_WORDS = 3

export function segmentsOf(read: Words, { from, to }: Window): Segment[] {
  const segments: Segment[] = []
  let start = from
  for (let at = from; at <= to; at++) {
    if (at < to && !endsAt(read, at)) continue
    if (at - start >= LEAST_WORDS) segments.push(segmentOf(read, start, at))
    start = at + 1
  }
  return segments
}

function endsAt({ words, symbols }: Words, at: number): boolean {
  // An apostrophe next to another symbol is a quotation mark.
  return symbols[at] === LINE_SYMBOL || ENDS.has(words[at]!) || (words[at] === "'" && isSign(symbols[at + 1] ?? 0))
}

function segmentOf({ words, symbols, concepts }: Words, from: number, to: number): Segment {
  let head = from
  while (head < to && (PRELUDE.has(words[head]!) || isSign(symbols[head]!))) head++
  let addressed = false
  for (let at = from; at < to && !addressed; at++) addressed = concepts[at]!.some((concept) => ADDRESSED.has(concept))
  const asks = QUESTION_MARKS.has(words[to] ?? '')
  return { from, to, asks, addressed, commands: head < to && concepts[head]!.some((concept) => COMMANDS.has(concept)) }
}

const KINDS_OF_REQUEST = 4
const KINDS_OF_TEXT = 4
const POSITIONS = 3
const FREQUENCIES = 3
/** The number of oddity features. */
export const ODDITIES = KINDS_OF_REQUEST * KINDS_OF_TEXT * POSITIONS * FREQUENCIES

const FEW = 0.35
const ODD_SEGMENTS = 6

/**
 * Finds requests that differ from the surrounding text. Each returned number encodes the kind of request, the kind of
 * text, the position of the request, and the frequency of requests.
 */
export function odditiesOf(read: Words, window: Window): { numbers: number[]; odd: Segment[] } {
  const segments = segmentsOf(read, window)
  const wants = segments.filter((one) => one.asks || one.commands)
  const wanting = wants.reduce((sum, one) => sum + one.to - one.from, 0)
  if (wants.length === 0 || wanting > (window.to - window.from) / 2) return { numbers: [], odd: [] }
  const kind = kindOf(read, window)
  const frequency = wants.length === 1 ? 0 : wants.length / segments.length < FEW ? 1 : 2
  const numbers = new Set<number>()
  for (const one of wants) {
    const request = (one.asks ? 0 : 2) + (one.addressed ? 1 : 0)
    const position = one === segments[0] ? 0 : one === segments.at(-1) ? 1 : 2
    numbers.add(((request * KINDS_OF_TEXT + kind) * POSITIONS + position) * FREQUENCIES + frequency)
  }
  return { numbers: [...numbers], odd: frequency < 2 ? wants.slice(0, ODD_SEGMENTS) : [] }
}

const PROSE = 0
const TABLE = 1
const DATA = 2
const CODE = 3
const DATA_SIGNS = new Set(['"', "'", '{'])
const CODE_SIGNS = new Set(['(', ')', '=', '[', '<'])

function kindOf({ words }: Words, { from, to }: Window): number {
  let bars = 0
  let quotes = 0
  let signs = 0
  for (let at = from; at < to; at++) {
    const word = words[at]!
    if (word === '|') bars++
    else if (DATA_SIGNS.has(word)) quotes++
    else if (CODE_SIGNS.has(word)) signs++
  }
  const total = to - from
  if (bars / total > 0.04) return TABLE
  if (quotes / total > 0.06) return DATA
  return signs / total > 0.06 ? CODE : PROSE
}
