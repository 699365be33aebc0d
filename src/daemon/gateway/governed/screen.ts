import { newTraceId } from '../../../shared/ids.ts'
import type { Clock } from '../../../shared/time.ts'
import { withSystemText } from '../../models/conversation.ts'
import type { Guards } from '../../safety/guards/guards.ts'
import {
  contentBlocked,
  type GuardedRequest,
  inspectRequest,
  promptBlocked,
} from '../../safety/guards/request/request-screening.ts'
import { type IncidentOrigin, incidentRecords } from '../../safety/incidents/incident.ts'
import type { Admitted } from './admit.ts'
import type { GovernedInput } from './input.ts'
import type { Facts, Stage, Trail } from './trail.ts'

/** A request after input screening, with redactions applied. */
export type Screened<Input extends GovernedInput = GovernedInput> = Admitted & {
  input: Input
  /** The redacted texts. Models receive only these texts. */
  conversation: GovernedInput['conversation']
  options: GovernedInput['options']
  /** The data that the guards of passages and of the result need. */
  guarded: GuardedRequest
  /** The origin that is recorded with incidents. */
  origin: IncidentOrigin
  /** The number of tool results that were replaced by a notice. */
  withheldToolResults: number
}

/**
 * Runs DLP, PII rules and the prompt shield on all texts of the request. Redacts the texts, or rejects the request with
 * CONTENT_BLOCKED or PROMPT_BLOCKED.
 * @throws SHIELD_UNAVAILABLE or SCAN_FAILED if the shield cannot decide
 */
export async function screen<Input extends GovernedInput>(
  input: Input,
  admitted: Admitted,
  { requestId, path, signal }: { requestId: string; path: string; signal: AbortSignal },
  { guards, clock }: { guards: Guards; clock: Clock },
): Promise<Stage<Screened<Input>>> {
  const { caller, payer, conversationId, chain, index, policy, shield } = admitted
  const { conversation, options } = input
  const traceId = newTraceId()
  const { canonical } = policy
  const origin = { caller, requestId, endpoint: path, traceId, policy: canonical, conversationId, model: null }
  const promptText = { system: conversation.system, messages: conversation.messages, options }
  const guarded = await inspectRequest(promptText, { policy, shield, caller, signal }, guards)
  const { redacted, isBlocked, incidents, attack, results, rules, canaries } = guarded
  const found = [...incidents, ...(attack ? [attack] : []), ...(results?.unreported ?? [])]
  const facts: Facts = {
    inspectors: inspectorsOf({ rules, policy, isShielded: shield !== undefined && !isBlocked }),
    incidents: [...incidents, ...[attack, results?.worst].filter((one) => one !== undefined)],
    found: found.length === 0 ? [] : [incidentRecords(found, origin, clock.now())],
  }
  if (isBlocked) return { facts, refusal: { error: contentBlocked(incidents, traceId) } }
  if (attack?.enforced && attack.action === 'block')
    return { facts, refusal: { error: promptBlocked(attack.category, traceId) } }
  return {
    facts: results ? { ...facts, whenDurable: [results.markReported] } : facts,
    value: {
      input,
      caller,
      payer,
      conversationId,
      chain,
      index,
      policy,
      shield,
      conversation: {
        system: canaries ? withSystemText(redacted.system, canaries.instruction) : redacted.system,
        messages: results ? results.withhold(redacted.messages) : redacted.messages,
      },
      options: redacted.options,
      guarded,
      origin,
      withheldToolResults: results?.withheld ?? 0,
    },
  }
}

/** The guards that inspect this request or its result. */
function inspectorsOf({
  rules,
  policy,
  isShielded,
}: Pick<GuardedRequest, 'rules' | 'policy'> & { isShielded: boolean }): Trail['inspectors'] {
  const { own } = rules.sources
  const { dlp, pii, canary } = policy.document
  return {
    canary: canary.enabled,
    dlp: dlp.enabled || own.some(({ kind, enabled }) => enabled && kind === 'dlp'),
    pii: pii.enabled || own.some(({ kind, enabled }) => enabled && kind === 'pii'),
    policy: true,
    prompt_shield: isShielded,
  }
}
