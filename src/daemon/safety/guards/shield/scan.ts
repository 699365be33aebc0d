import type { Severity } from '../../../../shared/wire/incidents.ts'
import {
  SHIELD_CATEGORIES,
  type ShieldCategory,
  type ShieldLayer,
  type ShieldVerdict,
} from '../../../../shared/wire/shield.ts'
import { createPacer, type Pacer, paced } from '../../../platform/pacing.ts'
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
  /** `balanced` unless given. */
  sensitivity?: Sensitivity | undefined
  /** Instead of those of the sensitivity. */
  thresholds?: Thresholds | undefined
  /** The last of them counts: each layer takes those before it along. Up to `ml` unless given; `llm` is not asked here. */
  layers?: readonly ShieldLayer[] | undefined
  categories?: CategoryLimits | undefined
  /** `user` unless given. */
  source?: TextSource | undefined
  /** Instead of the one that is shipped. */
  classifier?: Classifier | undefined
}

/** What a scan says (named-endpoints §20). */
export type ShieldScan = {
  /** 0 to 100, whole. */
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
   * For a judge, where `layers` has `llm`: the pieces of the text that score LOG or more by themselves, decoded, the highest
   * first. Pieces of the text itself: whoever stores a scan leaves them out.
   */
  suspects: readonly string[]
}

/** A long text is read in blocks of so many code units; each begins with the end of the one before. */
const BLOCK_CHARS = 16_384
const OVERLAP_CHARS = 1_536
/** How deep hidden texts are looked for in hidden texts. */
const DEPTH = 2
const DETAILS = 12

/** Hidden texts are read up to so many code units beyond the length of the text that hides them. */
const DECODED_CHARS = 16_384

/** A scan under way. */
type Scan = {
  options: ShieldOptions
  /** Undefined for a scan without it. */
  classifier: Classifier | undefined
  usesHeuristics: boolean
  evidence: Evidence[]
  /** The highest of any window. */
  logit: number
  /** What a judge may have to see. */
  windows: { text: string; logit: number }[]
  /** How much of hidden texts may still be read; so nobody makes a scan long by hiding texts in texts. */
  decodableChars: number
}

/** Looks for attacks on the assistant in a text. Time linear in its length (docs/prompt-shield.md). */
export function scanText(text: string, options: ShieldOptions = {}): ShieldScan {
  const scan = scanOf(text, options)
  for (const _ of readBlocks(text, scan));
  return conclude(scan)
}

/** As `scanText`, but gives the event loop a turn every few milliseconds. @param pacer of the request */
export async function scanTextPaced(
  text: string,
  options: ShieldOptions = {},
  pacer: Pick<Pacer, 'turn'> = createPacer(),
): Promise<ShieldScan> {
  const scan = scanOf(text, options)
  await paced(readBlocks(text, scan), pacer)
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

/** Stops after every step, none of which takes more than a few milliseconds. */
function* readBlocks(text: string, scan: Scan): Generator<void> {
  for (const block of blocksOf(text)) yield* readBlock(block, scan, undefined, DEPTH)
}

function* readBlock(block: string, scan: Scan, hiddenBy: Encoding | undefined, depth: number): Generator<void> {
  const reading = readText(block)
  yield
  if (hiddenBy === undefined || spokenWords(reading) >= LEAST_HIDDEN_WORDS) yield* judgeBlock(reading, scan, hiddenBy)
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
  // Who hides harmless words is strange, but who hides a request has a reason.
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

/** What a request in fetched data, and one that was hidden, add to the logit. The training rows hold few of either. */
const REQUEST_IN_DATA = 1
const HIDDEN_REQUEST = 3
/** `admin:secret` in a header is no request. */
const LEAST_HIDDEN_WORDS = 4

const spokenWords = ({ words }: Reading): number => words.symbols.filter((symbol) => !isSign(symbol)).length

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

/** A place between two words shortly before `index`, or one between two characters. */
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
  // A category that is only to be logged does not hide another.
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
