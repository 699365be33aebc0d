import { createHash } from 'node:crypto'
import { parseObject } from '../../../platform/text/json.ts'
import type { Content, ContentPart, Message, Reasoning, ToolCall } from '../../conversation.ts'
import { ProviderError } from '../../provider.ts'

/**
 * Marks reasoning that came through Bedrock. Such reasoning is sent back only to Bedrock, not to the vendor of the
 * model.
 */
export const BEDROCK_ORIGIN = 'bedrock'

export type BedrockMessage = { role: 'user' | 'assistant'; content: object[] }

const IMAGE_FORMATS = new Map([
  ['image/jpeg', 'jpeg'],
  ['image/png', 'png'],
  ['image/gif', 'gif'],
  ['image/webp', 'webp'],
])

/**
 * Converts a conversation to alternating turns. Consecutive messages of one role are merged. Tool results become user
 * messages. Empty messages are dropped, because the API rejects blank text.
 * @throws ProviderError `bad_request` for tool arguments that are not a JSON object, and for images of a type or
 * position that Converse rejects
 */
export function toBedrockMessages(messages: readonly Message[]): BedrockMessage[] {
  const turns: BedrockMessage[] = []
  for (const message of messages) {
    const role = message.role === 'assistant' ? 'assistant' : 'user'
    const blocks = toBlocks(message)
    if (blocks.length === 0) continue
    const last = turns.at(-1)
    if (last?.role === role) last.content.push(...blocks)
    else turns.push({ role, content: blocks })
  }
  return turns
}

function toBlocks(message: Message): object[] {
  if (message.role === 'user') return toContent(message.content)
  if (message.role === 'tool') {
    const { toolCallId, content, isError } = message
    const status = isError ? 'error' : 'success'
    return [{ toolResult: { toolUseId: toToolUseId(toolCallId), content: toContent(content), status } }]
  }
  const { content, reasoning = [], toolCalls = [] } = message
  if (typeof content !== 'string' && content.some(({ type }) => type === 'image')) {
    throw badRequest('accepts images only in user messages and tool results')
  }
  return [...reasoning.flatMap(toReasoningContent), ...toContent(content), ...toolCalls.map(toToolUse)]
}

function toContent(content: Content): object[] {
  const parts: readonly ContentPart[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content
  return parts.flatMap((part): object[] => {
    if (part.type === 'text') return part.text.trim() === '' ? [] : [{ text: part.text }]
    const format = IMAGE_FORMATS.get(part.mediaType)
    if (format === undefined) throw badRequest('accepts only JPEG, PNG, GIF and WebP images')
    return [{ image: { format, source: { bytes: part.data } } }]
  })
}

/** Unsigned reasoning is dropped: models that do not sign their reasoning do not accept it as input. */
function toReasoningContent({ origin, text, signature, data }: Reasoning): object[] {
  if (origin !== BEDROCK_ORIGIN) return []
  if (data !== undefined) return [{ reasoningContent: { redactedContent: data } }]
  return signature === undefined ? [] : [{ reasoningContent: { reasoningText: { text, signature } } }]
}

function toToolUse({ id, name, arguments: text }: ToolCall): object {
  return { toolUse: { toolUseId: toToolUseId(id), name, input: toInput(text) } }
}

function toInput(text: string): object {
  const input = text.trim() === '' ? {} : parseObject(text)
  if (!input) throw badRequest('accepts only a JSON object as the arguments of a tool call')
  return input
}

/**
 * Replaces an id of another provider with a hash of the id if it is too long or contains characters that Converse
 * rejects. Different ids get different hashes.
 */
const toToolUseId = (id: string) => (/^[\w-]{1,64}$/.test(id) ? id : createHash('sha256').update(id).digest('hex'))

/**
 * Returns the error for a request that the API does not support. The error is thrown before the call, because options
 * are never dropped silently.
 */
export const badRequest = (what: string) => new ProviderError('bad_request', `The provider ${what}.`)
