// Finds quotations of a system prompt in an answer: of its secrets, or of any part if the user asked for the prompt.
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { DETECTION_HOLD_CHARS, type Detector, type Finding, remembering } from '../detection.ts'
import { markedSecrets } from './secrets.ts'

export const PROMPT_LEAK = 'PROMPT_LEAK'

/** The minimum number of equal letters and digits in a row. Other characters and case are ignored. */
export const RUN_CHARS = 24
/**
 * The approximate maximum number of runs. Of longer system prompts, only some runs are compared, to limit memory and
 * time.
 */
const RUNS = 8_192
const PROMPTS_CACHED = 100

/** A system prompt, indexed for comparisons. */
export type PreparedPrompt = {
  /** For each run of the prompt, whether a part that is marked as secret contains it. */
  runs: ReadonlyMap<string, boolean>
  /** The letters and digits of the prompt and of each secret text. */
  letters: string
  /** The letters and digits of short secrets. */
  words: readonly string[]
}

/** Prepares system prompts. Most requests of an application have the same system prompt, so results are cached. */
export function createPromptCache(): (instructions: string) => PreparedPrompt {
  const prepared = new LRUCache<string, PreparedPrompt>({ max: PROMPTS_CACHED })
  return (instructions) => {
    const key = hash('sha256', instructions, 'base64')
    const prompt = prepared.get(key) ?? preparePrompt(instructions)
    prepared.set(key, prompt)
    return prompt
  }
}

export function preparePrompt(instructions: string): PreparedPrompt {
  const secrets = markedSecrets(instructions)
  const whole = lettersOf(instructions).letters
  const secretLetters = secrets.texts.map((text) => lettersOf(text).letters)
  const runs = new Map<string, boolean>()
  addRuns(runs, whole, Math.max(1, Math.ceil(whole.length / RUNS)), false)
  for (const letters of secretLetters) addRuns(runs, letters, 1, true)
  const short = secretLetters.filter(({ length }) => length < RUN_CHARS && length >= SHORT_TEXT_CHARS)
  const words = [...secrets.words.map((word) => lettersOf(word).letters), ...short]
  return { runs, letters: [whole, ...secretLetters].join(' '), words: [...new Set(words)] }
}

const SHORT_TEXT_CHARS = 12

function addRuns(runs: Map<string, boolean>, letters: string, stride: number, isSecret: boolean): void {
  for (let at = 0; at + RUN_CHARS <= letters.length; at += stride) {
    const run = letters.slice(at, at + RUN_CHARS)
    runs.set(run, isSecret || runs.get(run) === true)
  }
}

/**
 * Creates the detector of one answer. Takes time linear in the length of the text.
 * @param isAsked whether the user asked for the system prompt; called only if the answer quotes the prompt
 */
export function createLeakDetector({ runs, letters, words }: PreparedPrompt, isAsked: () => boolean): Detector {
  const find = remembering((text: string): Finding[] => {
    if (runs.size === 0 && words.length === 0) return []
    const read = lettersOf(text)
    const found = wordsIn(text, read, words)
    let begin = -1
    let end = -1
    const close = (): void => {
      if (begin >= 0) found.push(toFinding(read, begin, end))
      begin = -1
    }
    for (let at = 0; at + RUN_CHARS <= read.letters.length; at++) {
      const isSecret = runs.get(read.letters.slice(at, at + RUN_CHARS))
      if (isSecret === undefined || !(isSecret || isAsked())) continue
      // Adjacent quotations stay separate, because a stream may already have sent the first one.
      if (begin < 0 || at >= end) {
        close()
        begin = at
      }
      end = at + RUN_CHARS
    }
    close()
    return joined(found)
  })

  return {
    find,
    openFrom(text) {
      if (runs.size === 0 && words.length === 0) return text.length
      const read = lettersOf(text.slice(-DETECTION_HOLD_CHARS))
      const offset = Math.max(0, text.length - DETECTION_HOLD_CHARS)
      const count = read.letters.length
      const open =
        count - Math.max(quotedTail(read.letters, letters), ...words.map((word) => begunTail(read.letters, word)))
      const from = open < count ? (read.starts[open] as number) + offset : text.length
      const last = find(text).at(-1)
      // A quotation at the end may become longer.
      return last && last.end >= (read.starts[count - 1] ?? 0) + offset ? Math.min(from, last.start) : from
    },
    types: [PROMPT_LEAK],
  }
}

/** The letters and digits of a text in lower case, and the position of each of them. */
type Letters = { letters: string; starts: number[]; ends: number[] }

const WORD = /[\p{L}\p{N}]+/gu

function lettersOf(text: string): Letters {
  let letters = ''
  const starts: number[] = []
  const ends: number[] = []
  for (const { 0: word, index } of text.matchAll(WORD)) {
    const lower = word.toLowerCase()
    if (lower.length === word.length) {
      for (let at = index; at < index + word.length; at++) {
        starts.push(at)
        ends.push(at + 1)
      }
      letters += lower
      continue
    }
    // A few capitals have two characters in lower case. Only the first of them is a letter.
    let at = index
    for (const char of word) {
      const letter = char.toLowerCase().slice(0, char.length)
      for (let unit = 0; unit < letter.length; unit++) {
        starts.push(at + unit)
        ends.push(at + unit + 1)
      }
      letters += letter
      at += char.length
    }
  }
  return { letters, starts, ends }
}

const toFinding = ({ starts, ends }: Letters, from: number, to: number): Finding => ({
  start: starts[from] as number,
  end: ends[to - 1] as number,
  type: PROMPT_LEAK,
  confidence: 1,
})

const WORD_CHARACTER = /[\p{L}\p{N}]/u

/** Returns the short secrets in a text. A secret counts only as a whole word. */
function wordsIn(text: string, read: Letters, words: readonly string[]): Finding[] {
  const found: Finding[] = []
  for (const word of words) {
    for (let at = read.letters.indexOf(word); at >= 0; at = read.letters.indexOf(word, at + 1)) {
      const finding = toFinding(read, at, at + word.length)
      if (isInWord(text, finding.start - 1) || isInWord(text, finding.end)) continue
      found.push(finding)
    }
  }
  return found
}

/** Whether the character at this position is a letter or digit. Combined characters outside the BMP are not. */
const isInWord = (text: string, at: number): boolean =>
  at >= 0 && at < text.length && WORD_CHARACTER.test(text[at] as string)

function joined(findings: Finding[]): Finding[] {
  const all: Finding[] = []
  for (const finding of findings.sort((one, other) => one.start - other.start || other.end - one.end)) {
    const last = all.at(-1)
    if (last && finding.start < last.end) last.end = Math.max(last.end, finding.end)
    else all.push(finding)
  }
  return all
}

/** Returns how many letters at the end of `text` are a part of `quoted`, at most one less than a run. */
function quotedTail(text: string, quoted: string): number {
  let low = 0
  let high = Math.min(RUN_CHARS - 1, text.length)
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (quoted.includes(text.slice(-middle))) low = middle
    else high = middle - 1
  }
  return low
}

/** Returns how many letters at the end of `text` begin the word. */
function begunTail(text: string, word: string): number {
  for (let length = Math.min(word.length, text.length); length > 0; length--) {
    if (text.endsWith(word.slice(0, length))) return length
  }
  return 0
}
