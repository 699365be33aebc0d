// Withholds fetched texts that contain attacks: tool results, and documents in messages.
import { hash } from 'node:crypto'
import type { LRUCache } from 'lru-cache'
import type { ContentPart, Message } from '../../../models/conversation.ts'
import type { AppliedShield } from '../../prompt-shield/resolve.ts'
import { type ShieldIncident, shieldIncident, worstScan } from '../../prompt-shield/scanner.ts'
import type { ShieldScan } from '../shield/scan.ts'
import { slotsOf } from './text-slots.ts'
import { poisonIn } from './tool-poisoning.ts'

/** The text that replaces a tool result that the shield blocks. */
export const WITHHELD_RESULT = '[The gateway withheld this tool result because it contained instructions to the model.]'
/** The text that replaces a document that the shield blocks. */
export const WITHHELD_DOCUMENT = '[The gateway withheld this document because it contained instructions to the model.]'

/** The fetched texts for which an incident is already stored. Owned by `Guards`. */
export type ReportedResults = Pick<LRUCache<string, true>, 'has' | 'set'>

/**
 * A text that the model did not get from its user: a whole tool result, or a part of a message, such as a document or
 * the result of a tool that the provider runs.
 */
export type Fetched = {
  message: Message
  /** Undefined for a whole message. */
  part: ContentPart | undefined
  kind: 'tool' | 'document'
  texts: readonly string[]
}

export type JudgedResults = {
  /** The number of tool results, and of documents, that are withheld from the model. */
  withheld: number
  withheldDocuments: number
  /** The worst finding in any fetched text, for the receipt of this request. */
  worst: ShieldIncident | undefined
  /** The findings that have no incident yet, one for each fetched text. */
  unreported: ShieldIncident[]
  /** Returns the messages, with a notice in place of each withheld text. */
  withhold(messages: Message[]): Message[]
  /** Remembers these texts as reported. Call this after the incidents are durable. */
  markReported(): void
}

/** The types of blocks with documents, in the APIs of all providers. */
const DOCUMENTS = /^(?:document|search_result|file|input_file|inline_?data|file_?data)$/i
/** The types of blocks with results of tools that a provider runs. */
const RESULTS =
  /^(?:.+_result|.+_output|mcp_call|mcp_list_tools|file_search_call|web_search_call|code_interpreter_call|codeExecutionResult)$/

/** Returns the fetched texts of a conversation. */
export function fetchedIn(messages: readonly Message[]): Fetched[] {
  return messages.flatMap((message): Fetched[] => {
    if (message.role === 'tool') return [{ message, part: undefined, kind: 'tool', texts: textsOf(message) }]
    if (typeof message.content === 'string') return []
    return message.content.flatMap((part) => {
      const kind = kindOf(part)
      return kind ? [{ message, part, kind, texts: textsOf({ role: message.role, content: [part] }) }] : []
    })
  })
}

/** Returns the messages without their fetched texts. */
export const spokenIn = (messages: readonly Message[]): Message[] =>
  messages.flatMap((message): Message[] => {
    if (message.role === 'tool') return []
    if (typeof message.content === 'string' || !message.content.some(kindOf)) return [message]
    return [{ ...message, content: message.content.filter((part) => !kindOf(part)) }]
  })

function kindOf(part: ContentPart): Fetched['kind'] | undefined {
  if (part.type === 'file') return 'document'
  if (part.type !== 'native') return undefined
  if (RESULTS.test(part.block.type)) return 'tool'
  return part.text !== undefined || DOCUMENTS.test(part.block.type) ? 'document' : undefined
}

const textsOf = (message: Message): string[] =>
  slotsOf({ system: '', messages: [message], options: undefined }).map(({ text }) => text)

/**
 * Withholds fetched texts that contain attacks. A client resends the whole history with every turn, so rejecting the
 * request would also reject every later turn. Because the history is resent, each text is reported only once.
 * @param scans the results of `scanPromptText`
 */
export function judgeToolResults(
  scans: ReadonlyMap<Fetched, ShieldScan>,
  shield: AppliedShield,
  keyId: string,
  reported: ReportedResults,
): JudgedResults {
  const found = [...scans].flatMap(([fetched, scan]) => {
    const incident = shieldIncident(withCategory(scan, fetched), shield, 'retrieved')
    return incident ? [{ fetched, scan, incident, key: keyOf(fetched, incident, keyId) }] : []
  })
  const withheld = found
    .filter(({ incident }) => incident.action === 'block' && incident.enforced)
    .map(({ fetched }) => fetched)
  const fresh = new Map(found.filter(({ key }) => !reported.has(key)).map(({ key, incident }) => [key, incident]))
  const worst = worstScan(found.map(({ scan }) => scan))
  return {
    withheld: withheld.filter(({ kind }) => kind === 'tool').length,
    withheldDocuments: withheld.filter(({ kind }) => kind === 'document').length,
    worst: found.find(({ scan }) => scan === worst)?.incident,
    unreported: [...fresh.values()],
    withhold: (messages) => (withheld.length === 0 ? messages : withNotices(messages, withheld)),
    markReported() {
      for (const key of fresh.keys()) reported.set(key, true)
    },
  }
}

/** An attack through a tool result that also has the signs of tool poisoning has this category. */
function withCategory(scan: ShieldScan, { kind, texts }: Fetched): ShieldScan {
  if (kind !== 'tool' || (scan.verdict !== 'FLAG' && scan.verdict !== 'BLOCK')) return scan
  const isPoison = texts.some((text) => poisonIn(text.slice(0, POISON_CHARS))?.category === 'tool_poisoning')
  return isPoison ? { ...scan, attackCategory: 'tool_poisoning' } : scan
}

const POISON_CHARS = 16_384

function withNotices(messages: readonly Message[], withheld: readonly Fetched[]): Message[] {
  const whole = new Set(withheld.filter(({ part }) => part === undefined).map(({ message }) => message))
  const parts = new Map(withheld.flatMap(({ part, kind }) => (part ? [[part, kind] as const] : [])))
  // A provider rejects the call of its tool without the result, so the call is left out too.
  const calls = new Set(
    [...parts.keys()].flatMap((part) =>
      part.type === 'native' && typeof part.block.tool_use_id === 'string' ? part.block.tool_use_id : [],
    ),
  )
  return messages.map((message) => {
    if (whole.has(message)) return { ...message, content: WITHHELD_RESULT }
    const { content } = message
    if (typeof content === 'string' || !content.some((part) => parts.has(part))) return message
    const kept = content.filter(
      (part) => !(part.type === 'native' && typeof part.block.id === 'string' && calls.has(part.block.id)),
    )
    return { ...message, content: kept.map((part) => toNotice(part, parts.get(part))) }
  })
}

function toNotice(part: ContentPart, kind: Fetched['kind'] | undefined): ContentPart {
  if (kind === undefined) return part
  const text = kind === 'tool' ? WITHHELD_RESULT : WITHHELD_DOCUMENT
  return { type: 'text', text, ...(part.cache && { cache: part.cache }) }
}

/**
 * Returns the key of a reported text. Call ids differ between conversations, so a page that occurs in two conversations
 * is reported twice.
 */
function keyOf({ message, texts }: Fetched, { action, enforced }: ShieldIncident, keyId: string): string {
  const callId = message.role === 'tool' ? message.toolCallId : ''
  return hash('sha256', JSON.stringify([keyId, callId, texts, action, enforced]), 'base64')
}
