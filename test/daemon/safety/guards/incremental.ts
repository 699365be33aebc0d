import { expect } from 'vitest'
import { runToEnd } from '../../../../src/daemon/platform/pacing.ts'
import {
  DETECTION_CONTEXT_CHARS,
  DETECTION_HOLD_CHARS,
  type Detector,
  type Finding,
} from '../../../../src/daemon/safety/guards/detection.ts'

/**
 * The law of detection.ts, for every beginning of a text: what was let go of is not looked at in another way afterwards, a
 * finding never reaches over the border, and what is left needs no more before it than the context.
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
