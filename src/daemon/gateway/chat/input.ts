import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { MAX_TOKENS_DEFAULT, MESSAGE_CONTENT_BYTES, TEMPERATURE_DEFAULT } from '../../../shared/spec-limits.ts'
import type { ChatRequest, Dropped } from '../../../shared/wire/chat.ts'
import { type GenerationOptions, systemText, textOf } from '../../models/conversation.ts'
import type { RequestLimits } from '../config.ts'
import type { GovernedInput } from '../governed/input.ts'

/** The system prompt and the messages of a request. */
export type Conversation = GovernedInput['conversation']

/** A well-formed chat request of any surface, with that surface's defaults applied. It is not admitted yet. */
export type ChatInput = GovernedInput & {
  useRag: boolean
  /** Undefined: the model's own default. */
  temperature: number | undefined
  /** True if the request has no temperature, so the gateway set one. */
  temperatureIsDefault?: boolean
  /** Undefined: the request sets no limit. */
  maxTokens: number | undefined
  /** Fields that the operator forbids. They are not sent. */
  dropped?: readonly Dropped[]
  /** The names of the two fields in the request, if they are not `max_tokens` and `reasoning_effort`. */
  fields?: { maxTokens?: string; thinking?: string }
}

/**
 * Converts a body of POST /chat/completions to the pipeline's input. Checks only the rules that span several fields,
 * because the schema already validates each field.
 * @throws INDEX_REQUIRED, MODEL_REQUIRED, VALIDATION_ERROR
 */
export function toChatInput(request: ChatRequest): ChatInput {
  const conversation = toConversation(request)
  return {
    conversation,
    chain: request,
    index: request.index as string,
    useRag: request.use_rag ?? true,
    policy: request.smltp_policy,
    shield: request.prompt_shield,
    userId: request.user_id,
    conversationId: request.conversation_id,
    temperature: request.temperature ?? TEMPERATURE_DEFAULT,
    temperatureIsDefault: request.temperature === undefined,
    maxTokens: request.max_tokens ?? MAX_TOKENS_DEFAULT,
    stream: request.stream ?? false,
    options: undefined,
  }
}

function toConversation(request: ChatRequest): Conversation {
  requireIndexAndModel(request)
  const { prompt, messages, system_message: systemMessage } = request
  if (prompt !== undefined && messages !== undefined) {
    throw invalidField('messages', 'Send either `prompt` or `messages`, not both.')
  }
  if (prompt !== undefined) {
    return sized('prompt', { system: systemMessage ?? '', messages: [{ role: 'user', content: prompt }] })
  }
  if (messages === undefined) throw invalidField('messages', 'Send `prompt` or `messages`.')

  const turns: { role: 'user' | 'assistant'; content: string }[] = []
  let system = systemMessage
  for (const { role, content } of messages) {
    if (role !== 'system') turns.push({ role, content })
    else if (system === undefined) system = content
    else throw invalidField('messages', '`system_message` cannot be combined with a system entry in `messages`.')
  }
  if (!turns.some(({ role, content }) => role === 'user' && content.trim() !== '')) {
    throw invalidField('messages', '`messages` must contain a user message that is not empty.')
  }
  return sized('messages', { system: system ?? '', messages: turns })
}

function requireIndexAndModel(request: ChatRequest): void {
  const { index } = request
  if (index === undefined || index.trim() === '') {
    throw new GatewayError(
      'INDEX_REQUIRED',
      'Set `index` to the name of a knowledge base, or to "Zero-Knowledge" for none.',
    )
  }
  requireModel(request)
}

/** Checks the model fields of a request. Every surface uses this check. @throws MODEL_REQUIRED, VALIDATION_ERROR */
export function requireModel({ model, models, fallback_models: fallbacks }: ChatInput['chain']): void {
  if (models !== undefined && fallbacks !== undefined) {
    throw invalidField('fallback_models', '`fallback_models` cannot be combined with `models`.')
  }
  if (model === undefined && models === undefined) {
    throw new GatewayError(
      'MODEL_REQUIRED',
      'You must provide a model, as "<provider>/<model>" in `model` or a chain in `models`.',
    )
  }
}

/** Returns the provider of the first model. Unsigned reasoning without an origin is attributed to this provider. */
export function makerOf({ model, models }: ChatInput['chain']): string {
  const first = models?.[0]?.model ?? model ?? ''
  return first.slice(0, first.indexOf('/'))
}

/**
 * Checks the operator's limit on the number of messages. Only compatibility surfaces have this limit.
 * @throws VALIDATION_ERROR
 */
export function requireFewMessages(
  messages: readonly unknown[],
  { messages: limit }: Pick<RequestLimits, 'messages'>,
  field: 'messages' | 'input' | 'contents' = 'messages',
) {
  if (limit === undefined || messages.length <= limit) return
  throw invalidField(
    field,
    `The request has ${messages.length} ${ITEMS[field]}; the operator allows at most ${limit}. Send fewer.`,
  )
}

const ITEMS = { messages: 'messages', input: 'items', contents: 'contents' } as const

/**
 * Limits all message contents together, including the system prompt, to MESSAGE_CONTENT_BYTES.
 * @throws VALIDATION_ERROR naming `field`
 */
function sized(field: string, conversation: Conversation): Conversation {
  let bytes = Buffer.byteLength(systemText(conversation.system))
  for (const { content } of conversation.messages) bytes += Buffer.byteLength(textOf(content))
  if (bytes > MESSAGE_CONTENT_BYTES) {
    throw invalidField(
      field,
      `The message contents have ${bytes} bytes together; the limit is ${MESSAGE_CONTENT_BYTES}. Shorten them.`,
    )
  }
  return conversation
}

/** Returns the generation options. Returns undefined if no option is set. */
export const askedOptions = (options: GenerationOptions): GenerationOptions | undefined =>
  Object.values(options).some((value) => value !== undefined) ? options : undefined
