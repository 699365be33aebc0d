// Runs a detector on the view of a text too, and reports what it finds at its place in the text itself.
import { begunFrom, type Detector, type Effort, type Finding } from '../detection.ts'
import type { MappedText } from './mapped-text.ts'
import { encodedBegunFrom, openTailFrom, withoutIncomplete } from './open-tail.ts'
import { hiddenViewsOf, viewOf } from './view.ts'

/** Findings in text that was shifted or reversed count only if the format of the value is unmistakable. */
const UNMISTAKABLE = 0.95

export type ViewOptions = {
  /** Whether tokens written backwards or shifted by ROT13 count too. */
  readsTokens?: boolean
}

/**
 * Returns a detector that also finds values which are encoded, broken over lines, or written with unusual characters. The
 * contract of `Detector` still holds.
 */
export function throughView(detector: Detector, { readsTokens = false }: ViewOptions = {}): Detector {
  const { types, contextChars, slowly } = detector
  const hidden = (text: string): Finding[] =>
    readsTokens
      ? hiddenViewsOf(text).flatMap((view) =>
          mapped(view, detector.find(view.text)).filter(({ confidence }) => confidence >= UNMISTAKABLE),
        )
      : []
  const find = (text: string): Finding[] => {
    const view = viewOf(text)
    const own = detector.find(text)
    const others = [...(view ? mapped(view, detector.find(view.text)) : []), ...hidden(text)]
    return others.length === 0 ? own : joined(own, others)
  }
  return {
    find,
    openFrom(text) {
      const view = viewOf(withoutIncomplete(text))
      const open = Math.min(detector.openFrom(text), openIn(text, view, view && detector.openFrom(view.text)))
      return open === text.length ? open : beforeFindings(open, find(text))
    },
    begunFrom(text) {
      const complete = withoutIncomplete(text)
      const view = viewOf(complete)
      const own = begunFrom(detector, text, detector.holdsOnlyValues ? detector.openFrom(text) : 0)
      return Math.min(own, view ? begunIn(detector, view, text) : text.length, encodedBegunFrom(text))
    },
    ...(contextChars !== undefined && { contextChars }),
    ...(types && { types }),
    ...(slowly && { slowly: slowlyThroughView(slowly) }),
  }
}

type Slowly = NonNullable<Detector['slowly']>

const slowlyThroughView = (slowly: Slowly): Slowly => ({
  *find(text: string, effort?: Effort, from = 0) {
    const own = yield* slowly.find(text, effort, from)
    const view = viewOf(text)
    if (!view) return own
    const found = yield* slowly.find(view.text, effort, view.fromOriginal(from))
    const others = mapped(view, found).filter(({ start }) => start >= from)
    return others.length === 0 ? own : joined(own, others)
  },
  *openFrom(text: string, effort?: Effort, from = 0) {
    const own = yield* slowly.openFrom(text, effort, from)
    const view = viewOf(withoutIncomplete(text))
    const inView = view && (yield* slowly.openFrom(view.text, effort, view.fromOriginal(from)))
    return Math.min(own, openIn(text, view, inView))
  },
})

/**
 * Returns the start of the first value in the view that has begun. Decoded text that is open has begun too, because it
 * is several times as long in its encoding, and would leave a stream before it is recognized.
 */
function begunIn(detector: Detector, view: MappedText, text: string): number {
  const open = detector.openFrom(view.text)
  const begun = begunFrom(detector, view.text, open)
  const isDecoded = open < view.text.length && view.isDecoded(open, view.text.length)
  return originalOf(view, isDecoded ? Math.min(open, begun) : begun, text)
}

/** Returns `open`, or the start of the finding that spans it. */
const beforeFindings = (open: number, findings: readonly Finding[]): number =>
  findings.reduce((least, { start, end }) => (start < least && end > least ? start : least), open)

/** Returns where open text starts, judged by the view and by what later text may still turn into encoded text. */
const openIn = (text: string, view: MappedText | undefined, inView: number | undefined): number =>
  Math.min(view && inView !== undefined ? originalOf(view, inView, text) : text.length, openTailFrom(text))

const originalOf = (view: MappedText, offset: number, text: string): number =>
  offset >= view.text.length ? text.length : view.toOriginal(offset, offset + 1).start

/** Returns the findings that only the view shows, at their places in the text. */
function mapped(view: MappedText, findings: readonly Finding[]): Finding[] {
  return findings.flatMap((finding) => {
    if (!view.isChanged(finding.start, finding.end)) return []
    const range = view.toOriginal(finding.start, finding.end)
    return [{ ...finding, ...range, ...(view.isDecoded(finding.start, finding.end) && { isDecoded: true as const }) }]
  })
}

/**
 * Joins the findings of the text and of its views. A value that both show counts once, with the larger range. Otherwise
 * the more confident finding decides the type.
 */
function joined(own: readonly Finding[], others: readonly Finding[]): Finding[] {
  const all = [...own, ...others].sort((one, other) => one.start - other.start || other.end - one.end)
  const kept: Finding[] = []
  for (const finding of all) {
    const last = kept.at(-1)
    if (last === undefined || finding.start >= last.end) {
      kept.push(finding)
      continue
    }
    const isSurer = finding.confidence > last.confidence
    const isDecoded = last.isDecoded === true || finding.isDecoded === true
    kept[kept.length - 1] = {
      ...(isSurer ? finding : last),
      start: last.start,
      end: Math.max(last.end, finding.end),
      ...(isDecoded && { isDecoded: true as const }),
    }
  }
  return kept
}
