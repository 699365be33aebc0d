import type { Detector, Finding } from '../../../../../src/daemon/safety/guards/detection.ts'
import type { ArmedDetector } from '../../../../../src/daemon/safety/guards/redaction.ts'
import type { PolicyAction } from '../../../../../src/shared/wire/policies.ts'

/** Small detectors that keep the law of detection.ts, each in a way that makes it hard for whoever reads a stream. */
export const SAMPLE_DETECTORS = {
  /** Four to eight digits, no more: what looks found may still turn out to be nothing. */
  digits: fromPatterns('digits', /(?<!\d)\d{4,8}(?!\d)/g, /\d+$/),
  /** Grows at both ends. */
  pair: fromPatterns('pair', /[a-z]+@[a-z]+/g, /[a-z]+(?:@[a-z]*)?$/),
  /** Only where a word before it says so. */
  code: fromPatterns('code', /(?<=key[: ]{1,3})[A-Z]{3,6}(?![A-Z])/g, /[A-Z]+$/),
  /** Anything between two marks that are not too far apart. */
  fence: fromPatterns('fence', /<<[^<>]{0,40}>>/g, /<(?:<[^<>]{0,40}>?)?$/),
} as const

function fromPatterns(type: string, finding: RegExp, open: RegExp): Detector {
  return {
    find: (text): Finding[] =>
      [...text.matchAll(finding)].map(({ index, 0: { length } }) => {
        return { start: index, end: index + length, type, confidence: 1 }
      }),
    openFrom: (text) => open.exec(text)?.index ?? text.length,
  }
}

export const armAll = (actionOf: (type: string) => PolicyAction): ArmedDetector[] =>
  Object.values(SAMPLE_DETECTORS).map((detector) => ({ guard: 'sample', detector, actionOf }))
