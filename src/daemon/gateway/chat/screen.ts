import { GatewayError } from '../../../shared/errors.ts'
import { newTraceId } from '../../../shared/ids.ts'
import type { Clock } from '../../../shared/time.ts'
import { type Message, textOf } from '../../models/conversation.ts'
import type { RequestContext } from '../../platform/http/route.ts'
import { createPacer, type Pacer } from '../../platform/pacing.ts'
import type { Ledger } from '../../records/ledger/ledger.ts'
import { type Canary, canaryInstruction, liveCanaries } from '../../safety/guards/canary/marker.ts'
import type { Guards } from '../../safety/guards/guards.ts'
import { createPseudonyms, type Pseudonyms } from '../../safety/guards/pseudonyms.ts'
import type { ArmedDetector, GuardHit } from '../../safety/guards/redaction.ts'
import type { RulesInForce } from '../../safety/guards/rules-in-force.ts'
import { joinTurns } from '../../safety/guards/shield/conversation.ts'
import type { ShieldScan } from '../../safety/guards/shield/scan.ts'
import { mapTexts, type Slot, slotsOf } from '../../safety/guards/text-slots.ts'
import {
  addIncidents,
  type GuardIncident,
  type IncidentOrigin,
  type RuleIncident,
} from '../../safety/incidents/incident.ts'
import { mayAskUnder } from '../../safety/policies/enforce.ts'
import type { AppliedShield } from '../../safety/prompt-shield/resolve.ts'
import { type ScanTerms, shieldIncident, worstScan } from '../../safety/prompt-shield/scanner.ts'
import type { Admitted } from './admit.ts'
import type { Evidence } from './evidence.ts'
import type { PromptText } from './prompt-text.ts'
import { screenAdjacentTexts } from './screen-adjacent-texts.ts'
import { screenNames } from './screen-names.ts'
import type { Surface } from './surface.ts'
import { judgeToolResults, type ToolResult } from './tool-results.ts'

/** A request after input screening, with redactions applied. */
export type Screened = Admitted & {
  /** The rules in force, also for passages and the answer. */
  rules: RulesInForce
  /** The pseudonyms that replace values sent to the model; undefined when no rule tokenizes. */
  pseudonyms: Pseudonyms | undefined
  /** The canaries that the answer must not leak, today's first; undefined when the policy disables them. */
  canaries: readonly [Canary, ...Canary[]] | undefined
  /** The unredacted messages, for the local search only: no model reads them. */
  asSent: readonly Message[]
  /** The system prompt without the gateway's additions. */
  instructions: string
  /** The terms for the shield's scans. */
  scanTerms: ScanTerms & { pacer: Pacer }
  /** The origin that incidents record. */
  origin: IncidentOrigin
  /** The evidence of the request. */
  evidence: Evidence
  /** How many tool results were replaced by a notice. */
  withheldToolResults: number
}

export type ScreenDeps = { guards: Guards; ledger: Ledger; clock: Clock }

/**
 * Runs DLP, PII rules and prompt shield on all texts of the request: redacts them, or rejects the request. Incidents are
 * durable before the request continues; those of a rejection are committed with its evidence.
 * @throws CONTENT_BLOCKED, PROMPT_BLOCKED; SHIELD_UNAVAILABLE when the shield cannot decide
 */
export async function screen(
  admitted: Admitted,
  surface: Surface,
  {
    caller,
    requestId,
    signal,
    evidence,
  }: Pick<RequestContext, 'caller' | 'requestId' | 'signal'> & { evidence: Evidence },
  deps: ScreenDeps,
): Promise<Screened> {
  const { guards, clock } = deps
  const { policy, shield, conversation, options, conversationId } = admitted
  const traceId = newTraceId()
  const { canonical } = policy
  const origin = { caller, requestId, endpoint: surface.path, traceId, policy: canonical, conversationId, model: null }
  const inForce = guards.rulesFor(caller.tenantId, policy)
  const rules = inForce instanceof Promise ? await inForce : inForce
  const promptText = { system: conversation.system, messages: conversation.messages, options }
  const pseudonyms = pseudonymsFor(promptText, rules, caller.tenantId, guards)

  const pacer = createPacer()
  const { promptText: redacted, hits, isBlocked } = await redact(promptText, rules, pseudonyms, pacer)
  const incidents = rules.input.incidentsOf(hits, 'input')
  // The shield scans the redacted text, because it may send it to a judge model.
  const scanTerms = { tenantId: caller.tenantId, mayAsk: mayAskUnder(policy), signal, pacer }
  const scan = isBlocked || !shield ? undefined : await scanPromptText(redacted, shield, guards, scanTerms)
  const attack = shield && shieldIncident(scan?.spoken, shield, 'input')
  const results = shield && scan && judgeToolResults(scan.toolResults, shield, caller.keyId, guards.reportedResults)
  const found = [...incidents, ...(attack ? [attack] : []), ...(results?.unreported ?? [])]
  noteInspectors(evidence.inspectors, { rules, policy, isShielded: shield !== undefined && !isBlocked })
  evidence.incidents.push(...incidents, ...[attack, results?.worst].filter((one) => one !== undefined))
  const refusal = isBlocked
    ? contentBlocked(incidents, traceId)
    : attack?.enforced && attack.action === 'block'
      ? promptBlocked(attack.category, traceId)
      : undefined
  if (refusal) {
    evidence.withRefusal = addIncidents(evidence.withRefusal, found, origin, clock.now())
    throw refusal
  }
  await record(found, origin, deps)
  results?.markReported()
  const canaries = policy.document.canary.enabled
    ? liveCanaries(guards.canaryKey, caller.keyId, new Date(clock.now()))
    : undefined
  const system = canaries ? joined(redacted.system, canaryInstruction(canaries[0])) : redacted.system
  // Copied member by member: spreading an object of this size costs a tenth of the whole request.
  const { payer, chain, index, useRag, temperature, temperatureIsDefault = false, maxTokens, stream } = admitted
  return {
    caller,
    payer,
    conversation: { system, messages: results ? results.withhold(redacted.messages) : redacted.messages },
    conversationId,
    chain,
    index,
    useRag,
    policy,
    shield,
    temperature,
    temperatureIsDefault,
    maxTokens,
    stream,
    options: redacted.options,
    rules,
    pseudonyms,
    canaries,
    asSent: conversation.messages,
    instructions: redacted.system,
    scanTerms,
    origin,
    evidence,
    withheldToolResults: results?.withheld ?? 0,
  }
}

/** Notes which guards inspect this request or its answer. */
function noteInspectors(
  inspectors: Evidence['inspectors'],
  { rules, policy, isShielded }: Pick<Screened, 'rules' | 'policy'> & { isShielded: boolean },
): void {
  const { own } = rules.sources
  const { dlp, pii, canary } = policy.document
  inspectors.dlp = dlp.enabled || own.some(({ kind, enabled }) => enabled && kind === 'dlp')
  inspectors.pii = pii.enabled || own.some(({ kind, enabled }) => enabled && kind === 'pii')
  inspectors.canary = canary.enabled
  inspectors.prompt_shield = isShielded
}

const joined = (...texts: string[]): string => texts.filter((text) => text !== '').join('\n\n')

const textOfSlot = ({ text }: Slot): string => text

/** The texts of the user's turns, oldest first. */
export const turnsOf = (messages: readonly Message[]): string[] =>
  messages.filter(({ role }) => role === 'user').map(({ content }) => textOf(content))

/** The pseudonyms for a request; undefined when no rule tokenizes. */
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

/** Applies the input rules to all texts and names of a request. @param pacer of the request */
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
  hits.push(...names.hits)
  let { isBlocked } = names
  const texts: string[] = []
  let isChanged = false
  for (const { text, format } of slotsOf(names.promptText)) {
    const seen = rules.cleanTexts.screenPaced(text, format, armed, pseudonyms, pacer)
    const screened = seen instanceof Promise ? await seen : seen
    hits.push(...screened.hits)
    isBlocked ||= screened.isBlocked
    isChanged ||= screened.text !== text
    texts.push(screened.text)
  }
  let at = 0
  const each = isChanged ? mapTexts(names.promptText, () => texts[at++] as string) : names.promptText
  const together = await screenAdjacentTexts(each, armed, pseudonyms, pacer)
  hits.push(...together.hits)
  return { promptText: together.promptText, hits, isBlocked: isBlocked || together.isBlocked }
}

/** The shield's findings in a request. */
export type PromptTextScan = {
  /** The worst scan of user and assistant texts; undefined without such texts. */
  spoken: ShieldScan | undefined
  /** The worst scan of each tool result with text. */
  toolResults: ReadonlyMap<ToolResult, ShieldScan>
}

/** Scans the texts of a request. Undefined without a shield. */
export async function scanPromptText(
  promptText: PromptText,
  shield: AppliedShield | undefined,
  { scanner }: Pick<Guards, 'scanner'>,
  terms: ScanTerms,
): Promise<PromptTextScan | undefined> {
  if (!shield) return undefined
  const { scanInput, scanRetrieved } = shield.document
  // System prompt and tool descriptions come from the application's operator; other texts may come from an attacker.
  const people = scanInput ? slotsOf(promptText).filter(({ from }) => from === 'user' || from === 'assistant') : []
  const spoken = [...people.map(textOfSlot), ...inInstalments(people)]
  const tools = scanRetrieved ? promptText.messages.filter(isToolResult).flatMap(textsOfResult) : []
  const texts = [
    ...spoken.map((text) => ({ text, source: 'user' as const })),
    ...tools.map(({ text }) => ({ text, source: 'tool' as const })),
  ]
  const scans = await scanner.scanEach(texts, shield.document, terms)
  const toolResults = new Map<ToolResult, ShieldScan>()
  for (const [at, { result }] of tools.entries()) {
    const scan = scans[spoken.length + at] as ShieldScan
    toolResults.set(result, worstScan([toolResults.get(result) ?? scan, scan]) as ShieldScan)
  }
  return { spoken: worstScan(scans.slice(0, spoken.length)), toolResults }
}

const isToolResult = (message: Message): message is ToolResult => message.role === 'tool'

const textsOfResult = (result: ToolResult): { result: ToolResult; text: string }[] =>
  slotsOf({ system: '', messages: [result], options: undefined }).map(({ text }) => ({ result, text }))

/** An attack may be split over several turns, so the user's turns are also scanned joined. */
function inInstalments(slots: readonly Slot[]): string[] {
  const texts = slots.filter(({ from }) => from === 'user').map(textOfSlot)
  return texts.length > 1 ? [joinTurns(texts)] : []
}

/** Commits incidents, so that they are durable before the request continues. */
export async function record(
  incidents: readonly GuardIncident[],
  origin: IncidentOrigin,
  { ledger, clock }: Pick<ScreenDeps, 'ledger' | 'clock'>,
): Promise<void> {
  if (incidents.length > 0) await ledger.commit(addIncidents({}, incidents, origin, clock.now()))
}

/** The error for a block by DLP or PII rules. Names the types, never the values. @param traceId undefined in a dry run */
export function contentBlocked(incidents: readonly RuleIncident[], traceId?: string): GatewayError {
  const acting = incidents.filter(({ action, enforced }) => enforced && action !== 'log')
  const asked = acting.filter(({ action }) => action === 'block')
  // A name cannot be redacted, so it is blocked although its rule asks for redaction only.
  const blocking = asked.length > 0 ? asked : acting
  const types = [...new Set(blocking.flatMap(({ types }) => Object.keys(types)))]
  return new GatewayError(
    'CONTENT_BLOCKED',
    `The request holds what a rule does not let through (${types.join(', ')}); leave it out and ask again.`,
    { extra: { verdict: 'BLOCK', attack_category: null, trace_id: traceId } },
  )
}

/** The error for a block by the prompt shield. */
export const promptBlocked = (category: string | null, traceId?: string): GatewayError =>
  new GatewayError(
    'PROMPT_BLOCKED',
    'The prompt shield took this request for an attack. If it is none, say it in other words.',
    { extra: { verdict: 'BLOCK', attack_category: category, trace_id: traceId } },
  )
