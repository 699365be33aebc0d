import { GatewayError, invalidField } from '../../shared/errors.ts'
import { MESSAGE_CONTENT_BYTES } from '../../shared/spec-limits.ts'
import type { ChatRequest } from '../../shared/wire/chat.ts'

/** What the caller said, whichever of the two input forms was used. */
export type Conversation = {
  system: string
  messages: { role: 'user' | 'assistant'; content: string }[]
}

/**
 * The rules of POST /chat/completions that span several fields; the schema has checked each by itself.
 * @throws INDEX_REQUIRED, MODEL_REQUIRED, VALIDATION_ERROR
 */
export function toConversation(request: ChatRequest): Conversation {
  requireIndexAndModel(request)
  const { prompt, messages, system_message: systemMessage } = request
  if (prompt !== undefined && messages !== undefined) {
    throw invalidField('messages', 'Send either `prompt` or `messages`, not both.')
  }
  if (prompt !== undefined) {
    return sized('prompt', { system: systemMessage ?? '', messages: [{ role: 'user', content: prompt }] })
  }
  if (messages === undefined) throw invalidField('messages', 'Send `prompt` or `messages`.')

  const turns: Conversation['messages'] = []
  let system = systemMessage
  for (const { role, content } of messages) {
    if (role !== 'system') turns.push({ role, content })
    else if (system === undefined) system = content
    else throw invalidField('messages', '`system_message` cannot be combined with a system entry in `messages`.')
  }
  if (!turns.some(({ role, content }) => role === 'user' && content.trim() !== '')) {
    throw invalidField('messages', 'There must be a user message that is not empty.')
  }
  return sized('messages', { system: system ?? '', messages: turns })
}

function requireIndexAndModel({ index, model, models, fallback_models: fallbacks }: ChatRequest): void {
  if (index === undefined || index.trim() === '') {
    throw new GatewayError('INDEX_REQUIRED', 'Name a knowledge base in `index`, or "Zero-Knowledge" for none.')
  }
  if (models !== undefined && fallbacks !== undefined) {
    throw invalidField('fallback_models', '`fallback_models` cannot be combined with `models`.')
  }
  if (model === undefined && models === undefined) {
    throw new GatewayError('MODEL_REQUIRED', 'Name a model as "<provider>/<model>" in `model`, or a chain in `models`.')
  }
}

function sized(field: 'prompt' | 'messages', conversation: Conversation): Conversation {
  let bytes = Buffer.byteLength(conversation.system)
  for (const { content } of conversation.messages) bytes += Buffer.byteLength(content)
  if (bytes > MESSAGE_CONTENT_BYTES) {
    throw invalidField(
      field,
      `All message content together may have at most ${MESSAGE_CONTENT_BYTES} bytes, not ${bytes}.`,
    )
  }
  return conversation
}
