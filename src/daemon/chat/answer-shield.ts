import { GatewayError } from '../../shared/errors.ts'
import type { Guards } from '../guards/guards.ts'
import { OUTPUT_PIECE_CHARS, type OutputScan, type OutputWatch } from '../guards/shield/output.ts'
import { isWorse, severityOf } from '../guards/shield/verdict.ts'
import { OutputBlocked } from '../guards/stream/output-blocked.ts'
import { type ShieldIncident, shieldIncident } from '../prompt-shield/scanner.ts'
import type { ChatPart } from '../providers/provider.ts'
import type { Screened } from './screen.ts'

/** The prompt shield on one answer: on what is said, thought, and told to each tool. */
export type AnswerShield = {
  /** Looks every few KB, and at the end. @throws OutputBlocked when what was said until now must not go on */
  hear(parts: readonly ChatPart[]): void
  /** What there is in all that was heard, also when it broke off. A shield that fails has said so in the log. */
  end(): ShieldIncident | undefined
}

type Heard = { watch: OutputWatch; waiting: string }

/** Undefined where no shield looks at answers. */
export function shieldAnswer(
  { shield, instructions, scanTerms }: Pick<Screened, 'shield' | 'instructions' | 'scanTerms'>,
  { scanner }: Pick<Guards, 'scanner'>,
): AnswerShield | undefined {
  if (!shield?.document.scanOutput) return undefined
  const { document } = shield
  const snippets = instructions === '' ? [] : [instructions]
  const texts = new Map<string | number, Heard>()
  let worst: OutputScan | undefined

  function hearText(name: string | number, text: string): void {
    const heard = texts.get(name) ?? { watch: scanner.watchOutput(snippets, document, scanTerms.tenantId), waiting: '' }
    texts.set(name, heard)
    heard.waiting += text
    if (heard.waiting.length >= OUTPUT_PIECE_CHARS) look(heard)
  }

  function look(heard: Heard): void {
    if (heard.waiting === '') return
    const scan = heard.watch.add(heard.waiting)
    heard.waiting = ''
    if (!worst || isWorse(scan, worst)) worst = scan
  }

  const lookAtAll = () => {
    for (const heard of texts.values()) look(heard)
  }

  const incident = () => worst && shieldIncident(toScan(worst), shield, 'output')

  return {
    hear(parts) {
      for (const part of parts) {
        if (part.type === 'text') hearText('text', part.text)
        else if (part.type === 'reasoning') hearText('reasoning', part.text)
        else if (part.type === 'tool_call') hearText(part.index, part.arguments)
        else if (part.type === 'end') lookAtAll()
      }
      const found = incident()
      if (found?.action === 'block' && found.enforced) throw new OutputBlocked([], found.category)
    },
    end() {
      try {
        lookAtAll()
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
