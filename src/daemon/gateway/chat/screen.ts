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
import type { Said } from './prompt-text.ts'
import { screenNames } from './screen-names.ts'
import { screenNeighbours } from './screen-neighbours.ts'
import type { Surface } from './surface.ts'
import { judgeToolResults, type ToolResult } from './tool-results.ts'

/** A request whose guards have seen what was said. What they changed is changed in it. */
export type Screened = Admitted & {
  /** The rules that hold, also for what is retrieved and answered. */
  rules: RulesInForce
  /** What stands for values on their way to the model; undefined where no rule asks for any. */
  pseudonyms: Pseudonyms | undefined
  /** What the answer must not give away, today's first; undefined where the policy asks for none. */
  canaries: readonly [Canary, ...Canary[]] | undefined
  /** The messages as they were sent: for a search in this process, where no model reads them. */
  asSent: readonly Message[]
  /** The system prompt without what we put into it. */
  instructions: string
  /** For scans of the shield. */
  scanTerms: ScanTerms & { pacer: Pacer }
  /** Who incidents are about. */
  origin: IncidentOrigin
  /** What the request leaves. */
  evidence: Evidence
  /** How many tool results were replaced by a notice. */
  withheldToolResults: number
}

export type ScreenDeps = { guards: Guards; ledger: Ledger; clock: Clock }

/**
 * DLP, PII and prompt shield on everything that was said (architecture §3): redacts it, or refuses the request. What was
 * found is durable before the request goes on; of a refusal, it is in the evidence that goes before that.
 * @throws CONTENT_BLOCKED, PROMPT_BLOCKED; SHIELD_UNAVAILABLE when the shield cannot say anything
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
  const said = { system: conversation.system, messages: conversation.messages, options }
  const pseudonyms = pseudonymsFor(said, rules, caller.tenantId, guards)

  const pacer = createPacer()
  const { said: redacted, hits, isBlocked } = await redact(said, rules, pseudonyms, pacer)
  const incidents = rules.input.incidentsOf(hits, 'input')
  // The shield sees what a model would see, for it may ask one.
  const scanTerms = { tenantId: caller.tenantId, mayAsk: mayAskUnder(policy), signal, pacer }
  const scan = isBlocked || !shield ? undefined : await scanSaid(redacted, shield, guards, scanTerms)
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
  // Member by member: spreading an object of this size costs as much as a tenth of the whole request.
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

/** Who looks at this request, or at its answer. */
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

/** Undefined where no rule asks for any. */
export const pseudonymsFor = (
  said: Said,
  rules: RulesInForce,
  tenantId: string,
  { pseudonymKey: key }: Pick<Guards, 'pseudonymKey'>,
): Pseudonyms | undefined =>
  isAnyTokenized(rules) ? createPseudonyms({ key, tenantId, texts: slotsOf(said).map(textOfSlot) }) : undefined

const isAnyTokenized = ({ input, output }: RulesInForce): boolean =>
  input.acting.some(tokenizes) || output.acting.some(tokenizes)

const tokenizes = ({ actionOf }: ArmedDetector): boolean => actionOf('') === 'tokenize'

/** Does what the rules ask about everything that was said. @param pacer of the request */
export async function redact(
  said: Said,
  rules: RulesInForce,
  pseudonyms: Pseudonyms | undefined,
  pacer: Pacer = createPacer(),
): Promise<{ said: Said; hits: GuardHit[]; isBlocked: boolean }> {
  const { acting, watching } = rules.input
  const armed = acting.length > 0 ? [...acting, ...watching] : watching
  const hits: GuardHit[] = []
  if (armed.length === 0) return { said, hits, isBlocked: false }
  const names = await screenNames(said, rules.input, pacer)
  hits.push(...names.hits)
  let { isBlocked } = names
  const texts: string[] = []
  let isChanged = false
  for (const { text, format } of slotsOf(names.said)) {
    const seen = rules.cleanTexts.screenPaced(text, format, armed, pseudonyms, pacer)
    const screened = seen instanceof Promise ? await seen : seen
    hits.push(...screened.hits)
    isBlocked ||= screened.isBlocked
    isChanged ||= screened.text !== text
    texts.push(screened.text)
  }
  let at = 0
  const each = isChanged ? mapTexts(names.said, () => texts[at++] as string) : names.said
  const together = await screenNeighbours(each, armed, pseudonyms, pacer)
  hits.push(...together.hits)
  return { said: together.said, hits, isBlocked: isBlocked || together.isBlocked }
}

/** What the shield says of everything that was said. */
export type SaidScan = {
  /** The worst of what users and assistants say; undefined when they say nothing. */
  spoken: ShieldScan | undefined
  /** The worst of each tool result that has text. */
  toolResults: ReadonlyMap<ToolResult, ShieldScan>
}

/** Scans everything that was said. Undefined without a shield. */
export async function scanSaid(
  said: Said,
  shield: AppliedShield | undefined,
  { scanner }: Pick<Guards, 'scanner'>,
  terms: ScanTerms,
): Promise<SaidScan | undefined> {
  if (!shield) return undefined
  const { scanInput, scanRetrieved } = shield.document
  // Whoever writes the system prompt and describes the tools runs the application; the rest may come from anyone.
  const people = scanInput ? slotsOf(said).filter(({ from }) => from === 'user' || from === 'assistant') : []
  const spoken = [...people.map(textOfSlot), ...inInstalments(people)]
  const tools = scanRetrieved ? said.messages.filter(isToolResult).flatMap(textsOfResult) : []
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

/** An attack may be said piece by piece: what the user said last, read together. */
function inInstalments(slots: readonly Slot[]): string[] {
  const texts = slots.filter(({ from }) => from === 'user').map(textOfSlot)
  return texts.length > 1 ? [joinTurns(texts)] : []
}

/** Makes durable what guards have found before anything else happens. */
export async function record(
  incidents: readonly GuardIncident[],
  origin: IncidentOrigin,
  { ledger, clock }: Pick<ScreenDeps, 'ledger' | 'clock'>,
): Promise<void> {
  if (incidents.length > 0) await ledger.commit(addIncidents({}, incidents, origin, clock.now()))
}

/** What is told of a refusal by DLP or PII rules: which sort of thing, never what. @param traceId of a request that was real */
export function contentBlocked(incidents: readonly RuleIncident[], traceId?: string): GatewayError {
  const acting = incidents.filter(({ action, enforced }) => enforced && action !== 'log')
  const asked = acting.filter(({ action }) => action === 'block')
  // Of names, which cannot be changed, those that were to be are refused too.
  const blocking = asked.length > 0 ? asked : acting
  const types = [...new Set(blocking.flatMap(({ types }) => Object.keys(types)))]
  return new GatewayError(
    'CONTENT_BLOCKED',
    `The request holds what a rule does not let through (${types.join(', ')}); leave it out and ask again.`,
    { extra: { verdict: 'BLOCK', attack_category: null, trace_id: traceId } },
  )
}

/** What is told of a refusal by the prompt shield. */
export const promptBlocked = (category: string | null, traceId?: string): GatewayError =>
  new GatewayError(
    'PROMPT_BLOCKED',
    'The prompt shield took this request for an attack. If it is none, say it in other words.',
    { extra: { verdict: 'BLOCK', attack_category: category, trace_id: traceId } },
  )
