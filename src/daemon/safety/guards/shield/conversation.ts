import type { ShieldCategory, ShieldVerdict } from '../../../../shared/wire/shield.ts'
import { createPacer, type Pacer } from '../../../platform/pacing.ts'
import { type ShieldOptions, type ShieldScan, scanTextInSlices } from './scan.ts'
import { isWorse, thresholdsOf } from './verdict.ts'

/** The result of scanning a conversation. */
export type ConversationScan = {
  /** The highest risk score of any message. */
  conversationRiskScore: number
  conversationVerdict: ShieldVerdict
  /** The messages that have a score above 0, highest score first. */
  flaggedMessages: FlaggedMessage[]
}

export type FlaggedMessage = {
  /** The index among all messages, starting at 0. */
  messageIndex: number
  riskScore: number
  verdict: ShieldVerdict
  attackCategory: ShieldCategory | null
  confidence: number
}

/**
 * The maximum number of user messages that are scanned together, because an attack may span several messages. Only the
 * start and the end of long messages are included.
 */
const TURNS_TOGETHER = 4
const EDGE_CHARS = 1_000

/**
 * Joins the last TURNS_TOGETHER texts. Omits the middle of long texts, so that padding cannot separate the parts of an
 * attack.
 */
export const joinTurns = (texts: readonly string[]): string => texts.slice(-TURNS_TOGETHER).map(edgesOf).join('\n')

const edgesOf = (text: string): string =>
  text.length <= 2 * EDGE_CHARS ? text : `${text.slice(0, EDGE_CHARS)}\n${text.slice(-EDGE_CHARS)}`

/**
 * Scans each user message alone, and together with earlier user messages. If only the joined messages reveal an attack,
 * it is attributed to the message that completes it.
 */
export async function scanConversation(
  messages: readonly { role: string; content: string }[],
  options: ShieldOptions = {},
  pacer: Pick<Pacer, 'turn'> = createPacer(),
): Promise<ConversationScan> {
  const thresholds = options.thresholds ?? thresholdsOf(options.sensitivity ?? 'balanced')
  const flaggedMessages: FlaggedMessage[] = []
  /** The latest messages that were harmless when scanned alone. */
  let quiet: string[] = []
  for (const [messageIndex, { role, content }] of messages.entries()) {
    if (role !== 'user') continue
    let scan = await scanTextInSlices(content, options, pacer)
    if (scan.riskScore >= thresholds.flag) quiet = []
    else {
      quiet = [...quiet, content].slice(-TURNS_TOGETHER)
      if (quiet.length > 1) {
        const joined = await scanTextInSlices(joinTurns(quiet), options, pacer)
        if (joined.riskScore >= thresholds.flag) {
          scan = joined
          quiet = []
        }
      }
    }
    if (scan.riskScore > 0) flaggedMessages.push({ messageIndex, ...summaryOf(scan) })
  }
  flaggedMessages.sort((one, other) => other.riskScore - one.riskScore)
  const worst = flaggedMessages.reduce<FlaggedMessage | undefined>(
    (worst, one) => (!worst || isWorse(one, worst) ? one : worst),
    undefined,
  )
  return {
    conversationRiskScore: flaggedMessages[0]?.riskScore ?? 0,
    conversationVerdict: worst?.verdict ?? 'ALLOW',
    flaggedMessages,
  }
}

const summaryOf = ({ riskScore, verdict, attackCategory, confidence }: ShieldScan) => ({
  riskScore,
  verdict,
  attackCategory,
  confidence,
})
