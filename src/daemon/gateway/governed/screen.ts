import { newTraceId } from '../../../shared/ids.ts'
import type { Clock } from '../../../shared/time.ts'
import type { Withheld } from '../../../shared/wire/chat.ts'
import { type FilePart, type Message, type NativePart, withSystemText } from '../../models/conversation.ts'
import type { Guards } from '../../safety/guards/guards.ts'
import {
  contentBlocked,
  type GuardedRequest,
  inspectRequest,
  promptBlocked,
} from '../../safety/guards/request/request-screening.ts'
import { type IncidentOrigin, incidentRecords } from '../../safety/incidents/incident.ts'
import { enforceUses } from '../../safety/policies/enforce.ts'
import type { Admitted } from './admit.ts'
import { attachmentsIn, withTextsOnly } from './attachments.ts'
import type { GovernedDeps } from './deps.ts'
import type { GovernedInput } from './input.ts'
import { haveFiles, readFiles } from './read-files.ts'
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
  /** The numbers of texts that were replaced by a notice. */
  withheld: Pick<Withheld, 'tool_results' | 'documents' | 'tools'>
  /** The types of files that were replaced by their redacted text. Undefined without files. */
  replacedFiles?: readonly string[] | undefined
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
  { guards, clock, readText }: ScreenDeps,
): Promise<Stage<Screened<Input>>> {
  const { caller, payer, conversationId, chain, index, policy, shield } = admitted
  const { options } = input
  const files =
    policy.document.attachments !== 'allow' || haveFiles(input.conversation.messages)
      ? await readForGuards(input, admitted, { requestId, path, signal }, { guards, clock, readText })
      : undefined
  if (files?.refusal) return files
  const conversation = files?.value.conversation ?? input.conversation
  const traceId = newTraceId()
  const { canonical } = policy
  const origin = { caller, requestId, endpoint: path, traceId, policy: canonical, conversationId, model: null }
  const promptText = { system: conversation.system, messages: conversation.messages, options }
  const guarded = await inspectRequest(promptText, { policy, shield, caller, signal }, guards)
  const { redacted, isBlocked, incidents, attack, results, tools, rules, canaries } = guarded
  const newTools = (tools?.found ?? []).filter(({ key }) => !guards.reportedResults.has(key))
  const found = [
    ...incidents,
    ...(attack ? [attack] : []),
    ...(results?.unreported ?? []),
    ...newTools.map(({ incident }) => incident),
  ]
  const facts: Facts = {
    unreadFiles: files?.facts.unreadFiles,
    inspectors: inspectorsOf({ rules, policy, isShielded: shield !== undefined && !isBlocked }),
    incidents: [
      ...(files?.facts.incidents ?? []),
      ...incidents,
      ...[attack, results?.worst, tools?.worst].filter((one) => one !== undefined),
    ],
    found: [
      ...(files?.facts.found ?? []),
      ...(found.length === 0 ? [] : [incidentRecords(found, origin, clock.now())]),
    ],
  }
  const markReported = (): void => {
    for (const { key } of newTools) guards.reportedResults.set(key, true)
  }
  if (isBlocked) return { facts, refusal: { error: contentBlocked(incidents, traceId) } }
  if (attack?.enforced && attack.action === 'block')
    return { facts, refusal: { error: promptBlocked(attack.category, traceId) } }
  return {
    facts: results ? { ...facts, whenDurable: [results.markReported, markReported] } : facts,
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
      options: tools?.options ?? redacted.options,
      guarded,
      origin,
      withheld: {
        tool_results: results?.withheld ?? 0,
        ...(results?.withheldDocuments && { documents: results.withheldDocuments }),
        ...(tools?.withheld && { tools: tools.withheld }),
      },
      ...(files && { replacedFiles: replacedIn(files.value.read, redacted.messages) }),
    },
  }
}

type ScreenDeps = { guards: Guards; clock: Clock; readText: GovernedDeps['readText'] }

/** `read`: the messages with the texts of their files. `conversation`: as the guards and the model read it. */
type ReadConversation = { conversation: GovernedInput['conversation']; read: readonly Message[] }

/**
 * Reads the files of a request if a guard inspects texts, or if the policy forbids attachments or files that cannot be
 * read. The refusal is INSUFFICIENT_PERMISSIONS for a forbidden attachment.
 */
async function readForGuards(
  { conversation, options }: GovernedInput,
  { caller, policy, shield, chain }: Admitted,
  { requestId, path, signal }: { requestId: string; path: string; signal: AbortSignal },
  { guards, clock, readText }: ScreenDeps,
): Promise<Stage<ReadConversation>> {
  const { tenantId } = caller
  const { input: rules } = await guards.rulesFor(tenantId, policy)
  const isInspected = shield !== undefined || rules.acting.length + rules.watching.length > 0
  const { attachments, mode, unreadFiles: unreadRule } = policy.document
  if (!isInspected && unreadRule.allowed && attachments === 'allow') {
    return { facts: {}, value: { conversation, read: conversation.messages } }
  }
  const { messages, unread } = await readFiles(conversation.messages, { readText, tenantId, signal })
  const isTextOnly = attachments === 'text-only' && mode === 'enforce'
  const value = {
    conversation: { ...conversation, messages: isTextOnly ? withTextsOnly(messages) : messages },
    read: messages,
  }
  const attached =
    attachments === 'allow' ? [] : attachmentsIn({ messages, options }, { withRead: attachments === 'block' })
  if (unread.length === 0 && attached.length === 0) return { facts: {}, value }
  const unreadKinds = [...new Set(unread)]
  const uses = { serverTools: [], addresses: false, unreadFiles: unreadKinds, attachments: attached }
  const checked = { caller, requestId, endpoint: path }
  const { incidents, records, refusal } = enforceUses(uses, policy, chain.attempts, checked, clock.now())
  const unreadFiles = unread.length === 0 ? undefined : countsOf(unread)
  const facts: Facts = { unreadFiles, incidents, found: records }
  return refusal ? { facts, refusal: { error: refusal } } : { facts, value }
}

function countsOf(kinds: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const kind of kinds) counts[kind] = (counts[kind] ?? 0) + 1
  return counts
}

/** Returns the types of the files whose text took their place. */
function replacedIn(before: readonly Message[], after: readonly Message[]): string[] {
  const files = (messages: readonly Message[]): string[] =>
    messages.flatMap(({ content }) =>
      typeof content === 'string'
        ? []
        : content.flatMap((part) => ('text' in part && part.type !== 'text' ? [typeOf(part)] : [])),
    )
  const kept = files(after)
  return files(before).filter((type) => {
    const at = kept.indexOf(type)
    if (at >= 0) kept.splice(at, 1)
    return at < 0
  })
}

const typeOf = (part: FilePart | NativePart): string => (part.type === 'file' ? part.mediaType : part.block.type)

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
