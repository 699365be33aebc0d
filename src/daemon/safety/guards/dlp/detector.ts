import { begunFrom, DETECTION_CONTEXT_CHARS, type Detector, type Finding, remembering } from '../detection.ts'
import { createMarkingsDetector } from './markings.ts'
import { createSecretsDetector } from './secrets.ts'
import { createSourceCodeDetector } from './source-code.ts'
import { beforeFinding } from './word-search.ts'

/** The built-in detectors. They do not depend on custom rules. */
export const DLP_DETECTORS = {
  secrets: createSecretsDetector,
  'document-markings': createMarkingsDetector,
  'source-code': createSourceCodeDetector,
} as const satisfies Record<string, () => Detector>

/**
 * Combines several detectors. If findings overlap, keeps the finding that begins first. If several findings begin at
 * the same position, keeps the longest.
 */
export function createDlpDetector(detectors: readonly Detector[]): Detector {
  const find = remembering((text) => {
    const kept: Finding[] = []
    let free = 0
    const all = detectors.flatMap((detector) => detector.find(text))
    for (const finding of all.sort((one, other) => one.start - other.start || other.end - one.end)) {
      if (finding.start < free) continue
      kept.push(finding)
      free = finding.end
    }
    return kept
  })
  return {
    find,
    openFrom(text) {
      const open = detectors.reduce((least, detector) => Math.min(least, detector.openFrom(text)), text.length)
      return open === text.length ? open : beforeFinding(open, text, find)
    },
    begunFrom: (text) =>
      detectors.reduce(
        (least, detector) => Math.min(least, begunFrom(detector, text, detector.openFrom(text))),
        text.length,
      ),
    contextChars: Math.max(
      DETECTION_CONTEXT_CHARS,
      ...detectors.map(({ contextChars = DETECTION_CONTEXT_CHARS }) => contextChars),
    ),
  }
}
