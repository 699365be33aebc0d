import type { ChatRequest } from '../../../shared/wire/chat.ts'
import type { GenerationOptions, Message, System } from '../../models/conversation.ts'
import type { PolicyUses } from '../../safety/policies/policies.ts'
import type { ChainRequest } from './chain.ts'

/** A well-formed request of any operation. It is not admitted yet. */
export type GovernedInput = {
  /** The system prompt and the messages. Guards inspect every text of the system prompt, the messages and `options`. */
  conversation: { system: System; messages: Message[] }
  options: GenerationOptions | undefined
  chain: ChainRequest
  stream: boolean
  /** The name of a knowledge base, or Zero-Knowledge. */
  index: string
  policy: string | undefined
  shield: ChatRequest['prompt_shield']
  /** The user to bill. Undefined: the owner of the key. */
  userId: string | undefined
  conversationId: string | undefined
  /** The caller's own key for the provider's prompt cache. */
  cacheKey?: string | undefined
  /** Set if a model must be requested with its provider, or by a name of the configuration. */
  isExact?: true
  /** Set if the results of different models are not comparable, so only one model of a name is used. */
  isOneModel?: true
  /** What the request uses beyond its text, and a policy may forbid. Undefined: nothing. */
  uses?: PolicyUses | undefined
}
