import { GatewayError } from '../../../../shared/errors.ts'
import type { ChatPart } from '../../../models/provider.ts'
import { runToEnd } from '../../../platform/pacing.ts'
import { type ShieldIncident, shieldIncident } from '../../prompt-shield/scanner.ts'
import type { Guards } from '../guards.ts'
import type { GuardedRequest } from '../request/request-screening.ts'
import { type LeakOptions, OUTPUT_PIECE_CHARS, type OutputScan, type OutputWatch, piecesOf } from '../shield/output.ts'
import { isWorse, severityOf } from '../shield/verdict.ts'
import { OutputBlocked } from './output-blocked.ts'

/** The prompt shield of one response: scans the content, the reasoning, and the arguments of each tool call. */
export type AnswerShield = {
  /** Buffers the texts of these parts. A scan is due every few KB, and at the end of the response. */
  add(parts: readonly ChatPart[]): void
  readonly isDue: boolean
  /** Scans the buffered text, and yields regularly. @throws OutputBlocked if the response must not continue */
  looking(): Generator<void>
  /**
   * Returns the incident of the whole response, even if the response was interrupted. A failure of the shield is not
   * reported here, because it has already been logged.
   */
  end(): ShieldIncident | undefined
}

type WatchedText = { watch: OutputWatch; waiting: string }

/**
 * Creates the shield of a response. Returns undefined if no shield scans responses.
 * @param leaks finds quotations of the system prompt
 */
export function shieldAnswer(
  { shield, scanTerms }: Pick<GuardedRequest, 'shield' | 'scanTerms'>,
  leaks: LeakOptions,
  { scanner }: Pick<Guards, 'scanner'>,
): AnswerShield | undefined {
  if (!shield?.document.scanOutput) return undefined
  const { document } = shield
  const texts = new Map<string | number, WatchedText>()
  let worst: OutputScan | undefined
  let isDue = false
  let isOver = false

  function addText(name: string | number, text: string): void {
    const watched = texts.get(name) ?? {
      watch: scanner.watchAnswer(leaks, document, scanTerms.tenantId),
      waiting: '',
    }
    texts.set(name, watched)
    watched.waiting += text
    isDue ||= watched.waiting.length >= OUTPUT_PIECE_CHARS
  }

  function* lookingAt(watched: WatchedText): Generator<void> {
    const { waiting } = watched
    watched.waiting = ''
    for (const piece of piecesOf(waiting)) {
      const scan = watched.watch.add(piece)
      if (!worst || isWorse(scan, worst)) worst = scan
      yield
    }
  }

  function* lookingAtAll(leastChars: number): Generator<void> {
    for (const watched of texts.values()) if (watched.waiting.length >= leastChars) yield* lookingAt(watched)
  }

  const incident = () => worst && shieldIncident(toScan(worst), shield, 'output')

  return {
    add(parts) {
      for (const part of parts) {
        if (part.type === 'text') addText('text', part.text)
        else if (part.type === 'reasoning') addText('reasoning', part.text)
        else if (part.type === 'tool_call') addText(part.index, part.arguments)
        else if (part.type === 'end') isDue = isOver = true
      }
    },
    get isDue() {
      return isDue
    },
    *looking() {
      isDue = false
      yield* lookingAtAll(isOver ? 0 : OUTPUT_PIECE_CHARS)
      const found = incident()
      if (found?.action === 'block' && found.enforced) throw new OutputBlocked([], found.category)
    },
    end() {
      try {
        runToEnd(lookingAtAll(0))
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error
      }
      return incident()
    },
  }
}

function toScan({ riskScore, verdict, detections: [worst] }: OutputScan) {
  return {
    riskScore,
    verdict,
    attackCategory: worst?.category ?? null,
    confidence: worst?.confidence ?? 0,
    severity: severityOf(riskScore),
  }
}
