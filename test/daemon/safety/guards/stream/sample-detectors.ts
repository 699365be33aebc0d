import type { Detector, Finding } from '../../../../../src/daemon/safety/guards/detection.ts'
import type { ArmedDetector } from '../../../../../src/daemon/safety/guards/redaction.ts'
import type { PolicyAction } from '../../../../../src/shared/wire/policies.ts'

/** Small detectors that keep the invariant of detection.ts. Each is difficult for a stream in a different way. */
export const SAMPLE_DETECTORS = {
  /** Four to eight digits. A ninth digit invalidates a finding. */
  digits: fromPatterns('digits', /(?<!\d)\d{4,8}(?!\d)/g, /\d+$/),
  /** Extends at both ends. */
  pair: fromPatterns('pair', /[a-z]+@[a-z]+/g, /[a-z]+(?:@[a-z]*)?$/),
  /** Only after a certain word. */
  code: fromPatterns('code', /(?<=key[: ]{1,3})[A-Z]{3,6}(?![A-Z])/g, /[A-Z]+$/),
  /** Any text between two marks at a limited distance. */
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
