// Builds the output guards of a policy that has default settings for secrets, personal data and canaries.
import { createCanaryDetector } from '../dist/daemon/safety/guards/canary/detector.js'
import { liveCanaries } from '../dist/daemon/safety/guards/canary/marker.js'
import { DLP_DETECTORS } from '../dist/daemon/safety/guards/dlp/detector.js'
import { createPiiDetector } from '../dist/daemon/safety/guards/pii/detector.js'
import { createOutputGuard } from '../dist/daemon/safety/guards/stream/output-guard.js'

/**
 * Returns a function that creates the guard for one answer.
 * @returns {() => import('../dist/daemon/safety/guards/stream/output-guard.js').OutputGuard}
 */
export function createGuards(clock) {
  const canaries = liveCanaries(Buffer.alloc(32), 'bench', new Date(0))
  const armed = [
    { guard: 'dlp', detector: DLP_DETECTORS.secrets(), actionOf: () => 'mask' },
    { guard: 'pii', detector: createPiiDetector(), actionOf: () => 'mask' },
    { guard: 'canary', detector: createCanaryDetector(canaries), actionOf: () => 'block' },
  ]
  return () => createOutputGuard({ armed, clock })
}
