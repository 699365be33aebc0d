import type { Concept } from './lexicon.ts'
import { COMMANDS, type Unit } from './units.ts'
import { CONCEPTS, FIRST_FUNCTION_SYMBOL, isSign, PICTURE_SYMBOL, type Words } from './words.ts'

const number = (concept: Concept) => CONCEPTS.indexOf(concept)
const YOU = number('YOU')
const ME = number('ME')
const NEG = number('NEG')
const COMPLY = number('COMPLY')

/** The maximum number of steps per signal. Each step that the signal's value reaches sets one feature. */
const STEPS = 8

const SIGNALS = [
  { name: 'words', steps: [4, 8, 14, 25, 45, 80, 140, 220] },
  { name: 'capitals', steps: [0.04, 0.08, 0.15, 0.3, 0.6] },
  { name: 'shouted words', steps: [0.005, 0.02, 0.05, 0.1, 0.2, 0.4] },
  { name: 'exclamations', steps: [0.002, 0.01, 0.03, 0.06] },
  { name: 'questions', steps: [0.002, 0.01, 0.03, 0.06] },
  { name: 'not ascii', steps: [0.005, 0.02, 0.1, 0.4] },
  { name: 'signs', steps: [0.08, 0.12, 0.18, 0.25, 0.35, 0.5] },
  { name: 'signs at the end', steps: [0.1, 0.15, 0.22, 0.3, 0.4, 0.55] },
  { name: 'glued signs', steps: [0.02, 0.05, 0.1, 0.16, 0.25, 0.4] },
  { name: 'glued signs at the end', steps: [0.03, 0.07, 0.12, 0.2, 0.3, 0.45] },
  { name: 'prose before noise', steps: [0.1, 0.2, 0.3, 0.4, 0.5] },
  { name: 'function words', steps: [0.05, 0.15, 0.25, 0.35, 0.45, 0.55] },
  { name: 'concept words', steps: [0.1, 0.18, 0.26, 0.34, 0.42, 0.5] },
  { name: 'commands first', steps: [0.1, 0.25, 0.5, 0.75, 0.99] },
  { name: 'you', steps: [0.003, 0.015, 0.03, 0.06, 0.1] },
  { name: 'me', steps: [0.003, 0.015, 0.03, 0.06, 0.1] },
  { name: 'not', steps: [0.003, 0.01, 0.02, 0.04, 0.07] },
  { name: 'must', steps: [0.003, 0.01, 0.02, 0.04, 0.07] },
  { name: 'single letters', steps: [0.05, 0.1, 0.2, 0.5] },
  { name: 'pictures', steps: [0.001, 0.01, 0.03, 0.08] },
  { name: 'table', steps: [0.02, 0.05, 0.1, 0.2] },
  { name: 'data', steps: [0.02, 0.06, 0.12, 0.2] },
  { name: 'code', steps: [0.02, 0.06, 0.12, 0.2] },
  { name: 'mixed case words', steps: [0.005, 0.02, 0.05, 0.1] },
  { name: 'quoted', steps: [0.5, 1.5, 3.5] },
] as const satisfies readonly { name: string; steps: readonly number[] }[]

/** Boolean properties of a text. The patterns are matched in the text in its original case, with all symbols. */
const MARKS: readonly { name: string; pattern: RegExp }[] = [
  {
    name: 'chat tokens',
    pattern:
      /<\|[a-z_]{2,20}\|>|\[\/?INST\]|<<\/?SYS>>|<\/?(?:system|assistant|user|instructions?|rules?)>|\[(?:system|CLS)\]|<(?:start|end)_of_turn>/gi,
  },
  {
    name: 'role label',
    pattern:
      /(?:^|\n)[ \t#*]{0,8}(?:system|user|assistant|human|ai|developer|admin)(?: message| prompt)?[ \t*]{0,4}:/gi,
  },
  { name: 'delimiters', pattern: /(?:^|\n)[ \t]{0,4}(?:-{4,}|={4,}|#{4,}|\*{4,}|"""|~{4,})/g },
  { name: 'code fence', pattern: /```/g },
  {
    name: 'placeholder',
    pattern:
      /\[(?:insert|your|prompt|question|query|my|the)[^\]\n]{0,60}\]|\{(?:prompt|query|question|goal|request)\}|<(?:prompt|query|question|insert)[^>\n]{0,40}>/gi,
  },
  { name: 'persona label', pattern: /[[({][^\])}\n]{0,3}[🔒🔓😈👿🔥]|(?:^|\n)[ \t]{0,4}[A-Z]{2,8}(?:GPT)?:[ \t]/gu },
  { name: 'address of e-mail', pattern: /[\w.+-]@[\w-]{1,64}\.[a-z]{2}/gi },
  { name: 'link', pattern: /https?:\/\/|\bwww\./gi },
  { name: 'html comment', pattern: /<!--/g },
  { name: 'image that carries data', pattern: /!\[[^\][\n]{0,100}\]\(https?:[^)\s]{0,200}[?=]/gi },
  {
    name: 'request in data',
    pattern: /["'] ?: ?["'](?:please|important|attention|urgent|ignore|kindly|can you|could you)[ !]/gi,
  },
  {
    name: 'command in data',
    pattern: /["'] ?: ?["'][A-Z][a-z]{2,12} (?:the|my|all|a|an|me|us|your|this|about|in|to|for)\b/g,
  },
  {
    name: 'prescribed words',
    pattern:
      /\b(?:say|print|output|respond with|reply with|answer with|write|state|begin with|start with|just say|only say)\b[^"'“\n]{0,24}["'“]/gi,
  },
  {
    name: 'dangerous code',
    pattern:
      /\b(?:subprocess|os\.system|os\.environ|socket\.|requests\.post|pynput|ssh_dir|\.ssh|\/etc\/passwd|keyboard|clipboard|rm -rf|eval\()/g,
  },
  { name: 'inner capitals call', pattern: /\b(?:NOT|MUST|ALWAYS|NEVER|ONLY|IGNORE|STOP|DO)\b/g },
]
/** The number of signal features. */
export const SIGNAL_COUNT = SIGNALS.length * STEPS + MARKS.length

/** The numbers that are counted per word. `early` and `late` counts are differences of these sums. */
const COUNTS = [
  'words',
  'pictures',
  'functions',
  'conceptual',
  'beginnings',
  'commands',
  'you',
  'me',
  'not',
  'must',
  'singles',
  'capitals',
  'shouted',
  'mixed',
  'foreign',
  'signs',
  'glued',
  'exclamations',
  'questions',
  'bars',
  'quotes',
  'quotations',
  'brackets',
] as const
type Count = (typeof COUNTS)[number]
const COLUMNS = COUNTS.length
const AT = Object.fromEntries(COUNTS.map((name, at) => [name, at])) as Record<Count, number>

const TAIL = 0.6
/** The typographic apostrophe. A word with it is not foreign. */
const APOSTROPHE = 0x2019
const PROSE_SIGNS = new Set([...'.,;:!?\'"()-'])
const OPENS = new Set([':', '"', '>'])
const STILL_OPEN = new Set(['please', 'and', 'now'])
const POLITE = new Set(['please', 'bitte'])
const BRACKETS = new Set(['(', ')', '=', '[', '<'])

/** The counts of all words before each word, so that the counts of any range are differences. */
export type Sums = {
  rows: Int32Array
  /** The marks of the text with the number of the word at which each mark begins, in the order of the words. */
  marks: readonly { mark: number; word: number }[]
}

/** Counts words in one pass. @param starts the indices of words that begin a unit */
export function sumsOf(read: Words, units: readonly Unit[], spelled: string): Sums {
  const total = read.words.length
  const rows = new Int32Array((total + 1) * COLUMNS)
  let beginning = true
  let nextUnit = 0
  for (let at = 0; at < total; at++) {
    const row = at * COLUMNS
    const next = row + COLUMNS
    for (let column = 0; column < COLUMNS; column++) rows[next + column] = rows[row + column]!
    if (units[nextUnit]?.from === at) {
      nextUnit++
      beginning = true
    }
    const symbol = read.symbols[at]!
    const word = read.words[at]!
    if (symbol === PICTURE_SYMBOL) rows[next + AT.pictures]!++
    else if (isSign(symbol)) {
      countSign(rows, next, word, isGlued(word, read.starts[at]!, spelled))
      if (OPENS.has(word)) beginning = true
    } else {
      const here = read.concepts[at]!
      countWord(rows, next, word, spelled, read.starts[at]!)
      countConcepts(rows, next, here, symbol >= FIRST_FUNCTION_SYMBOL)
      if (!beginning) continue
      rows[next + AT.beginnings]!++
      if (POLITE.has(word) || here.some((concept) => COMMANDS.has(concept))) rows[next + AT.commands]!++
      beginning = STILL_OPEN.has(word)
    }
  }
  return { rows, marks: marksOf(read.starts, spelled) }
}

function marksOf(starts: readonly number[], spelled: string): Sums['marks'] {
  const marks: { mark: number; word: number }[] = []
  for (const [mark, { pattern }] of MARKS.entries()) {
    let word = 0
    for (const { index } of spelled.matchAll(pattern)) {
      while (word + 1 < starts.length && starts[word + 1]! <= index) word++
      if (marks.at(-1)?.mark !== mark || marks.at(-1)?.word !== word) marks.push({ mark, word })
    }
  }
  return marks.sort((one, other) => one.word - other.word)
}

/** Whether the symbol is unusual in prose and stands directly between two non-space characters. */
const isGlued = (sign: string, at: number, spelled: string): boolean =>
  !PROSE_SIGNS.has(sign) && at > 0 && spelled.charCodeAt(at - 1) > 32 && spelled.charCodeAt(at + 1) > 32

function countSign(rows: Int32Array, row: number, sign: string, glued: boolean): void {
  rows[row + AT.signs]!++
  if (sign === '!') rows[row + AT.exclamations]!++
  else if (sign === '?') rows[row + AT.questions]!++
  else if (sign === '|') rows[row + AT.bars]!++
  else if (sign === '"' || sign === "'" || sign === '{') rows[row + AT.quotes]!++
  else if (BRACKETS.has(sign)) rows[row + AT.brackets]!++
  if (sign === '"' || sign === '“') rows[row + AT.quotations]!++
  if (glued) rows[row + AT.glued]!++
}

function countWord(rows: Int32Array, row: number, word: string, spelled: string, start: number): void {
  rows[row + AT.words]!++
  if (word.length === 1 && word !== 'a' && word !== 'i') rows[row + AT.singles]!++
  const first = spelled.charCodeAt(start)
  if (isUpper(first)) {
    rows[row + AT.capitals]!++
    if (word.length > 2) {
      const written = isUpper(spelled.charCodeAt(start + 1)) ? spelled.slice(start, start + word.length) : ''
      if (written !== '' && written === written.toUpperCase()) rows[row + AT.shouted]!++
    }
  }
  let isForeign = false
  let isMixed = false
  let before = first
  for (let at = start + 1; at < start + word.length; at++) {
    const code = spelled.charCodeAt(at)
    if (code > 127 && code !== APOSTROPHE) isForeign = true
    else if (isUpper(code) && isLower(before)) isMixed = true
    before = code
  }
  if (isMixed && word.length > 3) rows[row + AT.mixed]!++
  if (isForeign || first > 127) rows[row + AT.foreign]!++
}

const isUpper = (code: number): boolean => code >= 65 && code <= 90
const isLower = (code: number): boolean => code >= 97 && code <= 122

function countConcepts(rows: Int32Array, row: number, concepts: readonly number[], isFunction: boolean): void {
  if (isFunction) rows[row + AT.functions]!++
  if (concepts.length > 0) rows[row + AT.conceptual]!++
  for (const concept of concepts) {
    if (concept === YOU) rows[row + AT.you]!++
    else if (concept === ME) rows[row + AT.me]!++
    else if (concept === NEG) rows[row + AT.not]!++
    else if (concept === COMPLY) rows[row + AT.must]!++
  }
}

/** The kinds of text, by its symbols. */
export const TEXT_KINDS = 4
const PROSE = 0
const TABLE = 1
const DATA = 2
const CODE = 3

/** Returns the kind of all words outside of a range. */
export function kindOutside({ rows }: Sums, total: number, from: number, to: number): number {
  const count = (column: number) =>
    rows[total * COLUMNS + column]! - rows[to * COLUMNS + column]! + rows[from * COLUMNS + column]!
  const words = Math.max(1, total - to + from)
  if (count(AT.bars) / words > 0.04) return TABLE
  if (count(AT.quotes) / words > 0.06) return DATA
  return count(AT.brackets) / words > 0.06 ? CODE : PROSE
}

const values = new Float64Array(SIGNALS.length)

/** Reports the indices of the signals of a range of words. All indices are below SIGNAL_COUNT. */
export function addSignals(sums: Sums, from: number, to: number, add: (index: number) => void): void {
  let seen = 0
  readValues(sums.rows, from, to)
  for (let signal = 0; signal < SIGNALS.length; signal++) {
    const { steps } = SIGNALS[signal]!
    const value = values[signal]!
    for (let step = 0; step < steps.length && value >= steps[step]!; step++) add(signal * STEPS + step)
  }
  for (let at = firstFrom(sums.marks, from, wordOf); at < sums.marks.length && sums.marks[at]!.word < to; at++) {
    const bit = 1 << sums.marks[at]!.mark
    if ((seen & bit) === 0) add(SIGNALS.length * STEPS + sums.marks[at]!.mark)
    seen |= bit
  }
}

const wordOf = ({ word }: { word: number }): number => word

/** Returns the index of the first item whose word is not before `from`. The items are sorted by this word. */
export function firstFrom<Item>(items: readonly Item[], from: number, wordOf: (item: Item) => number): number {
  let low = 0
  let high = items.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (wordOf(items[middle]!) < from) low = middle + 1
    else high = middle
  }
  return low
}

function readValues(rows: Int32Array, from: number, to: number): void {
  const total = Math.max(1, to - from)
  const tailStart = from + Math.floor(total * TAIL)
  const tail = Math.max(1, to - tailStart)
  const half = from + Math.floor(total / 2)
  const between = (column: number, start: number, end: number) =>
    rows[end * COLUMNS + column]! - rows[start * COLUMNS + column]!
  const count = (column: number) => between(column, from, to)
  const known = (start: number, end: number) => between(AT.functions, start, end) + between(AT.conceptual, start, end)
  const words = Math.max(1, count(AT.words))
  values.set([
    count(AT.words),
    count(AT.capitals) / words,
    count(AT.shouted) / words,
    count(AT.exclamations) / total,
    count(AT.questions) / total,
    count(AT.foreign) / words,
    count(AT.signs) / total,
    between(AT.signs, tailStart, to) / tail,
    count(AT.glued) / total,
    between(AT.glued, tailStart, to) / tail,
    known(from, half) / Math.max(1, half - from) - known(half, to) / Math.max(1, to - half),
    count(AT.functions) / words,
    count(AT.conceptual) / words,
    count(AT.commands) / Math.max(1, count(AT.beginnings)),
    count(AT.you) / words,
    count(AT.me) / words,
    count(AT.not) / words,
    count(AT.must) / words,
    count(AT.singles) / words,
    count(AT.pictures) / total,
    count(AT.bars) / total,
    count(AT.quotes) / total,
    count(AT.brackets) / total,
    count(AT.mixed) / words,
    count(AT.quotations),
  ])
}
