import type { ShieldCategory, ShieldVerdict } from '../../../../shared/wire/shield.ts'
import { createPacer, type Pacer } from '../../../platform/pacing.ts'
import { type ShieldOptions, type ShieldScan, scanTextPaced } from './scan.ts'
import { isWorse, thresholdsOf } from './verdict.ts'

/** What a scan of a conversation says (named-endpoints §20). */
export type ConversationScan = {
  /** The highest of its messages. */
  conversationRiskScore: number
  conversationVerdict: ShieldVerdict
  /** Those with a score above 0, the highest first. */
  flaggedMessages: FlaggedMessage[]
}

export type FlaggedMessage = {
  /** From 0, among all messages. */
  messageIndex: number
  riskScore: number
  verdict: ShieldVerdict
  attackCategory: ShieldCategory | null
  confidence: number
}

/** An attack in instalments is read together: so many messages of the user at most, and so much of either end of each. */
const TURNS_TOGETHER = 4
const EDGE_CHARS = 1_000

/** The last of these texts as one. Of long ones the middle is left out, so that filling them does not keep them apart. */
export const joinTurns = (texts: readonly string[]): string => texts.slice(-TURNS_TOGETHER).map(edgesOf).join('\n')

const edgesOf = (text: string): string =>
  text.length <= 2 * EDGE_CHARS ? text : `${text.slice(0, EDGE_CHARS)}\n${text.slice(-EDGE_CHARS)}`

/**
 * Scans what the user said, each message for itself and together with those before it. What only shows together counts for
 * the message that completes it.
 */
export async function scanConversation(
  messages: readonly { role: string; content: string }[],
  options: ShieldOptions = {},
  pacer: Pick<Pacer, 'turn'> = createPacer(),
): Promise<ConversationScan> {
  const thresholds = options.thresholds ?? thresholdsOf(options.sensitivity ?? 'balanced')
  const flaggedMessages: FlaggedMessage[] = []
  /** Those that show nothing by themselves. */
  let quiet: string[] = []
  for (const [messageIndex, { role, content }] of messages.entries()) {
    if (role !== 'user') continue
    let scan = await scanTextPaced(content, options, pacer)
    if (scan.riskScore >= thresholds.flag) quiet = []
    else {
      quiet = [...quiet, content].slice(-TURNS_TOGETHER)
      if (quiet.length > 1) {
        const joined = await scanTextPaced(joinTurns(quiet), options, pacer)
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
