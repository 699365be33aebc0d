// Applies the `input` rules to stored documents. A pseudonym can be reversed only in the response to the request for
// which it was created. Values that a rule tokenizes are therefore stored unchanged. Such values are tokenized when a
// prompt includes them.

import { hash, type KeyObject } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { appendTo } from '../../../shared/lists.ts'
import type { PolicyAction } from '../../../shared/wire/policies.ts'
import type { Pacer } from '../../platform/pacing.ts'
import type { RuleIncident } from '../incidents/incident.ts'
import { screenInSlices, screenWithOffsets } from './long-text.ts'
import type { ArmedRules } from './plan.ts'
import { createPseudonyms } from './pseudonyms.ts'
import {
  type ArmedDetector,
  type Found,
  type GuardHit,
  isOverThreshold,
  type Screened,
  screenText,
} from './redaction.ts'
import { armSources, type RulesInForce } from './rules-in-force.ts'

/** Applies the rules of a training run to the run's documents, and counts the hits. */
export type DocumentScreening = {
  /** The rules as JSON for `screenDocument` in another process. Undefined if there are no rules. */
  rules: string | undefined
  /** The hash of the rules. It shows whether stored texts may be outdated. Empty if the rules leave texts unchanged. */
  rulesHash: readonly string[]
  /** Screens the name of a document and counts its hits. */
  name(name: string): Screened
  /** Adds the hits of a text to the counts. */
  add(hits: readonly GuardHit[]): void
  /** Returns one incident for each rule that has had hits so far. */
  incidents(): RuleIncident[]
}

/** @param pseudonymKey the key in `Guards` */
export function createDocumentScreening(
  { input, sources }: RulesInForce,
  tenantId: string,
  { pseudonymKey }: { pseudonymKey: KeyObject },
): DocumentScreening {
  const forText = armForText(input)
  const forName = armForName(input)
  const rules = forText.length > 0 ? JSON.stringify(sources) : undefined
  const changesText = forText.some(({ actionOf, blockAt }) => actionOf('') !== 'log' || blockAt !== undefined)
  const hits: GuardHit[] = []
  return {
    rules,
    rulesHash: rules !== undefined && changesText ? [hash('sha256', rules)] : [],
    name(name) {
      // Pseudonyms depend only on this name, so that a later upload with the same name replaces this document.
      const pseudonyms = createPseudonyms({ key: pseudonymKey, tenantId, texts: [] })
      const screened = screenText(name, 'text', forName, pseudonyms)
      appendTo(hits, screened.hits)
      return screened
    },
    add: (found) => void appendTo(hits, found),
    incidents: () => input.incidentsOf(hits, 'input'),
  }
}

const RULES_KEPT = 20
/** Detectors, cached by the rules from which they were created. */
const armedByRules = new LRUCache<string, ArmedDetector[]>({ max: RULES_KEPT })

function armedBy(rules: string): ArmedDetector[] {
  const known = armedByRules.get(rules)
  if (known) return known
  const made = armForText(armSources(JSON.parse(rules), 'input'))
  armedByRules.set(rules, made)
  return made
}

/** A pacer that never yields. A worker thread need not yield: if a file takes too long, its process is killed. */
const WITHOUT_PACING: Pacer = { turn: () => undefined, spend: () => true }

/** `pageStarts`: the offset of each page, for a text with pages. */
export type DocumentText = { title: string; text: string; pageStarts?: readonly number[] }

/**
 * Screens the text of a document in a worker thread. Call it before splitting the text into passages, because a split
 * could divide a match.
 * @param rules the rules in `DocumentScreening`
 * @returns the screened document. If `isBlocked`, the document must not be stored.
 */
export async function screenDocument(
  { title, text, pageStarts }: DocumentText,
  rules: string,
): Promise<DocumentText & { hits: GuardHit[]; isBlocked: boolean }> {
  const armed = armedBy(rules)
  const name = await screenInSlices(title, 'text', armed, undefined, WITHOUT_PACING)
  const body: Screened & { marks?: readonly number[] } = pageStarts
    ? await screenWithOffsets(text, armed, pageStarts)
    : await screenInSlices(text, 'text', armed, undefined, WITHOUT_PACING)
  const hits = [...name.hits, ...body.hits]
  return {
    title: name.text,
    text: body.text,
    ...(body.marks && { pageStarts: body.marks }),
    hits,
    isBlocked: name.isBlocked || body.isBlocked || isOverThreshold(hits, armed),
  }
}

/** Returns the detectors for a document's text. */
export const armForText = (rules: ArmedRules): ArmedDetector[] =>
  armWith(rules, (action) => (action === 'tokenize' ? 'log' : action))

/**
 * Returns the detectors for a document's name. Each value in a name gets its own pseudonym. With masks, two names could
 * become equal, and one document would replace the other.
 */
export const armForName = (rules: ArmedRules): ArmedDetector[] =>
  armWith(rules, (action) => IN_NAMES[action]).map(withFileNames)

const IN_NAMES = {
  log: 'log',
  mask: 'tokenize',
  remove: 'tokenize',
  tokenize: 'log',
  block: 'block',
} as const satisfies Record<PolicyAction, PolicyAction>

const armWith = ({ acting, watching }: ArmedRules, toAction: (action: PolicyAction) => PolicyAction): ArmedDetector[] =>
  [...acting, ...watching].map((armed) => ({ ...armed, actionOf: (type) => toAction(armed.actionOf(type)) }))

/** Also finds a value that a file extension follows, such as the address in `ada@example.com.txt`. */
export const withFileNames = (armed: ArmedDetector): ArmedDetector => {
  const { slowly: _, ...detector } = armed.detector
  function find(name: string): Found[] {
    const whole = detector.find(name)
    const dot = name.lastIndexOf('.')
    if (dot <= 0) return whole
    const apart = detector.find(`${name.slice(0, dot)} ${name.slice(dot + 1)}`)
    return [...whole, ...apart.filter(({ start, end }) => !whole.some((one) => one.start < end && start < one.end))]
  }
  return { ...armed, detector: { ...detector, find } }
}
