import type { PiiEntity } from '../../../shared/pii-entities.ts'
import type { Detector } from './detection.ts'
import { createSecretsDetector } from './dlp/secrets.ts'
import { createPiiDetector } from './pii/detector.ts'

/**
 * Personal data in a text that a machine wrote: the default set, and what such texts name besides. Dates, places and
 * organisations are excluded, because they make up most of the useful words of such texts.
 */
const ENTITIES: readonly PiiEntity[] = ['PERSON', 'ADDRESS', 'IP_ADDRESS', 'MAC_ADDRESS']

// Created for the first text, because most daemons never need them.
let detectors: readonly Detector[] | undefined

/** Returns the ranges of secrets and personal data in a text, unordered. They may overlap. */
export function sensitiveRanges(text: string): { start: number; end: number }[] {
  detectors ??= [createSecretsDetector(), createPiiDetector(), createPiiDetector({ entities: ENTITIES })]
  return detectors.flatMap((detector) => detector.find(text))
}
