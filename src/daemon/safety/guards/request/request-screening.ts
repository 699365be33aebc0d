// Runs the guards of a request: the rules of the policy and the tenant on every text and name, then the prompt shield.

import { GatewayError } from '../../../../shared/errors.ts'
import { appendTo } from '../../../../shared/lists.ts'
import { systemText } from '../../../models/conversation.ts'
import type { Caller } from '../../../platform/http/caller.ts'
import { createPacer, type Pacer } from '../../../platform/pacing.ts'
import type { RuleIncident } from '../../incidents/incident.ts'
import { mayCallUnder } from '../../policies/enforce.ts'
import type { AppliedPolicy } from '../../policies/policies.ts'
import type { AppliedShield } from '../../prompt-shield/resolve.ts'
import { type ScanTerms, type ShieldIncident, shieldIncident, worstScan } from '../../prompt-shield/scanner.ts'
import type { Canaries } from '../canary/marker.ts'
import type { Guards } from '../guards.ts'
import { createPseudonyms, type Pseudonyms } from '../pseudonyms.ts'
import { type ArmedDetector, type GuardHit, isOverThreshold } from '../redaction.ts'
import type { RulesInForce } from '../rules-in-force.ts'
import { joinTurns } from '../shield/conversation.ts'
import type { ShieldScan } from '../shield/scan.ts'
import { screenAdjacentTexts } from './adjacent-texts.ts'
import { screenNames } from './names.ts'
import { mapTexts, type PromptText, type Slot, slotsOf } from './text-slots.ts'
import { type JudgedTools, judgeTools } from './tool-definitions.ts'
import { type Fetched, fetchedIn, type JudgedResults, judgeToolResults, spokenIn } from './tool-results.ts'

/** A screened request, and the data that the guards of its passages and its response need. */
export type GuardedRequest = {
  policy: AppliedPolicy
  /** Undefined if no prompt shield applies. */
  shield: AppliedShield | undefined
  /** The rules in force. These rules also apply to passages and the response. */
  rules: RulesInForce
  /** The pseudonyms that replace values sent to the model. Undefined if no rule tokenizes. */
  pseudonyms: Pseudonyms | undefined
  /** The canaries that the response must not leak. Undefined if the policy disables them. */
  canaries: Canaries | undefined
  /** The system prompt without the text that the gateway adds. */
  instructions: string
  options: PromptText['options']
  /** The redacted texts, with which the answer is compared. */
  redacted: PromptText
  /** The parameters of the shield's scans. */
  scanTerms: ScanTerms & { pacer: Pacer }
}

/** The result of the guards. Nothing is recorded yet. */
export type Inspection = GuardedRequest & {
  /** True if a rule blocks the request. */
  isBlocked: boolean
  /** The incidents of the rules. */
  incidents: RuleIncident[]
  /** The attack that the shield found in user and assistant texts. */
  attack: ShieldIncident | undefined
  /** The attacks that the shield found in tool results and documents. Undefined if they were not scanned. */
  results: JudgedResults | undefined
  /** The attacks in definitions of tools. Undefined if there are none. */
  tools: JudgedTools | undefined
}

/**
 * Runs the rules and the prompt shield on all texts of a request. The shield scans the redacted text, because it may
 * send this text to a judge model.
 * @throws SHIELD_UNAVAILABLE or SCAN_FAILED if the shield cannot reach a decision
 */
export async function inspectRequest(
  promptText: PromptText,
  {
    policy,
    shield,
    caller,
    signal,
  }: Pick<GuardedRequest, 'policy' | 'shield'> & { caller: Caller; signal: AbortSignal },
  guards: Guards,
): Promise<Inspection> {
  const { tenantId, keyId } = caller
  const rules = await guards.rulesFor(tenantId, policy)
  const pseudonyms = pseudonymsFor(promptText, rules, tenantId, guards)
  const pacer = createPacer()
  const { promptText: redacted, hits, isBlocked } = await redact(promptText, rules, pseudonyms, pacer)
  const scanTerms = { tenantId, mayCall: mayCallUnder(policy), signal, pacer }
  const scan = isBlocked || !shield ? undefined : await scanPromptText(redacted, shield, guards, scanTerms)
  const tools =
    shield && scan && redacted.options
      ? await judgeTools(redacted.options, shield, keyId, { known: guards.knownDefinitions, pacer })
      : undefined
  return {
    policy,
    shield,
    rules,
    pseudonyms,
    canaries: policy.document.canary.enabled ? guards.canariesOf(keyId) : undefined,
    instructions: systemText(redacted.system),
    options: redacted.options,
    scanTerms,
    redacted,
    isBlocked,
    incidents: rules.input.incidentsOf(hits, 'input'),
    attack: shield && shieldIncident(scan?.spoken, shield, 'input'),
    results: shield && scan && judgeToolResults(scan.fetched, shield, keyId, guards.reportedResults),
    tools,
  }
}

const textOfSlot = ({ text }: Slot): string => text

/** Creates the pseudonyms for a request. Returns undefined if no rule tokenizes. */
export const pseudonymsFor = (
  promptText: PromptText,
  rules: RulesInForce,
  tenantId: string,
  { pseudonymKey: key }: Pick<Guards, 'pseudonymKey'>,
): Pseudonyms | undefined =>
  isAnyTokenized(rules) ? createPseudonyms({ key, tenantId, texts: slotsOf(promptText).map(textOfSlot) }) : undefined

const isAnyTokenized = ({ input, output }: RulesInForce): boolean =>
  input.acting.some(tokenizes) || output.acting.some(tokenizes)

const tokenizes = ({ actionOf }: ArmedDetector): boolean => actionOf('') === 'tokenize'

/** Applies the input rules to all texts and names of a request. @param pacer the pacer of the request */
export async function redact(
  promptText: PromptText,
  rules: RulesInForce,
  pseudonyms: Pseudonyms | undefined,
  pacer: Pacer = createPacer(),
): Promise<{ promptText: PromptText; hits: GuardHit[]; isBlocked: boolean }> {
  const { acting, watching } = rules.input
  const armed = acting.length > 0 ? [...acting, ...watching] : watching
  const hits: GuardHit[] = []
  if (armed.length === 0) return { promptText, hits, isBlocked: false }
  const names = await screenNames(promptText, rules.input, pacer)
  appendTo(hits, names.hits)
  let { isBlocked } = names
  const pause = pacer.turn()
  if (pause) await pause
  const texts: string[] = []
  let isChanged = false
  for (const { text, format } of slotsOf(names.promptText)) {
    const turn = pacer.turn()
    if (turn) await turn
    const screened = await rules.cleanTexts.screenInSlices(text, format, armed, pseudonyms, pacer)
    appendTo(hits, screened.hits)
    isBlocked ||= screened.isBlocked
    isChanged ||= screened.text !== text
    texts.push(screened.text)
  }
  let at = 0
  const each = isChanged ? mapTexts(names.promptText, () => texts[at++] as string) : names.promptText
  const together = await screenAdjacentTexts(each, armed, pseudonyms, pacer)
  appendTo(hits, together.hits)
  isBlocked ||= together.isBlocked || isOverThreshold(hits, acting)
  return { promptText: together.promptText, hits, isBlocked }
}

/** The scan results of a request. */
export type PromptTextScan = {
  /** The worst scan of user and assistant texts. Undefined without such texts. */
  spoken: ShieldScan | undefined
  /** The worst scan of each tool result and document that contains text. */
  fetched: ReadonlyMap<Fetched, ShieldScan>
}

/** Scans the texts of a request. Returns undefined if no shield applies. */
export async function scanPromptText(
  promptText: PromptText,
  shield: AppliedShield | undefined,
  { scanner }: Pick<Guards, 'scanner'>,
  terms: ScanTerms,
): Promise<PromptTextScan | undefined> {
  if (!shield) return undefined
  const { scanInput, scanRetrieved } = shield.document
  // System prompts are not scanned, because the application's operator writes them. `judgeTools` scans definitions.
  const said = { ...promptText, messages: spokenIn(promptText.messages) }
  const people = scanInput ? slotsOf(said).filter(({ from }) => from === 'user' || from === 'assistant') : []
  const spoken = [...people.map(textOfSlot), ...inInstalments(people)]
  const results = scanRetrieved ? fetchedIn(promptText.messages) : []
  const parts = results.flatMap((fetched) => fetched.texts.map((text) => ({ fetched, text })))
  const texts = [
    ...spoken.map((text) => ({ text, source: 'user' as const })),
    ...parts.map(({ text, fetched: { kind } }) => ({ text, source: SOURCES[kind] })),
  ]
  const scans = await scanner.scanEach(texts, shield.document, terms)
  const fetched = new Map<Fetched, ShieldScan>()
  for (const [at, part] of parts.entries()) {
    const scan = scans[spoken.length + at] as ShieldScan
    fetched.set(part.fetched, worstScan([fetched.get(part.fetched) ?? scan, scan]) as ShieldScan)
  }
  return { spoken: worstScan(scans.slice(0, spoken.length)), fetched }
}

const SOURCES = { tool: 'tool', document: 'retrieved' } as const

/**
 * Joins the user's turns. The user's turns are also scanned together, because an attack may be split over several
 * turns.
 */
function inInstalments(slots: readonly Slot[]): string[] {
  const texts = slots.filter(({ from }) => from === 'user').map(textOfSlot)
  return texts.length > 1 ? [joinTurns(texts)] : []
}

/**
 * Returns the error for a request that DLP or PII rules block. The error names the finding types, never the values.
 * @param traceId the trace id of the request; undefined in a dry run
 */
export function contentBlocked(incidents: readonly RuleIncident[], traceId?: string): GatewayError {
  const acting = incidents.filter(({ action, enforced }) => enforced && action !== 'log')
  const asked = acting.filter(({ action }) => action === 'block')
  // If no rule has the action `block`, the request was blocked by a name that needs redaction: names cannot be
  // redacted.
  const blocking = asked.length > 0 ? asked : acting
  const types = [...new Set(blocking.flatMap(({ types }) => Object.keys(types)))]
  return new GatewayError(
    'CONTENT_BLOCKED',
    `Blocked: the request contains data that a rule forbids (${types.join(', ')}). Remove it and retry.`,
    { extra: { verdict: 'BLOCK', attack_category: null, trace_id: traceId } },
  )
}

/** Returns the error for a request that the prompt shield blocks. */
export const promptBlocked = (category: string | null, traceId?: string): GatewayError =>
  new GatewayError(
    'PROMPT_BLOCKED',
    'Blocked: the prompt shield classified this request as an attack. If it is not one, rephrase it and retry.',
    { extra: { verdict: 'BLOCK', attack_category: category, trace_id: traceId } },
  )
