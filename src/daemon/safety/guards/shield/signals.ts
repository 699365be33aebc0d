import type { Concept } from './lexicon.ts'
import type { Window } from './reading.ts'
import { COMMANDS } from './segments.ts'
import { CONCEPTS, FIRST_FUNCTION_SYMBOL, isSign, LINE_SYMBOL, PICTURE_SYMBOL, type Words } from './words.ts'

const number = (concept: Concept) => CONCEPTS.indexOf(concept)
const YOU = number('YOU')
const ME = number('ME')
const NEG = number('NEG')
const COMPLY = number('COMPLY')

/** The maximum number of steps per signal. Each step that the signal's value reaches sets one feature. */
const STEPS = 8

type Signal = { name: string; steps: readonly number[] }
const SIGNALS = [
  { name: 'words', steps: [4, 8, 14, 25, 45, 80, 140, 220] },
  { name: 'capitals', steps: [0.04, 0.08, 0.15, 0.3, 0.6] },
  { name: 'shouted words', steps: [0.005, 0.02, 0.05, 0.1, 0.2, 0.4] },
  { name: 'exclamations', steps: [0.002, 0.01, 0.03, 0.06] },
  { name: 'questions', steps: [0.002, 0.01, 0.03, 0.06] },
  { name: 'lines', steps: [0.005, 0.02, 0.05, 0.1, 0.2] },
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
  { name: 'mixed case words', steps: [0.005, 0.02, 0.05, 0.1] },
  { name: 'scripts', steps: [1.5, 2.5, 3.5] },
  { name: 'quoted', steps: [0.5, 1.5, 3.5] },
] as const satisfies readonly Signal[]

/** Boolean properties of a text. The patterns are matched in the text in its original case, with all symbols. */
const MARKS: readonly { name: string; pattern: RegExp }[] = [
  {
    name: 'chat tokens',
    pattern:
      /<\|[a-z_]{2,20}\|>|\[\/?INST\]|<<\/?SYS>>|<\/?(?:system|assistant|user|instructions?|rules?)>|\[(?:system|CLS)\]|<(?:start|end)_of_turn>/i,
  },
  {
    name: 'role label',
    pattern: /(?:^|\n)[ \t#*]{0,8}(?:system|user|assistant|human|ai|developer|admin)(?: message| prompt)?[ \t*]{0,4}:/i,
  },
  { name: 'delimiters', pattern: /(?:^|\n)[ \t]{0,4}(?:-{4,}|={4,}|#{4,}|\*{4,}|"""|~{4,})/ },
  { name: 'code fence', pattern: /```/ },
  {
    name: 'placeholder',
    pattern:
      /\[(?:insert|your|prompt|question|query|my|the)[^\]\n]{0,60}\]|\{(?:prompt|query|question|goal|request)\}|<(?:prompt|query|question|insert)[^>\n]{0,40}>/i,
  },
  { name: 'persona label', pattern: /[[({][^\])}\n]{0,3}[🔒🔓😈👿🔥]|(?:^|\n)[ \t]{0,4}[A-Z]{2,8}(?:GPT)?:[ \t]/u },
  { name: 'address of e-mail', pattern: /[\w.+-]@[\w-]{1,64}\.[a-z]{2}/i },
  { name: 'link', pattern: /https?:\/\/|\bwww\./i },
  { name: 'html comment', pattern: /<!--/ },
  { name: 'image that carries data', pattern: /!\[[^\][\n]{0,100}\]\(https?:[^)\s]{0,200}[?=]/i },
  {
    name: 'request in data',
    pattern: /["'] ?: ?["'](?:please|important|attention|urgent|ignore|kindly|can you|could you)[ !]/i,
  },
  {
    name: 'command in data',
    pattern: /["'] ?: ?["'][A-Z][a-z]{2,12} (?:the|my|all|a|an|me|us|your|this|about|in|to|for)\b/,
  },
  {
    name: 'prescribed words',
    pattern:
      /\b(?:say|print|output|respond with|reply with|answer with|write|state|begin with|start with|just say|only say)\b[^"'“\n]{0,24}["'“]/i,
  },
  { name: 'starts with a quote', pattern: /^\s{0,8}["'“`]/ },
  { name: 'starts lower case', pattern: /^\s{0,8}[a-z]/ },
  { name: 'ends with a question', pattern: /\?["'”)\s]{0,6}$/ },
  { name: 'ends with a full stop', pattern: /[.。]["'”)\s]{0,6}$/ },
  { name: 'ends open', pattern: /[^.?!。？！"'”)\]}`\s]\s{0,6}$/ },
  { name: 'ends with a colon', pattern: /[:：]\s{0,6}$/ },
  {
    name: 'dangerous code',
    pattern:
      /\b(?:subprocess|os\.system|os\.environ|socket\.|requests\.post|pynput|ssh_dir|\.ssh|\/etc\/passwd|keyboard|clipboard|rm -rf|eval\()/,
  },
  { name: 'inner capitals call', pattern: /\b(?:NOT|MUST|ALWAYS|NEVER|ONLY|IGNORE|STOP|DO)\b/ },
  { name: 'hidden text', pattern: /[\u200b-\u200f\u2060-\u2064\u{e0000}-\u{e007f}]/u },
  { name: 'first person opening', pattern: /^\s{0,4}(?:i|my|we|i'm)\b/i },
  { name: 'hello opening', pattern: /^\s{0,4}(?:hello|hi|hey|dear|ok|okay|well done|great|wow|nice)\b/i },
]

/** The number of signal features. */
export const SIGNAL_COUNT = SIGNALS.length * STEPS + MARKS.length

/** The counts of a window. */
const NO_COUNTS = {
  words: 0,
  lines: 0,
  pictures: 0,
  functions: 0,
  conceptual: 0,
  /** The numbers of function words and concept words: `early` in the first half, `late` in the second half. */
  early: 0,
  late: 0,
  beginnings: 0,
  commands: 0,
  you: 0,
  me: 0,
  not: 0,
  must: 0,
  singles: 0,
  capitals: 0,
  shouted: 0,
  mixed: 0,
  foreign: 0,
  /** A bit set with one bit per script. */
  scripts: 0,
  signs: 0,
  tailSigns: 0,
  glued: 0,
  tailGlued: 0,
  exclamations: 0,
  questions: 0,
  bars: 0,
  quotes: 0,
  quotations: 0,
}
type Tally = typeof NO_COUNTS

const TAIL = 0.6
const NOT_ASCII = /[^\0-\x7f]/
const INNER_CAPITAL = /[a-z][A-Z]/
const PROSE_SIGNS = new Set([...'.,;:!?\'"()-'])
const OPENS = new Set(['.', '!', '?', ':', '"', '>'])
const STILL_OPEN = new Set(['please', 'and', 'now'])
const POLITE = new Set(['please', 'bitte'])

/** Returns the indices of a window's signals. All of them are below SIGNAL_COUNT. */
export function signalsOf(read: Words, spelled: string, window: Window): number[] {
  const { from, to } = window
  const start = from === 0 ? 0 : read.starts[from]!
  const end = to >= read.starts.length ? spelled.length : read.starts[to]!
  const text = spelled.slice(start, end)
  const values = sharesOf(tallyOf(read, spelled, window, start), window)
  const given: number[] = []
  for (const [at, { name, steps }] of SIGNALS.entries()) {
    for (const [step, least] of steps.entries()) if (values[name] >= least) given.push(at * STEPS + step)
  }
  for (const [at, { pattern }] of MARKS.entries()) if (pattern.test(text)) given.push(SIGNALS.length * STEPS + at)
  return given
}

function tallyOf(read: Words, spelled: string, { from, to }: Window, start: number): Tally {
  const tally = { ...NO_COUNTS }
  const tail = from + Math.floor(Math.max(1, to - from) * TAIL)
  const half = middleOf({ from, to })
  let beginning = true
  for (let at = from; at < to; at++) {
    const symbol = read.symbols[at]!
    const word = read.words[at]!
    if (symbol === LINE_SYMBOL) {
      tally.lines++
      beginning = true
    } else if (symbol === PICTURE_SYMBOL) {
      tally.pictures++
    } else if (isSign(symbol)) {
      countSign(tally, word, isGlued(word, read.starts[at]!, spelled, start), at >= tail)
      if (OPENS.has(word)) beginning = true
    } else {
      const here = read.concepts[at]!
      countWord(tally, word, spelled.slice(read.starts[at]!, read.starts[at]! + word.length))
      countConcepts(tally, here, symbol >= FIRST_FUNCTION_SYMBOL, at < half)
      if (!beginning) continue
      tally.beginnings++
      if (POLITE.has(word) || here.some((concept) => COMMANDS.has(concept))) tally.commands++
      beginning = STILL_OPEN.has(word)
    }
  }
  return tally
}

const middleOf = ({ from, to }: Window): number => from + Math.floor(Math.max(1, to - from) / 2)

/** Whether the symbol is unusual in prose and stands directly between two non-space characters. */
const isGlued = (sign: string, at: number, spelled: string, start: number): boolean =>
  !PROSE_SIGNS.has(sign) && at > start && spelled.charCodeAt(at - 1) > 32 && spelled.charCodeAt(at + 1) > 32

function countSign(tally: Tally, sign: string, glued: boolean, late: boolean): void {
  tally.signs++
  if (late) tally.tailSigns++
  if (sign === '!') tally.exclamations++
  else if (sign === '?') tally.questions++
  else if (sign === '|') tally.bars++
  else if (sign === '"' || sign === "'" || sign === '{') tally.quotes++
  if (sign === '"' || sign === '“') tally.quotations++
  if (!glued) return
  tally.glued++
  if (late) tally.tailGlued++
}

function countWord(tally: Tally, word: string, written: string): void {
  tally.words++
  if (word.length === 1 && word !== 'a' && word !== 'i') tally.singles++
  const first = written.charCodeAt(0)
  if (first >= 65 && first <= 90) {
    tally.capitals++
    if (word.length > 2 && written === written.toUpperCase()) tally.shouted++
  }
  if (word.length > 3 && INNER_CAPITAL.test(written)) tally.mixed++
  if (NOT_ASCII.test(word)) tally.foreign++
  tally.scripts |= NOT_ASCII.test(word) ? scriptOf(word.charCodeAt(0)) : 1
}

function countConcepts(tally: Tally, concepts: readonly number[], isFunction: boolean, early: boolean): void {
  const known = (isFunction ? 1 : 0) + (concepts.length > 0 ? 1 : 0)
  if (early) tally.early += known
  else tally.late += known
  if (isFunction) tally.functions++
  if (concepts.length > 0) tally.conceptual++
  for (const concept of concepts) {
    if (concept === YOU) tally.you++
    else if (concept === ME) tally.me++
    else if (concept === NEG) tally.not++
    else if (concept === COMPLY) tally.must++
  }
}

function sharesOf(tally: Tally, window: Window): Record<(typeof SIGNALS)[number]['name'], number> {
  const total = Math.max(1, window.to - window.from)
  const tail = Math.max(1, window.to - window.from - Math.floor(total * TAIL))
  const half = middleOf(window)
  const words = Math.max(1, tally.words)
  return {
    words: tally.words,
    capitals: tally.capitals / words,
    'shouted words': tally.shouted / words,
    exclamations: tally.exclamations / total,
    questions: tally.questions / total,
    lines: tally.lines / total,
    'not ascii': tally.foreign / words,
    signs: tally.signs / total,
    'signs at the end': tally.tailSigns / tail,
    'glued signs': tally.glued / total,
    'glued signs at the end': tally.tailGlued / tail,
    'prose before noise': tally.early / Math.max(1, half - window.from) - tally.late / Math.max(1, window.to - half),
    'function words': tally.functions / words,
    'concept words': tally.conceptual / words,
    'commands first': tally.commands / Math.max(1, tally.beginnings),
    you: tally.you / words,
    me: tally.me / words,
    not: tally.not / words,
    must: tally.must / words,
    'single letters': tally.singles / words,
    pictures: tally.pictures / total,
    table: tally.bars / total,
    data: tally.quotes / total,
    'mixed case words': tally.mixed / words,
    scripts: bitsOf(tally.scripts),
    quoted: tally.quotations,
  }
}

/** Returns the bit of the script group to which a code unit belongs. */
function scriptOf(unit: number): number {
  if (unit < 0x250) return 1
  if (unit < 0x370) return 2
  if (unit < 0x400) return 4
  if (unit < 0x530) return 8
  if (unit < 0x600) return 16
  if (unit < 0x900) return 32
  if (unit < 0xe80) return 64
  if (unit >= 0xac00 && unit < 0xd7b0) return 128
  return 256
}

function bitsOf(bits: number): number {
  let count = 0
  for (let rest = bits; rest > 0; rest >>= 1) count += rest & 1
  return count
}
