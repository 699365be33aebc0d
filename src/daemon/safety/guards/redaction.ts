import { POLICY_ACTIONS, type PolicyAction } from '../../../shared/wire/policies.ts'
import { runToEnd } from '../../platform/pacing.ts'
import type { Detector, Effort, Finding } from './detection.ts'
import { maskOf, typeMaskOf } from './pii/mask.ts'
import type { Pseudonyms } from './pseudonyms.ts'
import { createTextView, type Edit, type TextFormat } from './stream/text-view.ts'
import type { Range } from './view/mapped-text.ts'

/**
 * A finding. `subject` distinguishes several sources of one type, for example canaries by their ids. `subject` never
 * contains the matched value.
 */
export type Found = Finding & { subject?: string }

/** A detector, and the action for each of its findings. `guard` is for reports: `pii`, `dlp`, `canary`. */
export type ArmedDetector = {
  guard: string
  detector: Omit<Detector, 'find'> & { find(text: string): Found[] }
  actionOf(type: string): PolicyAction
}

/** The number of findings of a type, and the action taken. Hits never contain the value. */
export type GuardHit = { guard: string; type: string; subject?: string; action: PolicyAction; count: number }

/** A finding and the action for it. */
export type ActedFinding = Found & { guard: string; action: PolicyAction }

/** A range of text that is changed. Findings that are only logged do not change the text. */
export type Redaction = {
  start: number
  end: number
  type: string
  action: Exclude<PolicyAction, 'log'>
  /** Whether the range encodes the value, wholly or in part. */
  isDecoded: boolean
}

/** The screened text. If `isBlocked`, the text must not be used, even in redacted form. */
export type Screened = { text: string; hits: GuardHit[]; isBlocked: boolean }

const STRENGTH = new Map(POLICY_ACTIONS.map((action, strength) => [action, strength]))

/**
 * Screens a whole text and applies the actions to its findings. JSON text is screened in decoded form and remains valid
 * JSON. Returns the unchanged text if there are no findings.
 * @param pseudonyms the pseudonyms of this request; without them, `tokenize` masks
 */
export const screenText = (
  raw: string,
  format: TextFormat,
  armed: readonly ArmedDetector[],
  pseudonyms?: Pseudonyms,
): Screened => runToEnd(screening(raw, format, armed, pseudonyms))

/** Like `screenText`, but yields after each detector. */
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
 * Returns the findings of all detectors, unordered. Yields after each detector.
 * @param effort the remaining step budget of customers' patterns; unlimited by default
 * @param from the offset from which customers' patterns search for findings; see `Detector.slowly`
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
 * Returns the ranges to change, ordered and disjoint. Overlapping findings are merged into one range, so that no part
 * of a value remains. The strongest action takes precedence, then the longest finding, then the most confident finding.
 */
export function toRedactions(findings: readonly ActedFinding[]): Redaction[] {
  const changing = findings.filter(({ action }) => action !== 'log').sort((a, b) => a.start - b.start || b.end - a.end)
  const redactions: Redaction[] = []
  let leading: ActedFinding | undefined
  for (const finding of changing) {
    const last = redactions.at(-1)
    if (last === undefined || leading === undefined || finding.start >= last.end) {
      leading = finding
      redactions.push(toRedaction(finding, finding, finding.isDecoded === true))
      continue
    }
    if (precedes(finding, leading)) leading = finding
    const range = { start: last.start, end: Math.max(last.end, finding.end) }
    redactions[redactions.length - 1] = toRedaction(leading, range, last.isDecoded || finding.isDecoded === true)
  }
  return redactions
}

function toRedaction({ type, action }: ActedFinding, { start, end }: Range, isDecoded: boolean): Redaction {
  return { start, end, type, action: action === 'log' ? 'mask' : action, isDecoded }
}

function precedes(a: ActedFinding, b: ActedFinding): boolean {
  const byStrength = (STRENGTH.get(a.action) ?? 0) - (STRENGTH.get(b.action) ?? 0)
  const order = byStrength || a.end - a.start - (b.end - b.start) || a.confidence - b.confidence
  return order > 0 || (order === 0 && a.type < b.type)
}

/**
 * This marker replaces a removed value. Without it, the text before and after the value could form a new value that was
 * not screened.
 */
const REMOVED = '…'

/**
 * Returns the edit for a redaction. `text` is the text to which the offsets refer, and `textFrom` is the offset of its
 * first character.
 */
export function toEdit(redaction: Redaction, text: string, pseudonyms: Pseudonyms | undefined, textFrom = 0): Edit {
  const { start, end } = redaction
  return { start, end, text: replacementOf(redaction, text.slice(start - textFrom, end - textFrom), pseudonyms) }
}

function replacementOf(
  { type, action, isDecoded }: Redaction,
  value: string,
  pseudonyms: Pseudonyms | undefined,
): string {
  if (action === 'tokenize' && pseudonyms) return pseudonyms.of(type, value)
  // Blocked text is never sent. Removing its values is a second line of defence.
  if (action === 'remove' || action === 'block') return REMOVED
  return isDecoded ? typeMaskOf(type) : maskOf(type, value)
}

/** Applies edits. The edits must be ordered and disjoint. */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  let changed = ''
  let at = 0
  for (const edit of edits) {
    changed += text.slice(at, edit.start) + edit.text
    at = edit.end
  }
  return changed + text.slice(at)
}

/** Adds the findings to the hit counts. */
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
