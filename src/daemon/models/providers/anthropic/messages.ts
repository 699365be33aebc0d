import { appendTo } from '../../../../shared/lists.ts'
import { parseObject } from '../../../platform/text/json.ts'
import type {
  CacheMark,
  Content,
  ContentPart,
  FilePart,
  FileUrlPart,
  Message,
  Reasoning,
  TextPart,
  ToolCall,
} from '../../conversation.ts'
import { ProviderError } from '../../provider.ts'

/**
 * Only reasoning with this origin may be sent to Anthropic, because only providers of this kind have signed or
 * encrypted it.
 */
export const ANTHROPIC_ORIGIN = 'anthropic'

export type AnthropicMessage = { role: 'user' | 'assistant' | 'system'; content: object[] }

const IMAGE_TYPES = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp'])

/**
 * Converts a conversation to alternating turns. Consecutive messages of one role are merged. Tool results become user
 * messages. Empty messages are dropped, because the API rejects empty text.
 * @throws ProviderError `bad_request` for tool arguments that are not a JSON object, and for images and
 * files of a type or position that Anthropic rejects
 */
export function toAnthropicMessages(messages: readonly Message[]): AnthropicMessage[] {
  const turns: AnthropicMessage[] = []
  for (const message of messages) {
    const role = roleOf(message)
    const blocks = toBlocks(message)
    if (blocks.length === 0) continue
    const last = turns.at(-1)
    if (last?.role === role) appendTo(last.content, blocks)
    else turns.push({ role, content: blocks })
  }
  return turns
}

function roleOf(message: Message): AnthropicMessage['role'] {
  if (message.role === 'assistant') return 'assistant'
  return message.role === 'user' && message.isSystem ? 'system' : 'user'
}

function toBlocks(message: Message): object[] {
  if (message.role === 'user') return toContent(message.content)
  if (message.role === 'tool') {
    const content = toContent(message.content)
    return [
      {
        type: 'tool_result',
        tool_use_id: toToolId(message.toolCallId),
        ...(content.length > 0 && { content }),
        ...(message.isError && { is_error: true }),
        ...cached(message.cache),
      },
    ]
  }
  const { content, reasoning = [], toolCalls = [] } = message
  if (typeof content !== 'string' && content.some(isFile)) {
    throw badRequest('accepts images and files only in user messages and tool results')
  }
  return [...reasoning.flatMap(toThinking), ...toContent(content), ...toolCalls.map(toToolUse)]
}

const isFile = ({ type }: ContentPart): boolean => type !== 'text' && type !== 'native'

function toContent(content: Content): object[] {
  const parts: readonly ContentPart[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content
  return parts.flatMap((part): object[] => {
    if (part.type === 'text') return toTextBlocks([part])
    if (part.type === 'image_url') {
      return [{ type: 'image', source: { type: 'url', url: part.url }, ...cached(part.cache) }]
    }
    if (part.type === 'file' || part.type === 'file_url') return [toDocument(part)]
    if (part.type === 'native') {
      if (part.origin !== ANTHROPIC_ORIGIN) throw badRequest(`does not support blocks of type ${part.block.type}`)
      return [{ ...part.block, ...cached(part.cache) }]
    }
    const { mediaType, data, cache } = part
    if (!IMAGE_TYPES.has(mediaType)) throw badRequest('accepts only JPEG, PNG, GIF and WebP images')
    return [{ type: 'image', source: { type: 'base64', media_type: mediaType, data }, ...cached(cache) }]
  })
}

/** @throws ProviderError for files that are neither PDF nor plain text */
function toDocument(part: FilePart | FileUrlPart): object {
  return {
    type: 'document',
    source: part.type === 'file_url' ? { type: 'url', url: part.url } : toSource(part),
    ...(part.name !== undefined && { title: part.name }),
    ...cached(part.cache),
  }
}

function toSource({ mediaType, data }: FilePart): object {
  if (mediaType === 'application/pdf') return { type: 'base64', media_type: mediaType, data }
  if (mediaType !== 'text/plain') throw badRequest(`does not support files of the type ${mediaType}`)
  return { type: 'text', media_type: mediaType, data: Buffer.from(data, 'base64').toString() }
}

/** Converts texts. Blank texts are dropped, because the API rejects them. */
export const toTextBlocks = (parts: readonly TextPart[]): object[] =>
  parts.flatMap(({ text, cache }) => (text.trim() === '' ? [] : [{ type: 'text', text, ...cached(cache) }]))

const cached = (cache: CacheMark | undefined): object => (cache ? { cache_control: cache } : {})

/** Drops reasoning that Anthropic would reject: thinking that has no signature or another provider's signature. */
function toThinking({ origin, text, signature, data }: Reasoning): object[] {
  if (origin !== ANTHROPIC_ORIGIN) return []
  if (data !== undefined) return [{ type: 'redacted_thinking', data }]
  return signature === undefined ? [] : [{ type: 'thinking', thinking: text, signature }]
}

function toToolUse({ id, name, arguments: text, cache }: ToolCall): object {
  return { type: 'tool_use', id: toToolId(id), name, input: toInput(text), ...cached(cache) }
}

function toInput(text: string): object {
  const input = text.trim() === '' ? {} : parseObject(text)
  if (!input) throw badRequest('accepts only a JSON object as the arguments of a tool call')
  return input
}

/** Other providers send ids like `functions.find:0`; Anthropic accepts only letters, digits, `_` and `-`. */
const toToolId = (id: string) =>
  id.replace(/[^a-zA-Z0-9_-]/gu, (character) => `_${character.codePointAt(0)?.toString(16)}_`)

/**
 * Returns the error for a request that the API does not support. The error is thrown before the call, because options
 * are never dropped silently.
 */
export const badRequest = (what: string) => new ProviderError('bad_request', `The provider ${what}.`)
