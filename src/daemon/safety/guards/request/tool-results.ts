// Withholds tool results that contain attacks.
import { hash } from 'node:crypto'
import type { LRUCache } from 'lru-cache'
import { type Message, textOf } from '../../../models/conversation.ts'
import type { AppliedShield } from '../../prompt-shield/resolve.ts'
import { type ShieldIncident, shieldIncident, worstScan } from '../../prompt-shield/scanner.ts'
import type { ShieldScan } from '../shield/scan.ts'

export type ToolResult = Extract<Message, { role: 'tool' }>

/** The text that replaces a tool result that the shield blocks. */
export const WITHHELD_RESULT = '[The gateway withheld this tool result because it contained instructions to the model.]'

/** The tool results for which an incident is already stored. Owned by `Guards`. */
export type ReportedResults = Pick<LRUCache<string, true>, 'has' | 'set'>

export type JudgedResults = {
  /** The number of tool results that are withheld from the model. */
  withheld: number
  /** The worst finding in any tool result, for the receipt of this request. */
  worst: ShieldIncident | undefined
  /** The findings that have no incident yet, one for each tool result. */
  unreported: ShieldIncident[]
  /** Returns the messages, with a notice in place of each withheld result. */
  withhold(messages: Message[]): Message[]
  /** Remembers these results as reported. Call this after the incidents are durable. */
  markReported(): void
}

/**
 * Withholds tool results that contain attacks. A client resends the whole history with every turn, so rejecting the
 * request would also reject every later turn. Because the history is resent, each result is reported only once.
 * @param scans the results of `scanPromptText` for the tool results of the request
 */
export function judgeToolResults(
  scans: ReadonlyMap<ToolResult, ShieldScan>,
  shield: AppliedShield,
  keyId: string,
  reported: ReportedResults,
): JudgedResults {
  const found = [...scans].flatMap(([result, scan]) => {
    const incident = shieldIncident(scan, shield, 'retrieved')
    return incident ? [{ result, scan, incident, key: keyOf(result, incident, keyId) }] : []
  })
  const withheld = new Set<Message>(
    found.flatMap(({ result, incident }) => (incident.action === 'block' && incident.enforced ? [result] : [])),
  )
  const fresh = new Map(found.filter(({ key }) => !reported.has(key)).map(({ key, incident }) => [key, incident]))
  const worst = worstScan(found.map(({ scan }) => scan))
  return {
    withheld: withheld.size,
    worst: found.find(({ scan }) => scan === worst)?.incident,
    unreported: [...fresh.values()],
    withhold: (messages) =>
      withheld.size === 0
        ? messages
        : messages.map((message) => (withheld.has(message) ? { ...message, content: WITHHELD_RESULT } : message)),
    markReported() {
      for (const key of fresh.keys()) reported.set(key, true)
    },
  }
}

/**
 * Returns the key of a reported result. Call ids differ between conversations, so a page that occurs in two
 * conversations is reported twice.
 */
const keyOf = ({ toolCallId, content }: ToolResult, { action, enforced }: ShieldIncident, keyId: string): string =>
  hash('sha256', JSON.stringify([keyId, toolCallId, textOf(content), action, enforced]), 'base64')
