import { POLICY_ACTIONS, type PolicyAction } from '../../../shared/wire/policies.ts'
import { atOnce } from '../../platform/pacing.ts'
import type { Detector, Effort, Finding } from './detection.ts'
import { maskOf } from './pii/mask.ts'
import type { Pseudonyms } from './pseudonyms.ts'
import { createTextView, type Edit, type TextFormat } from './stream/text-view.ts'

/** A finding of a type of which there are several; `subject` says which one, such as the id of a canary. Never a value. */
export type Found = Finding & { subject?: string }

/** A detector, and what is to be done about what it finds. `guard` is for whoever reports: `pii`, `dlp`, `canary`. */
export type ArmedDetector = {
  guard: string
  detector: Omit<Detector, 'find'> & { find(text: string): Found[] }
  actionOf(type: string): PolicyAction
}

/** How often something was found and what was done about it; never what. */
export type GuardHit = { guard: string; type: string; subject?: string; action: PolicyAction; count: number }

/** A finding with what is to be done about it. */
export type ActedFinding = Found & { guard: string; action: PolicyAction }

/** A stretch that changes; `findings` that are only logged are beside it. */
export type Redaction = { start: number; end: number; type: string; action: Exclude<PolicyAction, 'log'> }

/** What was made of a text. `isBlocked`: it must not be used at all. */
export type Screened = { text: string; hits: GuardHit[]; isBlocked: boolean }

const STRENGTH = new Map(POLICY_ACTIONS.map((action, strength) => [action, strength]))

/**
 * Looks at a whole text and does what is asked about what is in it. A text in JSON is looked at as its reader sees it, and
 * stays JSON. The very same text comes back when nothing is found.
 * @param pseudonyms of this request; without them `tokenize` masks
 */
export const screenText = (
  raw: string,
  format: TextFormat,
  armed: readonly ArmedDetector[],
  pseudonyms?: Pseudonyms,
): Screened => atOnce(screening(raw, format, armed, pseudonyms))

/** As `screenText`; stops after each detector. */
export function* screening(
  raw: string,
  format: TextFormat,
  armed: readonly ArmedDetector[],
  pseudonyms?: Pseudonyms,
  effort?: Effort,
): Generator<void, Screened> {
  const view = createTextView(format)
  const read = view.add(raw)
  const text = read + view.end()
  const findings = yield* finding(text, armed, effort)
  if (findings.length === 0) return { text: raw, hits: [], isBlocked: false }
  const widened = findings.map((finding) => ({ ...finding, ...view.widen(finding.start, finding.end) }))
  const redactions = toRedactions(widened)
  const edits = redactions.flatMap((redaction) => view.toRawEdits(toEdit(redaction, text, pseudonyms)))
  return {
    text: applyEdits(raw, edits),
    hits: countHits([], findings),
    isBlocked: redactions.some(({ action }) => action === 'block'),
  }
}

/**
 * Everything that all of them find, in no order; stops after each of them.
 * @param effort what patterns of customers may still take; without it, all they need
 * @param from where those patterns begin to read; see `Detector.slowly`
 */
export function* finding(
  text: string,
  armed: readonly ArmedDetector[],
  effort?: Effort,
  from?: number,
): Generator<void, ActedFinding[]> {
  const findings: ActedFinding[] = []
  for (const { guard, detector, actionOf } of armed) {
    const all = detector.slowly ? yield* detector.slowly.find(text, effort, from) : detector.find(text)
    for (const found of all) findings.push({ ...found, guard, action: actionOf(found.type) })
    yield
  }
  return findings
}

/**
 * The stretches that change, in order and apart. Findings that overlap become one stretch, so that no rest of a value stays:
 * what counts for it is the strongest action, then the longest finding, then the most certain one.
 */
export function toRedactions(findings: readonly ActedFinding[]): Redaction[] {
  const changing = findings.filter(({ action }) => action !== 'log').sort((a, b) => a.start - b.start || b.end - a.end)
  const redactions: Redaction[] = []
  let leading: ActedFinding | undefined
  for (const finding of changing) {
    const last = redactions.at(-1)
    if (last === undefined || leading === undefined || finding.start >= last.end) {
      leading = finding
      redactions.push(toRedaction(finding, finding.start, finding.end))
      continue
    }
    if (precedes(finding, leading)) leading = finding
    redactions[redactions.length - 1] = toRedaction(leading, last.start, Math.max(last.end, finding.end))
  }
  return redactions
}

function toRedaction({ type, action }: ActedFinding, start: number, end: number): Redaction {
  return { start, end, type, action: action === 'log' ? 'mask' : action }
}

function precedes(a: ActedFinding, b: ActedFinding): boolean {
  const byStrength = (STRENGTH.get(a.action) ?? 0) - (STRENGTH.get(b.action) ?? 0)
  const order = byStrength || a.end - a.start - (b.end - b.start) || a.confidence - b.confidence
  return order > 0 || (order === 0 && a.type < b.type)
}

/** Without a sign, what stood on both sides of a value could become another one that nobody has looked for. */
const REMOVED = '…'

/** What stands there instead; `text` is what the offsets count in, and `textFrom` the offset of its first character. */
export function toEdit(redaction: Redaction, text: string, pseudonyms: Pseudonyms | undefined, textFrom = 0): Edit {
  const { start, end } = redaction
  return { start, end, text: replacementOf(redaction, text.slice(start - textFrom, end - textFrom), pseudonyms) }
}

function replacementOf({ type, action }: Redaction, value: string, pseudonyms: Pseudonyms | undefined): string {
  if (action === 'tokenize' && pseudonyms) return pseudonyms.of(type, value)
  // What is blocked leaves nowhere; should it be used after all, nothing of the value is in it.
  return action === 'remove' || action === 'block' ? REMOVED : maskOf(type, value)
}

/** The text with these changes, which are in order and apart. */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  let changed = ''
  let at = 0
  for (const edit of edits) {
    changed += text.slice(at, edit.start) + edit.text
    at = edit.end
  }
  return changed + text.slice(at)
}

/** Adds these findings to what was counted before. */
export function countHits(hits: GuardHit[], findings: readonly ActedFinding[]): GuardHit[] {
  for (const { guard, type, subject, action } of findings) {
    const isSame = (hit: GuardHit) =>
      hit.guard === guard && hit.type === type && hit.subject === subject && hit.action === action
    const known = hits.find(isSame)
    if (known) known.count++
    else hits.push({ guard, type, ...(subject !== undefined && { subject }), action, count: 1 })
  }
  return hits
}
