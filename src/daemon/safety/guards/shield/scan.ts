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
import {
  categoryOf,
  dataEvidence,
  type Evidence,
  firstOfEach,
  hidingEvidence,
  letterEvidence,
  markEvidence,
  phraseEvidence,
  riskOf,
  strongest,
} from './evidence.ts'
import { type ExplainedPart, type Explanation, explainPart, explanationOf } from './explain.ts'
import { readFeatures, type TextFeatures } from './features.ts'
import type { Reading } from './reading.ts'
import { type PartReading, readingsOf } from './readings.ts'
import type { TextSource } from './source.ts'
import {
  type CategoryLimits,
  RECOMMENDATIONS,
  type Sensitivity,
  severityOf,
  strictestVerdict,
  type Thresholds,
  thresholdsOf,
} from './verdict.ts'

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
  /** Whether the scan also returns an explanation. */
  explains?: boolean | undefined
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
  /** Contains text, so it must not be stored. */
  explanation?: Explanation
}

const DETAILS = 12

/** The state of a scan in progress. */
type Scan = {
  options: ShieldOptions
  /** Undefined for a scan without a classifier. */
  classifier: Classifier | undefined
  usesHeuristics: boolean
  source: TextSource
  evidence: Evidence[]
  /** The highest logit of all pieces, and the number of pieces. */
  logit: number
  pieces: number
  /** The pieces that a judge may need. */
  suspects: Suspect[]
  /** Empty without `explains`. */
  explained: ExplainedPart[]
}

/** A piece that may be an attack: its range of words in a part of the text. */
type Suspect = { part: PartReading; from: number; to: number; text: string; logit: number }

/** Reads the lexicon and the weights, which takes some tens of milliseconds, so that the first request does not wait. */
export function prepareScans(): void {
  scanText('Everything is ready.')
}

/** Scans a text for attacks on the assistant. Takes time linear in the length of the text (docs/prompt-shield.md). */
export function scanText(text: string, options: ShieldOptions = {}): ShieldScan {
  const scan = scanOf(options)
  for (const _ of readParts(text, scan));
  return conclude(scan)
}

/** Like `scanText`, but yields to the event loop every few milliseconds. @param pacer the pacer of the request */
export async function scanTextInSlices(
  text: string,
  options: ShieldOptions = {},
  pacer: Pick<Pacer, 'turn'> = createPacer(),
): Promise<ShieldScan> {
  const scan = scanOf(options)
  await runInSlices(readParts(text, scan), pacer)
  return conclude(scan)
}

function scanOf(options: ShieldOptions): Scan {
  const { layers } = options
  const usesClassifier = layers === undefined || layers.includes('ml') || layers.includes('llm')
  return {
    options,
    classifier: usesClassifier ? (options.classifier ?? trainedClassifier()) : undefined,
    usesHeuristics: usesClassifier || layers.includes('heuristic'),
    source: options.source ?? 'user',
    evidence: [],
    logit: Number.NEGATIVE_INFINITY,
    pieces: 0,
    suspects: [],
    explained: [],
  }
}

/** Yields after each step. A step takes at most a few milliseconds. */
function* readParts(text: string, scan: Scan): Generator<void> {
  for (const part of readingsOf(text, scan.usesHeuristics)) {
    if (part !== undefined) judgePart(part, scan)
    yield
  }
}

function judgePart(part: PartReading, scan: Scan): void {
  const { reading, hiddenBy } = part
  const shown = new Set(scan.evidence.map(({ pattern }) => pattern))
  const features = readFeatures(reading, hiddenBy !== undefined)
  const evidence = [...markEvidence(reading), ...phraseEvidence(features.words, reading, firstOfEach(features.phrases))]
  if (scan.usesHeuristics) evidence.push(...dataEvidence(features, reading, scan.source))
  // Only a hidden request shows an intent to attack. Other hidden texts may be harmless.
  const hidesRequest =
    hiddenBy !== undefined && evidence.some(({ pattern, confidence }) => confidence >= 0.5 && !shown.has(pattern))
  if (hidesRequest && scan.usesHeuristics) evidence.push(hidingEvidence(hiddenBy, reading.spelled))
  if (scan.usesHeuristics) evidence.push(...letterEvidence(reading))
  scan.evidence.push(...evidence)
  const logits = scan.classifier?.logits(features, scan.source)
  if (scan.options.explains) scan.explained.push(explainPart({ part, features, evidence, logits }, scan.source))
  if (logits === undefined) return
  scan.pieces += logits.length
  for (const [at, logit] of logits.entries()) {
    scan.logit = Math.max(scan.logit, logit)
    if (scan.options.layers?.includes('llm')) scan.suspects.push({ part, ...rangeOf(features, reading, at), logit })
  }
}

function rangeOf({ words, units, pieces }: TextFeatures, { spelled }: Reading, at: number) {
  const piece = pieces[at]!
  const { from } = units[piece.from]!
  const { to } = units[piece.to - 1]!
  return { from, to, text: spelled.slice(words.starts[from], words.starts[to]) }
}

/** Omits each suspect that overlaps a suspect with a higher logit, because pieces of all sizes overlap. */
function withoutOverlaps(suspects: readonly Suspect[]): Suspect[] {
  const kept: Suspect[] = []
  for (const one of suspects.toSorted((one, other) => other.logit - one.logit)) {
    const overlaps = kept.some(({ part, from, to }) => part === one.part && from < one.to && one.from < to)
    if (!overlaps) kept.push(one)
  }
  return kept
}

function conclude(scan: Scan): ShieldScan {
  const { evidence, logit, pieces, source, suspects, classifier, options } = scan
  const distinct = [...new Map(evidence.map((one) => [`${one.layer}:${one.pattern}`, one])).values()]
  const riskScore = Math.round(classifier ? classifier.riskScore(logit, pieces, source) : riskOf(distinct))
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
    suspects: withoutOverlaps(
      suspects.filter(
        (one) => classifier && Math.round(classifier.riskScore(one.logit, pieces, source)) >= thresholds.log,
      ),
    ).map(({ text }) => text),
    ...(options.explains && { explanation: explanationOf(scan.explained, { source, riskScore, classifier }) }),
  }
}

const round = (value: number): number => Math.round(value * 100) / 100
