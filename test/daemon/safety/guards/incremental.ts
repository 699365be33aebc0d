import { expect } from 'vitest'
import { runToEnd } from '../../../../src/daemon/platform/pacing.ts'
import {
  DETECTION_CONTEXT_CHARS,
  DETECTION_HOLD_CHARS,
  type Detector,
  type Finding,
} from '../../../../src/daemon/safety/guards/detection.ts'

/**
 * The invariant of detection.ts for every prefix of a text: released text is never reinterpreted, a finding never
 * crosses the
 * border, and the rest needs at most the context before it.
 */
export function expectIncremental(detector: Detector, text: string): void {
  const whole = detector.find(text)
  for (let length = 0; length <= text.length; length += 1) {
    const beginning = text.slice(0, length)
    const open = detector.openFrom(beginning)
    const border = `of ${JSON.stringify(text)} after ${length}, open from ${open}`
    expect(open, border).toBeLessThanOrEqual(length)
    expect(open, border).toBeGreaterThanOrEqual(Math.max(0, length - DETECTION_HOLD_CHARS))
    const before = (findings: Finding[]) => findings.filter(({ start }) => start < open)
    expect(before(detector.find(beginning)), border).toEqual(before(whole))
    for (const { end } of before(whole)) expect(end, border).toBeLessThanOrEqual(open)

    const cut = Math.max(0, open - DETECTION_CONTEXT_CHARS)
    const rest = detector.find(text.slice(cut)).map(({ start, end, ...finding }) => {
      return { start: start + cut, end: end + cut, ...finding }
    })
    expect(
      rest.filter(({ start }) => start >= open),
      border,
    ).toEqual(whole.filter(({ start }) => start >= open))

    const { slowly } = detector
    if (!slowly) continue
    // With the text before `open` as context only.
    expect(runToEnd(slowly.find(text, undefined, open)), border).toEqual(whole.filter(({ start }) => start >= open))
    expect(runToEnd(slowly.openFrom(text, undefined, open)), border).toBe(detector.openFrom(text))
  }
}
