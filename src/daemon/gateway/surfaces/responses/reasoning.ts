import type { InputItem } from '../../../../shared/wire/responses.ts'
import type { Reasoning } from '../../../models/conversation.ts'
import { isSealedHere, sealReasoning, unsealReasoning } from '../sealed-reasoning.ts'

const OPENAI = 'openai'

/**
 * Returns the `encrypted_content` of a reasoning item. OpenAI's own is forwarded. For other providers, it encodes the
 * origin and the sealed data.
 */
export function encryptedContentOf(step: Reasoning): string | undefined {
  if (step.origin === OPENAI && step.data !== undefined) return step.data
  return step.origin === '' ? undefined : sealReasoning(step)
}

/**
 * Restores a reasoning step from an item. Returns undefined if its encrypted content is invalid.
 * @param maker the origin of reasoning that does not name its own
 */
export function toReasoning(
  { summary = [], content = [], encrypted_content: encrypted }: Extract<InputItem, { type: 'reasoning' }>,
  maker: string,
): Reasoning | undefined {
  const text = [...summary, ...content].map((part) => part.text).join('')
  if (encrypted === undefined || encrypted === '') return text === '' ? undefined : { origin: maker, text }
  if (!isSealedHere(encrypted)) return { origin: OPENAI, text, data: encrypted }
  const foreign = unsealReasoning(encrypted)
  return foreign && { ...foreign, text }
}
