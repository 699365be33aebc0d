import { z } from 'zod'
import type { MessagesBlock } from '../../../../shared/wire/messages.ts'
import type { Reasoning } from '../../../models/conversation.ts'

const ANTHROPIC = 'anthropic'

/**
 * The prefix of the gateway's own signatures. Its dot distinguishes it from Anthropic's signatures, which are base64.
 */
const MARK = 'aigw.'
const Foreign = z.object({ origin: z.string(), signature: z.string().optional(), data: z.string().optional() })

/**
 * Returns the signature of a thinking block. Anthropic's own signature is forwarded. For other providers, the signature
 * is MARK followed by the encoded origin and sealed data. A block has no other field for the origin and the data.
 */
export function signatureOf({ origin, signature, data }: Reasoning): string {
  if (origin === ANTHROPIC || origin === '') return signature ?? ''
  return MARK + Buffer.from(JSON.stringify({ origin, signature, data })).toString('base64url')
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
