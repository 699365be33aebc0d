import { hash } from 'node:crypto'
import type { LRUCache } from 'lru-cache'
import { type Message, textOf } from '../../models/conversation.ts'
import type { ShieldScan } from '../../safety/guards/shield/scan.ts'
import type { AppliedShield } from '../../safety/prompt-shield/resolve.ts'
import { type ShieldIncident, shieldIncident, worstScan } from '../../safety/prompt-shield/scanner.ts'

export type ToolResult = Extract<Message, { role: 'tool' }>

/** What the model reads in place of a tool result that the shield blocks (named-endpoints §26). */
export const WITHHELD_RESULT = '[The gateway withheld this tool result because it contained instructions to the model.]'

/** Tool results that have an incident already; kept by `Guards`. */
export type ReportedResults = Pick<LRUCache<string, true>, 'has' | 'set'>

export type JudgedResults = {
  /** How many tool results the model does not get to read. */
  withheld: number
  /** The worst finding in any tool result, for the receipt of this request. */
  worst: ShieldIncident | undefined
  /** The findings that have no incident yet, one for each tool result. */
  unreported: ShieldIncident[]
  /** The messages with a notice in place of each withheld result. */
  withhold(messages: Message[]): Message[]
  /** Call it when the incidents are durable. */
  markReported(): void
}

/**
 * Decides about tool results. A client sends the whole history again with every turn, so refusing the request would refuse
 * every later turn too. For the same reason a result is reported once, not with each turn.
 * @param scans of `scanSaid`
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

/** The id of a call is new in each conversation, so the same page read twice is reported twice. */
const keyOf = ({ toolCallId, content }: ToolResult, { action, enforced }: ShieldIncident, keyId: string): string =>
  hash('sha256', JSON.stringify([keyId, toolCallId, textOf(content), action, enforced]), 'base64')
