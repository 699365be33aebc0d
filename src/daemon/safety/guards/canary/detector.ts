// Finds canaries in every spelling that a model may use.
import { codeUnitsOf } from '../../../platform/text/code-units.ts'
import { type Detector, type Finding, remembering } from '../detection.ts'
import { codePointOf, isHighSurrogate, isLowSurrogate, letterOf, letterOfSign } from '../view/characters.ts'
import { throughView } from '../view/viewed-detector.ts'
import type { Canary } from './marker.ts'
import { createSeeds, mayHoldSeed, type Seeds, type Sighting, Sightings, Track } from './track.ts'

/** `subject` is the id of the canary. */
export type CanaryFinding = Finding & { subject: string }

/** A detector whose findings name their canaries. */
export type CanaryDetector = Omit<Detector, 'find'> & { find(text: string): CanaryFinding[] }

export const CANARY = 'CANARY'

/**
 * Finds whole canaries and large parts of them, even if they are altered: written in another case, with look-alike
 * letters or backwards, or shifted in the alphabet. Spaces, punctuation or other words may interrupt them. The view
 * decodes percent-encoding, hex and base64. A finding may lack the first word of the canary, because a stream holds text
 * back only from the second word on.
 */
export function createCanaryDetector(canaries: readonly Canary[]): CanaryDetector {
  const seeds = createSeeds(canaries)
  const read = remembering((text) => readText(text, seeds))
  return throughView({
    find: (text) => read(text).findings,
    openFrom: (text) => read(text).openFrom,
    // Open text always contains a whole word of a canary.
    holdsOnlyValues: true,
  }) as CanaryDetector
}

type Reading = { findings: CanaryFinding[]; openFrom: number }

function readText(text: string, seeds: Seeds): Reading {
  const units = codeUnitsOf(text)
  const { length } = text
  const sightings = new Sightings()
  const openFrom = mayHoldSeed(units, length, seeds) ? readLetters(units, length, new Track(seeds, sightings)) : length
  return { findings: toFindings(sightings.all(), seeds.canaries), openFrom }
}

/** Merges overlapping matches, so that a canary that several readers found is reported only once. */
function toFindings(sightings: readonly Sighting[], canaries: readonly Canary[]): CanaryFinding[] {
  const findings: CanaryFinding[] = []
  for (const { canary, start, end } of sightings.toSorted((a, b) => a.start - b.start)) {
    const last = findings.at(-1)
    if (last && start < last.end) last.end = Math.max(last.end, end)
    else findings.push({ start, end, type: CANARY, confidence: 1, subject: canaries[canary]?.id ?? '' })
  }
  return findings
}

/** Reads the letters of a text. Returns the start of open text. */
function readLetters(units: Uint16Array, length: number, track: Track): number {
  let high = 0
  let isAfterLetter = false
  for (let at = 0; at < length; at++) {
    const code = units[at] as number
    if (isHighSurrogate(code)) {
      high = code
      continue
    }
    const own: number = letterOf(isLowSurrogate(code) && high > 0 ? codePointOf(high, code) : code)
    high = 0
    // A digit counts as a letter only after a letter. Examples: "v3lm0r" is one word, and "1. first" is a number and a
    // word.
    const letter: number = own < 0 && isAfterLetter ? letterOfSign(code) : own
    isAfterLetter = letter >= 0
    if (isAfterLetter) track.add(letter, at)
  }
  return track.openFrom(length)
}
