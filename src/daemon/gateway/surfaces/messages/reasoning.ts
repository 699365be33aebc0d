import { z } from 'zod'
import type { MessagesBlock } from '../../../../shared/wire/messages.ts'
import type { Reasoning } from '../../../models/conversation.ts'

const ANTHROPIC = 'anthropic'

/** What no signature of Anthropic begins with: they are base64. */
const MARK = 'aigw.'
const Foreign = z.object({ origin: z.string(), signature: z.string().optional(), data: z.string().optional() })

/**
 * The signature that a thinking block gets. Anthropic's own is passed on. The block has no other place for whose reasoning it
 * is and what they have sealed, so that of others carries both, marked as ours.
 */
export function signatureOf({ origin, signature, data }: Reasoning): string {
  if (origin === ANTHROPIC || origin === '') return signature ?? ''
  return MARK + Buffer.from(JSON.stringify({ origin, signature, data })).toString('base64url')
}

/** Anthropic has a kind of block for what it has encrypted. */
export const isRedacted = ({ origin, data }: Reasoning): boolean => origin === ANTHROPIC && data !== undefined

/** What is encrypted is a block of its own, after what was thought aloud. */
export function toThinkingBlocks(step: Reasoning): MessagesBlock[] {
  if (!isRedacted(step)) return [{ type: 'thinking', thinking: step.text, signature: signatureOf(step) }]
  const { text, data = '' } = step
  const aloud: MessagesBlock[] = text === '' ? [] : [{ type: 'thinking', thinking: text, signature: '' }]
  return [...aloud, { type: 'redacted_thinking', data }]
}

/** A block that comes back, as it was; undefined for one that nobody would take: without a signature, or with a broken one. */
export function toReasoning(
  block: Extract<MessagesBlock, { type: 'thinking' | 'redacted_thinking' }>,
): Reasoning | undefined {
  if (block.type === 'redacted_thinking') return { origin: ANTHROPIC, text: '', data: block.data }
  const { thinking: text, signature } = block
  if (signature === '') return undefined
  if (!signature.startsWith(MARK)) return { origin: ANTHROPIC, text, signature }
  const foreign = parseForeign(signature.slice(MARK.length))
  return foreign && { ...foreign, text }
}

function parseForeign(encoded: string): z.infer<typeof Foreign> | undefined {
  try {
    return Foreign.safeParse(JSON.parse(Buffer.from(encoded, 'base64url').toString())).data
  } catch {
    return undefined
  }
}
