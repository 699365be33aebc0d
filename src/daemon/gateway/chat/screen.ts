import { newTraceId } from '../../../shared/ids.ts'
import type { Clock } from '../../../shared/time.ts'
import { type Message, textOf } from '../../models/conversation.ts'
import type { RequestContext } from '../../platform/http/route.ts'
import type { Ledger } from '../../records/ledger/ledger.ts'
import type { Guards } from '../../safety/guards/guards.ts'
import {
  contentBlocked,
  type GuardedRequest,
  inspectRequest,
  promptBlocked,
} from '../../safety/guards/request/request-screening.ts'
import { addIncidents, type GuardIncident, type IncidentOrigin } from '../../safety/incidents/incident.ts'
import type { Admitted } from './admit.ts'
import type { Evidence } from './evidence.ts'
import type { Surface } from './surface.ts'

/** A request after input screening, with redactions applied. */
export type Screened = Admitted &
  GuardedRequest & {
    /** The unredacted messages. Only the local search uses them. They are never sent to a model. */
    asSent: readonly Message[]
    /** The origin that is recorded with incidents. */
    origin: IncidentOrigin
    /** The evidence of this request. */
    evidence: Evidence
    /** Number of tool results that were replaced by a notice. */
    withheldToolResults: number
  }

export type ScreenDeps = { guards: Guards; ledger: Ledger; clock: Clock }

/**
 * Runs DLP, PII rules and the prompt shield on all texts of the request. Redacts the texts or rejects the request.
 * Incidents are durable before the request continues. The incidents of a rejected request are committed with its
 * evidence.
 * @throws CONTENT_BLOCKED, PROMPT_BLOCKED; SHIELD_UNAVAILABLE if the shield cannot decide
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
  const promptText = { system: conversation.system, messages: conversation.messages, options }
  const inspection = await inspectRequest(promptText, { policy, shield, caller, signal }, guards)
  const { redacted, isBlocked, incidents, attack, results, rules, pseudonyms, canaries, scanTerms } = inspection
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
  const system = canaries ? joined(redacted.system, canaries.instruction) : redacted.system
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

/** Records which guards inspect this request or its answer. */
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

/** Returns the texts of the user's turns, oldest first. */
export const turnsOf = (messages: readonly Message[]): string[] =>
  messages.filter(({ role }) => role === 'user').map(({ content }) => textOf(content))

/** Commits incidents, so that they are durable before the request continues. */
export async function record(
  incidents: readonly GuardIncident[],
  origin: IncidentOrigin,
  { ledger, clock }: Pick<ScreenDeps, 'ledger' | 'clock'>,
): Promise<void> {
  if (incidents.length > 0) await ledger.commit(addIncidents({}, incidents, origin, clock.now()))
}
