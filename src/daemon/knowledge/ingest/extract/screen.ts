import { LRUCache } from 'lru-cache'
import type { Pacer } from '../../../platform/pacing.ts'
import { armForText } from '../../../safety/guards/documents.ts'
import { screenMarked, screenPaced } from '../../../safety/guards/paced.ts'
import type { ArmedDetector, GuardHit, Screened } from '../../../safety/guards/redaction.ts'
import { armSources } from '../../../safety/guards/rules-in-force.ts'
import type { Extracted } from './extract.ts'
import { blockedBy, UnreadableDocument } from './unreadable.ts'

const RULES_KEPT = 20
/** Detectors by the RuleSources that they were made of. */
const armed = new LRUCache<string, ArmedDetector[]>({ max: RULES_KEPT })

function armedBy(rules: string): ArmedDetector[] {
  const known = armed.get(rules)
  if (known) return known
  const made = armForText(armSources(JSON.parse(rules), 'input'))
  armed.set(rules, made)
  return made
}

/** This thread need not yield; its process is ended when a file takes too long. */
const WITHOUT_PACING: Pacer = { turn: () => undefined, spend: () => true }

/**
 * Applies the rules to the text of a file before it is cut into passages, so that no match is split.
 * @param rules RuleSources in JSON
 * @param hits the hits are added to it
 * @throws UnreadableDocument when a rule blocks the document, or removes all of its words
 */
export async function screenExtracted(extracted: Extracted, rules: string, hits: GuardHit[]): Promise<Extracted> {
  const detectors = armedBy(rules)
  const title = await screenPaced(extracted.title, 'text', detectors, undefined, WITHOUT_PACING)
  const text = await screenPages(extracted, detectors)
  hits.push(...title.hits, ...text.hits)
  if (title.isBlocked || text.isBlocked) throw blockedBy(hits)
  if (!/[\p{L}\p{N}]/u.test(text.text)) {
    throw new UnreadableDocument('The rules in force leave no word of this document.')
  }
  return { ...extracted, title: title.text, text: text.text, ...(text.marks && { pageStarts: text.marks }) }
}

/** `marks`: the offsets of the pages after screening, in a text with pages. */
type Paged = Screened & { marks?: readonly number[] }

const screenPages = ({ text, pageStarts }: Extracted, detectors: ArmedDetector[]): Paged | Promise<Paged> =>
  pageStarts
    ? screenMarked(text, detectors, pageStarts)
    : screenPaced(text, 'text', detectors, undefined, WITHOUT_PACING)
