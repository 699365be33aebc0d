import { appendTo } from '../../../../shared/lists.ts'
import { type Pacer, runInSlices } from '../../../platform/pacing.ts'
import { DETECTION_HOLD_CHARS } from '../detection.ts'
import type { Pseudonyms } from '../pseudonyms.ts'
import {
  type ActedFinding,
  type ArmedDetector,
  applyEdits,
  countHits,
  finding,
  type GuardHit,
  toEdit,
  toRedactions,
} from '../redaction.ts'
import type { Edit } from '../stream/text-view.ts'
import { mapAdjacentTexts, type PromptText } from './text-slots.ts'

/** The maximum length of text in one scan. If several boundaries are near each other, one scan covers them. */
const PIECE_CHARS = 2 * DETECTION_HOLD_CHARS

/**
 * Applies the rules to values that are split across adjacent texts of one message. Each text was already scanned alone,
 * so only findings that cross a boundary count here.
 */
export async function screenAdjacentTexts(
  promptText: PromptText,
  armed: readonly ArmedDetector[],
  pseudonyms: Pseudonyms | undefined,
  pacer: Pacer,
): Promise<{ promptText: PromptText; hits: GuardHit[]; isBlocked: boolean }> {
  const runs: (readonly string[])[] = []
  mapAdjacentTexts(promptText, (texts) => {
    runs.push(texts)
    return texts
  })
  const hits: GuardHit[] = []
  let isBlocked = false
  const rewritten: (readonly string[])[] = []
  for (const texts of runs) {
    const whole = texts.join('')
    const findings = await findAcross(whole, seamsOf(texts), armed, pacer)
    countHits(hits, findings)
    const redactions = toRedactions(findings)
    isBlocked ||= redactions.some(({ action }) => action === 'block')
    const edits = redactions.map((redaction) => toEdit(redaction, whole, pseudonyms))
    rewritten.push(edits.length === 0 ? texts : editEach(texts, edits))
  }
  let at = 0
  const changes = rewritten.some((texts, run) => texts !== runs[run])
  return {
    promptText: changes ? mapAdjacentTexts(promptText, () => rewritten[at++] ?? []) : promptText,
    hits,
    isBlocked,
  }
}

/** Returns the offset of each text except the first. */
function seamsOf(texts: readonly string[]): number[] {
  let end = 0
  return texts.slice(0, -1).map(({ length }) => {
    end += length
    return end
  })
}

async function findAcross(
  whole: string,
  seams: readonly number[],
  armed: readonly ArmedDetector[],
  pacer: Pacer,
): Promise<ActedFinding[]> {
  const found: ActedFinding[] = []
  for (let first = 0; first < seams.length; ) {
    const start = Math.max(0, (seams[first] as number) - DETECTION_HOLD_CHARS)
    const near = seams
      .slice(first, first + PIECE_CHARS)
      .filter((seam) => seam + DETECTION_HOLD_CHARS <= start + PIECE_CHARS)
    const end = (near.at(-1) as number) + DETECTION_HOLD_CHARS
    const all = await runInSlices(finding(whole.slice(start, end), armed, pacer), pacer)
    const placed = all.map((one) => ({ ...one, start: one.start + start, end: one.end + start }))
    appendTo(
      found,
      placed.filter((one) => near.some((seam) => one.start < seam && seam < one.end)),
    )
    first += near.length
  }
  return found
}

/**
 * Applies the edits to each text. If a value spans several texts, its replacement is inserted into the text in which
 * the value begins.
 */
function editEach(texts: readonly string[], edits: readonly Edit[]): string[] {
  let end = 0
  let next = 0
  return texts.map((text) => {
    const start = end
    end += text.length
    const own: Edit[] = []
    for (let edit = edits[next]; edit && edit.start < end; edit = edits[++next]) {
      const isBegun = edit.start < start
      own.push({
        start: isBegun ? 0 : edit.start - start,
        end: Math.min(edit.end, end) - start,
        text: isBegun ? '' : edit.text,
      })
      if (edit.end > end) break
    }
    return applyEdits(text, own)
  })
}
