// Applies the rules and the prompt shield to passages of documents: before a model reads them, and before a search
// shows them.
import { appendTo } from '../../../shared/lists.ts'
import { createPacer, type Pacer } from '../../platform/pacing.ts'
import type { GuardIncident, RuleIncident } from '../incidents/incident.ts'
import { type ShieldIncident, shieldIncident, worstScan } from '../prompt-shield/scanner.ts'
import { withFileNames } from './documents.ts'
import type { Guards } from './guards.ts'
import type { Pseudonyms } from './pseudonyms.ts'
import { type GuardHit, isOverThreshold } from './redaction.ts'
import type { GuardedRequest } from './request/request-screening.ts'
import type { RulesInForce } from './rules-in-force.ts'
import type { ShieldScan } from './shield/scan.ts'

/** The text fields of a passage. A document without a title uses its file name as the title. */
type Passage = { source: string; title: string; headings: string; body: string }

/**
 * Applies the `output` rules to the passages that a search shows. Removes passages that a rule blocks. The action
 * `tokenize` masks values here, because a search has no model response in which pseudonyms could be reversed.
 */
export async function screenShownPassages<P extends Passage>(
  passages: readonly P[],
  rules: RulesInForce,
): Promise<{ kept: P[]; incidents: RuleIncident[] }> {
  // Headings are not screened, because the search does not show them.
  const { kept, hits } = await redactPassages(passages, ['source', 'title', 'body'], 'output', { rules })
  return { kept, incidents: rules.output.incidentsOf(hits, 'output') }
}

/**
 * Screens retrieved passages before a model reads them. Redacts them by the `input` rules. Removes passages that a rule
 * blocks, and passages that try to instruct the model.
 */
export async function screenRetrievedPassages<P extends Passage>(
  passages: readonly P[],
  request: GuardedRequest,
  guards: Pick<Guards, 'scanner'>,
): Promise<{ kept: readonly P[]; incidents: GuardIncident[] }> {
  const { rules, pseudonyms, scanTerms } = request
  const terms = { rules, pseudonyms, pacer: scanTerms.pacer }
  const { kept, hits } = await redactPassages(passages, TEXTS, 'input', terms)
  const incidents: GuardIncident[] = rules.input.incidentsOf(hits, 'retrieved')
  const { harmless, attack } = await withoutAttacks(kept, request, guards)
  return { kept: harmless, incidents: attack ? [...incidents, attack] : incidents }
}

const TEXTS = ['source', 'title', 'headings', 'body'] as const

async function redactPassages<P extends Passage>(
  passages: readonly P[],
  texts: readonly (keyof Passage)[],
  direction: 'input' | 'output',
  {
    rules,
    pseudonyms,
    pacer = createPacer(),
  }: { rules: RulesInForce; pseudonyms?: Pseudonyms | undefined; pacer?: Pacer },
): Promise<{ kept: P[]; hits: GuardHit[] }> {
  const { acting, watching } = rules[direction]
  const armed = [...acting, ...watching]
  if (armed.length === 0) return { kept: [...passages], hits: [] }
  const armedForNames = armed.map(withFileNames)
  const armedFor = { source: armedForNames, title: armedForNames, headings: armed, body: armed }
  const hits: GuardHit[] = []
  const kept: P[] = []
  for (const passage of passages) {
    const redacted = { ...passage }
    const own: GuardHit[] = []
    let isBlocked = false
    for (const name of texts) {
      const screened = await rules.cleanTexts.screenInSlices(passage[name], 'text', armedFor[name], pseudonyms, pacer)
      Object.assign(redacted, { [name]: screened.text })
      appendTo(own, screened.hits)
      isBlocked ||= screened.isBlocked
    }
    appendTo(hits, own)
    isBlocked ||= isOverThreshold(own, acting)
    if (!isBlocked) kept.push(redacted)
  }
  return { kept, hits }
}

/** Returns the passages that the shield allows, and the worst finding. */
async function withoutAttacks<P extends Passage>(
  passages: readonly P[],
  { shield, scanTerms }: GuardedRequest,
  { scanner }: Pick<Guards, 'scanner'>,
): Promise<{ harmless: readonly P[]; attack: ShieldIncident | undefined }> {
  if (!shield?.document.scanRetrieved) return { harmless: passages, attack: undefined }
  const texts = passages.map((passage) => ({
    text: TEXTS.map((name) => passage[name]).join('\n'),
    source: 'retrieved' as const,
  }))
  const scans = await scanner.scanEach(texts, shield.document, scanTerms)
  const isWithheld = (scan: ShieldScan | undefined) => {
    const found = shieldIncident(scan, shield, 'retrieved')
    return found?.action === 'block' && found.enforced
  }
  return {
    harmless: passages.filter((_, at) => !isWithheld(scans[at])),
    attack: shieldIncident(worstScan(scans), shield, 'retrieved'),
  }
}
