// Scans one text for attacks on a model.
import type { Severity } from '../../../../shared/wire/incidents.ts'
import {
  SHIELD_CATEGORIES,
  type ShieldCategory,
  type ShieldLayer,
  type ShieldVerdict,
} from '../../../../shared/wire/shield.ts'
import { createPacer, type Pacer, runInSlices } from '../../../platform/pacing.ts'
import { type Classifier, trainedClassifier } from './classifier.ts'
import { type Decoded, decodeAll, type Encoding } from './decoders.ts'
import {
  categoryOf,
  dataEvidence,
  type Evidence,
  hidingEvidence,
  letterEvidence,
  markEvidence,
  phraseEvidence,
  riskOf,
  strongest,
  type TextSource,
} from './evidence.ts'
import { featuresOf } from './features.ts'
import { findPhrases } from './phrases.ts'
import { type Reading, readText, type Window, windowsOf } from './reading.ts'
import {
  type CategoryLimits,
  RECOMMENDATIONS,
  type Sensitivity,
  severityOf,
  strictestVerdict,
  type Thresholds,
  thresholdsOf,
} from './verdict.ts'
import { isSign } from './words.ts'

export type ShieldOptions = {
  /** Default: `balanced`. */
  sensitivity?: Sensitivity | undefined
  /** Overrides the sensitivity's thresholds. */
  thresholds?: Thresholds | undefined
  /**
   * Only the highest of these layers matters, because each layer includes all lower layers: `regex`, `heuristic`, `ml`,
   * `llm`. Default: `ml`. This module does not call the layer `llm`.
   */
  layers?: readonly ShieldLayer[] | undefined
  categories?: CategoryLimits | undefined
  /** Default: `user`. */
  source?: TextSource | undefined
  /** Overrides the shipped classifier. */
  classifier?: Classifier | undefined
}

/** The result of a scan. */
export type ShieldScan = {
  /** An integer from 0 to 100. */
  riskScore: number
  verdict: ShieldVerdict
  attackCategory: ShieldCategory | null
  categoryLabel: string | null
  /** 0 to 1. */
  confidence: number
  severity: Severity
  recommendation: string
  details: Evidence[]
  /**
   * The text for a judge, if `layers` includes `llm`: the decoded parts that score at least the LOG threshold, highest
   * score first. When a scan is stored, `suspects` must be omitted, because they contain text.
   */
  suspects: readonly string[]
}

/** The size of the blocks of a long text, in code units. Each block overlaps the end of the previous block. */
const BLOCK_CHARS = 16_384
const OVERLAP_CHARS = 1_536
/** The maximum nesting depth of encoded text. */
const DEPTH = 2
const DETAILS = 12

/** The maximum number of code units by which the decoded text may be longer than the scanned text. */
const DECODED_CHARS = 16_384

/** The state of a scan in progress. */
type Scan = {
  options: ShieldOptions
  /** Undefined for a scan without a classifier. */
  classifier: Classifier | undefined
  usesHeuristics: boolean
  evidence: Evidence[]
  /** The highest logit of all windows. */
  logit: number
  /** The windows that a judge may need. */
  windows: { text: string; logit: number }[]
  /** How much text may still be decoded. This budget prevents nested encodings from making a scan long. */
  decodableChars: number
}

/** Scans a text for attacks on the assistant. Takes time linear in the length of the text (docs/prompt-shield.md). */
export function scanText(text: string, options: ShieldOptions = {}): ShieldScan {
  const scan = scanOf(text, options)
  for (const _ of readBlocks(text, scan));
  return conclude(scan)
}

/** Like `scanText`, but yields to the event loop every few milliseconds. @param pacer the pacer of the request */
export async function scanTextInSlices(
  text: string,
  options: ShieldOptions = {},
  pacer: Pick<Pacer, 'turn'> = createPacer(),
): Promise<ShieldScan> {
  const scan = scanOf(text, options)
  await runInSlices(readBlocks(text, scan), pacer)
  return conclude(scan)
}

function scanOf(text: string, options: ShieldOptions): Scan {
  const { layers } = options
  const usesClassifier = layers === undefined || layers.includes('ml') || layers.includes('llm')
  return {
    options,
    classifier: usesClassifier ? (options.classifier ?? trainedClassifier()) : undefined,
    usesHeuristics: usesClassifier || layers.includes('heuristic'),
    evidence: [],
    logit: Number.NEGATIVE_INFINITY,
    windows: [],
    decodableChars: text.length + DECODED_CHARS,
  }
}

/** Yields after each step. A step takes at most a few milliseconds. */
function* readBlocks(text: string, scan: Scan): Generator<void> {
  for (const block of blocksOf(text)) yield* readBlock(block, scan, undefined, DEPTH)
}

function* readBlock(block: string, scan: Scan, hiddenBy: Encoding | undefined, depth: number): Generator<void> {
  const reading = readText(block)
  yield
  if (hiddenBy === undefined || wordsOfScan(reading) >= LEAST_HIDDEN_WORDS) yield* judgeBlock(reading, scan, hiddenBy)
  if (depth === 0 || !scan.usesHeuristics) return
  for (const { encoding, text } of hiddenIn(reading)) {
    scan.decodableChars -= text.length
    if (scan.decodableChars < 0) return
    yield* readBlock(text, scan, encoding, depth - 1)
  }
}

function* judgeBlock(reading: Reading, scan: Scan, hiddenBy: Encoding | undefined): Generator<void> {
  const shown = new Set(scan.evidence.map(({ pattern }) => pattern))
  const evidence = markEvidence(reading)
  let logit = Number.NEGATIVE_INFINITY
  const windows: Scan['windows'] = []
  for (const window of windowsOf(reading.words.words.length)) {
    const judged = judge(reading, window, scan)
    if (scan.options.layers?.includes('llm')) windows.push({ text: textOf(reading, window), logit: judged.logit })
    evidence.push(...judged.evidence)
    logit = Math.max(logit, judged.logit)
    yield
  }
  // Only a hidden request shows an intent to attack. Other hidden texts may be harmless.
  const hidesRequest =
    hiddenBy !== undefined && evidence.some(({ pattern, confidence }) => confidence >= 0.5 && !shown.has(pattern))
  if (hidesRequest && scan.usesHeuristics) evidence.push(hidingEvidence(hiddenBy, reading.spelled))
  if (scan.usesHeuristics) evidence.push(...letterEvidence(reading))
  scan.evidence.push(...evidence)
  const added = hidesRequest ? HIDDEN_REQUEST : 0
  scan.logit = Math.max(scan.logit, logit + added)
  for (const { text, logit } of windows) scan.windows.push({ text, logit: logit + added })
}

const textOf = ({ words, spelled }: Reading, { from, to }: Window): string =>
  spelled.slice(words.starts[from], words.starts[to])

function hiddenIn({ clean }: Reading): Decoded[] {
  const decoded = decodeAll(clean.text)
  return clean.tags === '' ? decoded : [{ encoding: 'tags', text: clean.tags }, ...decoded]
}

/**
 * The first value is added to the logit if fetched data contains a request, the second value if a request is hidden.
 * Both kinds of requests are rare in the training data.
 */
const REQUEST_IN_DATA = 1
const HIDDEN_REQUEST = 3
/**
 * The minimum number of words in a hidden request. A shorter decoded text is not a request: for example, `admin:secret`
 * in a header.
 */
const LEAST_HIDDEN_WORDS = 4

const wordsOfScan = ({ words }: Reading): number => words.symbols.filter((symbol) => !isSign(symbol)).length

function judge(reading: Reading, window: Window, scan: Scan): { evidence: Evidence[]; logit: number } {
  const requests = scan.usesHeuristics ? dataEvidence(reading, window, scan.options.source ?? 'user') : []
  const asked = requests.length > 0 ? REQUEST_IN_DATA : 0
  if (scan.classifier === undefined) {
    const hits = findPhrases(reading.words, window.from, window.to)
    return { evidence: [...phraseEvidence(reading, hits), ...requests], logit: 0 }
  }
  const { features, phrases } = featuresOf(reading, window)
  const logit = scan.classifier.logit(features) + asked
  return { evidence: [...phraseEvidence(reading, phrases), ...requests], logit }
}

function* blocksOf(text: string): Generator<string> {
  for (let start = 0; start < text.length; ) {
    const end = start + BLOCK_CHARS >= text.length ? text.length : borderBefore(text, start + BLOCK_CHARS)
    yield text.slice(start, end)
    if (end >= text.length) return
    start = borderBefore(text, end - OVERLAP_CHARS)
  }
}

const BORDER_SEARCH_CHARS = 512

/** Returns a word boundary shortly before `index`, or a character boundary if no word boundary is near. */
function borderBefore(text: string, index: number): number {
  for (let at = index; at > index - BORDER_SEARCH_CHARS; at--) {
    const unit = text.charCodeAt(at)
    if (unit === 32 || unit === 10) return at
  }
  const unit = text.charCodeAt(index)
  return unit >= 0xdc00 && unit <= 0xdfff ? index - 1 : index
}

function conclude({ evidence, logit, windows, classifier, options }: Scan): ShieldScan {
  const distinct = [...new Map(evidence.map((one) => [`${one.layer}:${one.pattern}`, one])).values()]
  const riskScore = Math.round(classifier ? classifier.riskScore(logit) : riskOf(distinct))
  const likeliest = riskScore === 0 ? null : (categoryOf(distinct) ?? (riskScore >= 50 ? 'prompt_injection' : null))
  const details = strongest(distinct, DETAILS)
  const probability = 1 / (1 + Math.exp(-logit))
  if (classifier && likeliest !== null && probability >= 0.5) {
    details.unshift({
      layer: 'ml',
      pattern: 'classifier',
      category: likeliest,
      confidence: round(probability),
      matched: '',
    })
  }
  const thresholds = options.thresholds ?? thresholdsOf(options.sensitivity ?? 'balanced')
  // The verdict considers all categories; otherwise, a category that is only logged could hide a more severe one.
  const categories = riskScore === 0 ? [] : distinct.map(({ category }) => category)
  const { verdict, category } = strictestVerdict(riskScore, [likeliest, ...categories], thresholds, options.categories)
  return {
    riskScore,
    verdict,
    attackCategory: category,
    categoryLabel: category && SHIELD_CATEGORIES[category],
    confidence: round(riskScore / 100),
    severity: severityOf(riskScore),
    recommendation: RECOMMENDATIONS[verdict],
    details,
    suspects: windows
      .filter((window) => classifier && Math.round(classifier.riskScore(window.logit)) >= thresholds.log)
      .sort((one, other) => other.logit - one.logit)
      .map(({ text }) => text),
  }
}

const round = (value: number): number => Math.round(value * 100) / 100
