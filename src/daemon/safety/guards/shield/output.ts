// Scans model output for parts of the system prompt, and for signs that the model has abandoned its role.
import type { ShieldVerdict } from '../../../../shared/wire/shield.ts'
import { characterBorder } from '../../../platform/text/words.ts'
import { decodeAll } from './decoders.ts'
import { cleanLetters } from './letters.ts'
import { type Phrase, phraseFinder } from './phrases.ts'
import { readText } from './reading.ts'
import type { ShieldOptions } from './scan.ts'
import { type CategoryLimits, isWorse, strictestVerdict, thresholdsOf } from './verdict.ts'

export type OutputDetection = {
  type: 'system_prompt_leak' | 'role_drift'
  category: 'prompt_leaking' | 'role_hijack'
  /** 0 to 1. */
  confidence: number
}

/** `detections` are sorted by severity, the most severe first. */
export type OutputScan = { riskScore: number; verdict: ShieldVerdict; detections: OutputDetection[] }

/**
 * The minimum number of consecutive equal letters and digits that are not a coincidence. Other characters are ignored.
 */
const PIECE_CHARS = 24
const LEAST_SNIPPET_CHARS = 10
/**
 * The minimum share of a snippet that counts as a leak. A smaller share also counts as a leak if it contains a long run
 * of the snippet's letters and digits.
 */
const LEAST_SHARE = 0.3
const LONG_RUN_CHARS = 80

/** Finds typical phrases of a model that abandoned its role. */
const findDrift = phraseFinder([
  drift('i-am-unbound', [['ME'], ['UNBOUND']], 4),
  drift('mode-is-on', [['UNBOUND'], ['MODE']], 3),
  drift('no-rules-for-me', [['ME'], ['NEG', 'FREE'], ['RULES', 'LIMITS', 'WARN']], 5),
])

function drift(id: string, steps: Phrase['steps'], within: number): Phrase {
  return { id, category: 'role_hijack', confidence: 0.55, steps, within }
}

/** Scans a response that arrives in chunks. */
export type OutputWatch = {
  /** @returns the result for all text added so far */
  add(text: string): OutputScan
}

/**
 * The size of the pieces in which a response is scanned, in characters. Each piece overlaps the end of the previous
 * piece.
 */
export const OUTPUT_PIECE_CHARS = 4_096
const OVERLAP_CHARS = 1_024

/** Confidential texts, indexed for lookup. */
export type Snippets = readonly Snippet[]

type Snippet = {
  /** The index of each piece. */
  pieces: ReadonlyMap<string, number>
  /** The number of occurrences of each piece in the snippet. */
  weights: readonly number[]
  total: number
  pieceChars: number
  /** The distance between the starts of pieces. */
  stride: number
}

/**
 * The approximate maximum number of pieces of all snippets together. Longer snippets are only sampled, to limit the
 * cost of a long system prompt.
 */
const PIECES = 8_192

export function prepareSnippets(texts: readonly string[]): Snippets {
  const letters = texts.map(lettersOf).filter(({ length }) => length >= LEAST_SNIPPET_CHARS)
  const stride = Math.max(1, Math.ceil(letters.reduce((sum, { length }) => sum + length, 0) / PIECES))
  return letters.map((snippet) => prepare(snippet, stride))
}

function prepare(snippet: string, stride: number): Snippet {
  const pieceChars = Math.min(PIECE_CHARS, snippet.length)
  const pieces = new Map<string, number>()
  const weights: number[] = []
  let total = 0
  for (let at = 0; at + pieceChars <= snippet.length; at += stride) {
    const piece = snippet.slice(at, at + pieceChars)
    const number = pieces.get(piece) ?? weights.length
    pieces.set(piece, number)
    weights[number] = (weights[number] ?? 0) + 1
    total++
  }
  return { pieces, weights, total, pieceChars, stride }
}

export type LeakOptions = {
  /** Whether a text quotes secret parts of the system prompt. Called with the text and with each of its decodings. */
  quotesSecret?: ((text: string) => boolean) | undefined
  /** Whether a quotation may be blocked. */
  leaksMayBlock?: boolean | undefined
}

/**
 * Scans a model's response for parts of the system prompt, in any letter case, spacing or encoding. Also scans for
 * signs that the model has abandoned its role. Takes time linear in the length of the response and the snippets.
 * Paraphrases are not detected.
 */
export function watchOutput(snippets: Snippets, options: ShieldOptions & LeakOptions = {}): OutputWatch {
  const leaks = snippets.map((snippet) => watchLeak(snippet))
  const thresholds = options.thresholds ?? thresholdsOf(options.sensitivity ?? 'balanced')
  const limits = options.leaksMayBlock ? options.categories : withQuotingAllowed(options.categories)
  let before = ''
  let leaked = 0
  let drift = 0

  function look(text: string): void {
    const clean = cleanLetters(text).text
    const { words } = readText(text)
    const isDecoded = leaks.length > 0 || options.quotesSecret !== undefined
    const decoded = isDecoded ? decodeAll(clean, { words, written: clean }).map((one) => one.text) : []
    const readings = new Set([text, clean, ...decoded])
    const letters = leaks.length > 0 ? new Set([...readings].map(lettersOf)) : []
    for (const reading of letters) for (const leakIn of leaks) leaked = Math.max(leaked, leakIn(reading))
    if (options.quotesSecret && leaked < 1 && [...readings].some(options.quotesSecret)) leaked = 1
    const [drifted] = findDrift(words, 0, words.words.length)
    drift = Math.max(drift, drifted?.phrase.confidence ?? 0)
  }

  function found(): OutputScan {
    const detections: OutputDetection[] = []
    if (leaked > 0) detections.push({ type: 'system_prompt_leak', category: 'prompt_leaking', confidence: leaked })
    if (drift > 0) detections.push({ type: 'role_drift', category: 'role_hijack', confidence: drift })
    // The verdict of each detection depends only on its own score: a quotation does not make the rest of the response
    // more suspicious.
    const judged = detections.map((detection) => {
      const riskScore = Math.round(detection.confidence * 100)
      const { verdict } = strictestVerdict(riskScore, [detection.category], thresholds, limits)
      return { riskScore, verdict, detection }
    })
    judged.sort((one, other) => (isWorse(one, other) ? -1 : 1))
    return {
      riskScore: Math.max(0, ...judged.map(({ riskScore }) => riskScore)),
      verdict: judged[0]?.verdict ?? 'ALLOW',
      detections: judged.map(({ detection }) => detection),
    }
  }

  return {
    add(text) {
      for (const piece of piecesOf(text)) {
        look(before + piece)
        before = (before + piece).slice(-OVERLAP_CHARS)
      }
      return found()
    },
  }
}

/** The verdict for a quotation of the system prompt is at most FLAG, unless the policy blocks quotations. */
const withQuotingAllowed = (categories: CategoryLimits = {}): CategoryLimits => ({
  ...categories,
  prompt_leaking: categories.prompt_leaking === 'BLOCK' ? 'FLAG' : (categories.prompt_leaking ?? 'FLAG'),
})

/** Splits a text into pieces that each take about a millisecond to scan. */
export function* piecesOf(text: string): Generator<string> {
  for (let from = 0; from < text.length; ) {
    const to = Math.max(from + 1, characterBorder(text, from + OUTPUT_PIECE_CHARS))
    yield text.slice(from, to)
    from = to
  }
}

const lettersOf = (text: string): string => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '')

/**
 * Returns a function that adds text, and returns the confidence that the text so far contains a leak. The confidence is
 * 0 without a leak, 0.8 or more for a part of the snippet, and 1 for the whole snippet. A part that occurs in several
 * decodings of the text counts once.
 */
function watchLeak({ pieces, weights, total, pieceChars, stride }: Snippet): (text: string) => number {
  const seen = new Uint8Array(weights.length)
  let count = 0
  let longest = 0
  return (text) => {
    let begin = 0
    let last = Number.NEGATIVE_INFINITY
    for (let at = 0; at + pieceChars <= text.length; at++) {
      const piece = pieces.get(text.slice(at, at + pieceChars))
      if (piece === undefined) continue
      if (at - last > stride) begin = at
      last = at
      longest = Math.max(longest, at - begin + pieceChars)
      if (seen[piece] === 0) count += weights[piece]!
      seen[piece] = 1
    }
    const share = count / total
    const isLeak = share >= LEAST_SHARE || longest >= LONG_RUN_CHARS
    return isLeak ? Math.round((0.8 + 0.2 * share) * 100) / 100 : 0
  }
}
