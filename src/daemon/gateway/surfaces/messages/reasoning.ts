import type { MessagesBlock } from '../../../../shared/wire/messages.ts'
import type { Reasoning } from '../../../models/conversation.ts'
import { isSealedHere, sealReasoning, unsealReasoning } from '../sealed-reasoning.ts'

const ANTHROPIC = 'anthropic'

/**
 * Returns the signature of a thinking block. Anthropic's own signature is forwarded. For other providers, the signature
 * encodes the origin and the sealed data. A block has no other field for the origin and the data.
 */
export function signatureOf(step: Reasoning): string {
  const { origin, signature } = step
  return origin === ANTHROPIC || origin === '' ? (signature ?? '') : sealReasoning(step)
}

/** Whether Anthropic encrypted the reasoning. Encrypted reasoning has a separate block type. */
export const isRedacted = ({ origin, data }: Reasoning): boolean => origin === ANTHROPIC && data !== undefined

/** The blocks of a reasoning step. Encrypted data becomes a separate block after the readable text. */
export function toThinkingBlocks(step: Reasoning): MessagesBlock[] {
  if (!isRedacted(step)) return [{ type: 'thinking', thinking: step.text, signature: signatureOf(step) }]
  const { text, data = '' } = step
  const aloud: MessagesBlock[] = text === '' ? [] : [{ type: 'thinking', thinking: text, signature: '' }]
  return [...aloud, { type: 'redacted_thinking', data }]
}

/**
 * Restores a reasoning step from a block in a request. Returns undefined if the block's signature is missing or
 * invalid.
 */
export function toReasoning(
  block: Extract<MessagesBlock, { type: 'thinking' | 'redacted_thinking' }>,
): Reasoning | undefined {
  if (block.type === 'redacted_thinking') return { origin: ANTHROPIC, text: '', data: block.data }
  const { thinking: text, signature } = block
  if (signature === '') return undefined
  if (!isSealedHere(signature)) return { origin: ANTHROPIC, text, signature }
  const foreign = unsealReasoning(signature)
  return foreign && { ...foreign, text }
}
