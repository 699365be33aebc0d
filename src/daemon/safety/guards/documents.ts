// The `input` rules on documents that are stored. A pseudonym can be reversed only in the response to the request that
// created it. So values to tokenize are stored unchanged, and tokenized on their way into a prompt.
import { hash, type KeyObject } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { PolicyAction } from '../../../shared/wire/policies.ts'
import type { Pacer } from '../../platform/pacing.ts'
import type { RuleIncident } from '../incidents/incident.ts'
import { screenInSlices, screenWithOffsets } from './long-text.ts'
import type { ArmedRules } from './plan.ts'
import { createPseudonyms } from './pseudonyms.ts'
import { type ArmedDetector, type Found, type GuardHit, type Screened, screenText } from './redaction.ts'
import { armSources, type RulesInForce } from './rules-in-force.ts'

/** Applies the rules of a training to its documents and counts their hits. */
export type DocumentScreening = {
  /** The rules as JSON for `screenDocument` in another process; undefined when there are none. */
  rules: string | undefined
  /** Differs between rules that would store different texts; empty when the rules change no text. */
  rulesHash: readonly string[]
  /** Screens the name of a document and counts the hits in it. */
  name(name: string): Screened
  /** Counts the hits in a text. */
  add(hits: readonly GuardHit[]): void
  /** One incident for each rule with hits so far. */
  incidents(): RuleIncident[]
}

/** @param pseudonymKey of `Guards` */
export function createDocumentScreening(
  { input, sources }: RulesInForce,
  tenantId: string,
  { pseudonymKey }: { pseudonymKey: KeyObject },
): DocumentScreening {
  const forText = armForText(input)
  const forName = armForName(input)
  const rules = forText.length > 0 ? JSON.stringify(sources) : undefined
  const changesText = forText.some(({ actionOf }) => actionOf('') !== 'log')
  const hits: GuardHit[] = []
  return {
    rules,
    rulesHash: rules !== undefined && changesText ? [hash('sha256', rules)] : [],
    name(name) {
      // Pseudonyms depend on this name alone: a document is found again by its name, whatever the rest of the upload
      // is.
      const pseudonyms = createPseudonyms({ key: pseudonymKey, tenantId, texts: [] })
      const screened = screenText(name, 'text', forName, pseudonyms)
      hits.push(...screened.hits)
      return screened
    },
    add: (found) => void hits.push(...found),
    incidents: () => input.incidentsOf(hits, 'input'),
  }
}

const RULES_KEPT = 20
/** Detectors by the rules that they were made of. */
const armedByRules = new LRUCache<string, ArmedDetector[]>({ max: RULES_KEPT })

function armedBy(rules: string): ArmedDetector[] {
  const known = armedByRules.get(rules)
  if (known) return known
  const made = armForText(armSources(JSON.parse(rules), 'input'))
  armedByRules.set(rules, made)
  return made
}

/** A worker thread need not yield; its process is ended when a file takes too long. */
const WITHOUT_PACING: Pacer = { turn: () => undefined, spend: () => true }

/** `pageStarts`: the offsets of its pages in a text with pages. */
export type DocumentText = { title: string; text: string; pageStarts?: readonly number[] }

/**
 * Screens the text of a document in a worker thread, before it is cut into passages, so that no match is split.
 * @param rules of `DocumentScreening`
 * @returns the screened document; it must not be stored if `isBlocked`
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
  return {
    title: name.text,
    text: body.text,
    ...(body.marks && { pageStarts: body.marks }),
    hits: [...name.hits, ...body.hits],
    isBlocked: name.isBlocked || body.isBlocked,
  }
}

/** The rules for a document's text. */
export const armForText = (rules: ArmedRules): ArmedDetector[] =>
  armWith(rules, (action) => (action === 'tokenize' ? 'log' : action))

/**
 * The rules for a document's name. A document replaces another of the same name, and two names may have the same mask.
 * So names get pseudonyms, which are the same only for the same value.
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

/** Also finds values in file names: `ada@example.com.txt` contains an address that ends before `.txt`. */
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
