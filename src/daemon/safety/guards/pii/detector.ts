// Combines the recognizers of all selected kinds of personal data into one detector.
import { DEFAULT_PII_ENTITIES, PII_ENTITIES, type PiiEntity } from '../../../../shared/pii-entities.ts'
import { DETECTION_HOLD_CHARS, type Detector, type Finding, remembering } from '../detection.ts'
import { addressRecognizer } from './addresses.ts'
import { dateRecognizer } from './dates.ts'
import { emailRecognizer, openEmailFrom } from './emails.ts'
import { identityRecognizer } from './identity.ts'
import { jobTitleRecognizer } from './job-titles.ts'
import { lowerNameRecognizer } from './lower-names.ts'
import { networkRecognizer } from './network.ts'
import { phoneRecognizer } from './phones.ts'
import { properNameRecognizer } from './proper-names.ts'
import { Digits, type Recognizer } from './recognizer.ts'
import { scriptNameRecognizer } from './script-names.ts'

export type PiiDetectorOptions = {
  /**
   * Default: DEFAULT_PII_ENTITIES. By default, role mailboxes (contact@) are excluded, because they do not identify a
   * person.
   */
  entities?: readonly PiiEntity[] | 'all'
  /** Regions whose national phone numbers are detected (ISO 3166-1, upper case). */
  regions?: readonly string[]
}

type Candidate = Finding & { type: PiiEntity }

/**
 * Finds personal data. The `type` of a finding is its entity. If findings overlap, keeps the more confident finding. If
 * both are equally confident, keeps the longer finding.
 */
export function createPiiDetector({ entities, regions = [] }: PiiDetectorOptions = {}): Detector {
  const wanted = new Set(entities === 'all' ? PII_ENTITIES.map(({ name }) => name) : (entities ?? DEFAULT_PII_ENTITIES))
  const recognizers = [
    emailRecognizer(entities !== undefined),
    identityRecognizer,
    phoneRecognizer(regions),
    networkRecognizer,
    dateRecognizer,
    addressRecognizer,
    properNameRecognizer,
    lowerNameRecognizer,
    jobTitleRecognizer,
    scriptNameRecognizer,
  ].filter((each) => each.entities.some((entity) => wanted.has(entity)))
  const read = remembering((text) => scan(text, recognizers, wanted))
  return {
    types: [...wanted],
    find: (text) => withoutOverlaps(read(text).candidates),
    openFrom: (text) => {
      const { candidates, open } = read(text)
      return Math.max(beforeOverlaps(candidates, open), text.length - DETECTION_HOLD_CHARS, 0)
    },
    // Reports only incomplete e-mail addresses. All other incomplete values are already findings, and findings always
    // count as begun.
    begunFrom: (text) => (wanted.has('EMAIL') ? openEmailFrom(text) : text.length),
  }
}

function scan(text: string, recognizers: readonly Recognizer[], wanted: ReadonlySet<PiiEntity>) {
  const candidates: Candidate[] = []
  const report = (start: number, end: number, type: PiiEntity, confidence: number) => {
    if (wanted.has(type)) candidates.push({ start, end, type, confidence })
  }
  const digits = new Digits(text)
  let open = text.length
  for (const recognizer of recognizers) open = Math.min(open, recognizer.scan(text, digits, wanted, report))
  candidates.sort((one, other) => one.start - other.start || other.end - one.end)
  return { candidates, open }
}

/**
 * Processes candidates from left to right. An overlapping candidate replaces the last kept candidate if it is more
 * confident, or equally confident and longer.
 */
function withoutOverlaps(candidates: readonly Candidate[]): Finding[] {
  const standing: Candidate[] = []
  for (const candidate of candidates) {
    const last = standing.at(-1)
    if (last === undefined || candidate.start >= last.end) standing.push(candidate)
    else if (isSurer(candidate, last)) standing[standing.length - 1] = candidate
  }
  return standing
}

function isSurer(one: Candidate, other: Candidate): boolean {
  if (one.confidence !== other.confidence) return one.confidence > other.confidence
  return one.end - one.start > other.end - other.start
}

/**
 * Returns the start of the candidates that may still change. An open finding may replace a candidate that overlaps it,
 * and that candidate may have replaced earlier candidates. A stream must therefore not release any of these candidates
 * yet.
 */
function beforeOverlaps(candidates: readonly Candidate[], open: number): number {
  let settled = open
  for (const { start, end } of candidates.toReversed()) if (end > settled && start < settled) settled = start
  return settled
}
