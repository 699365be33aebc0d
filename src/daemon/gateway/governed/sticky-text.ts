import type { Content } from '../../models/conversation.ts'
import type { GovernedInput } from './input.ts'

/** The opening of a conversation is compared up to this length. */
const OPENING_CHARS = 2_048

/**
 * Returns a text that all requests of a conversation share, so that they prefer the same target, whose prompt cache
 * contains the conversation. Precedence: the caller's cache key, the id of the conversation, the caller's id of the
 * user, and from the second turn on the first message. Undefined for a single turn without any of these, so that equal
 * requests are distributed too.
 */
export function stickyTextOf(
  { cacheKey, conversationId, options, conversation: { messages } }: GovernedInput,
  tenantId: string,
): string | undefined {
  const isContinued = messages.some(({ role }) => role !== 'user')
  const opening = isContinued ? textIn(messages[0]?.content) : undefined
  const shared = [cacheKey, conversationId, options?.user, opening].find((text) => text !== undefined && text !== '')
  return shared === undefined ? undefined : `${tenantId}\0${shared}`
}

/** Returns the beginning of the first text. Large images and documents are not searched. */
function textIn(content: Content | undefined): string | undefined {
  const text = typeof content === 'string' ? content : content?.find((part) => part.type === 'text')?.text
  return text?.slice(0, OPENING_CHARS)
}
