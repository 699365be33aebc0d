import { createHash } from 'node:crypto'
import { appendTo } from '../../../../shared/lists.ts'
import { parseObject } from '../../../platform/text/json.ts'
import {
  type CacheMark,
  type Content,
  type ContentPart,
  citedText,
  type FilePart,
  type Message,
  type Reasoning,
  type TextPart,
  type ToolCall,
} from '../../conversation.ts'
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
 * messages. Empty messages are dropped, because the API rejects blank text. `caches`: whether the model accepts cache
 * points.
 * @throws ProviderError `bad_request` for tool arguments that are not a JSON object, and for images of a type or
 * position that Converse rejects
 */
export function toBedrockMessages(messages: readonly Message[], caches: boolean): BedrockMessage[] {
  const turns: BedrockMessage[] = []
  for (const message of messages) {
    const role = message.role === 'assistant' ? 'assistant' : 'user'
    const all = toBlocks(message)
    const blocks = caches ? all : all.filter((block) => !('cachePoint' in block))
    if (blocks.length === 0) continue
    const last = turns.at(-1)
    if (last?.role === role) appendTo(last.content, blocks)
    else turns.push({ role, content: blocks })
  }
  return turns
}

function toBlocks(message: Message): object[] {
  if (message.role === 'user') return toContent(message.content)
  if (message.role === 'tool') {
    const { toolCallId, content, isError } = message
    const status = isError ? 'error' : 'success'
    const blocks = toContent(content)
    const results = blocks.filter((block) => !('cachePoint' in block))
    // A cache point cannot be part of a tool result, so it follows the result.
    const points = [...blocks.filter((block) => 'cachePoint' in block), ...toCachePoint(message.cache)]
    return [{ toolResult: { toolUseId: toToolUseId(toolCallId), content: results, status } }, ...points.slice(-1)]
  }
  const { content, reasoning = [], toolCalls = [] } = message
  if (typeof content !== 'string' && content.some(isFile)) {
    throw badRequest('accepts images and files only in user messages and tool results')
  }
  return [...reasoning.flatMap(toReasoningContent), ...toContent(content), ...toolCalls.flatMap(toToolUse)]
}

const isFile = ({ type }: ContentPart): boolean => type !== 'text' && type !== 'native'

function toContent(content: Content): object[] {
  const parts: readonly ContentPart[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content
  return parts.flatMap((part): object[] => {
    if (part.type === 'text') return toTexts([part])
    if (part.type === 'image_url') throw badRequest('does not support images by address')
    if (part.type === 'file_url') throw badRequest('does not support files by address')
    if (part.type === 'file') return [toDocument(part), ...toCachePoint(part.cache)]
    if (part.type === 'native') {
      const text = citedText(part)
      if (text) return toTexts([text])
      throw badRequest(`does not support blocks of type ${part.block.type}`)
    }
    const format = IMAGE_FORMATS.get(part.mediaType)
    if (format === undefined) throw badRequest('accepts only JPEG, PNG, GIF and WebP images')
    return [{ image: { format, source: { bytes: part.data } } }, ...toCachePoint(part.cache)]
  })
}

const DOCUMENT_FORMATS = new Map([
  ['application/pdf', 'pdf'],
  ['text/csv', 'csv'],
  ['text/html', 'html'],
  ['text/markdown', 'md'],
  ['text/plain', 'txt'],
  ['application/vnd.openxmlformats-officedocument.wordprocessingml.document', 'docx'],
  ['application/vnd.openxmlformats-officedocument.spreadsheetml.sheet', 'xlsx'],
])

/** Names of documents must be unique and may contain only a few characters, so the content determines the name. */
function toDocument({ mediaType, data }: FilePart): object {
  const format = DOCUMENT_FORMATS.get(mediaType)
  if (format === undefined) throw badRequest(`does not support files of the type ${mediaType}`)
  const name = `document-${createHash('sha256').update(data).digest('hex').slice(0, 16)}`
  return { document: { format, name, source: { bytes: data } } }
}

/** Converts texts. Blank texts are dropped, because the API rejects them. */
export const toTexts = (parts: readonly TextPart[]): object[] =>
  parts.flatMap(({ text, cache }) => (text.trim() === '' ? [] : [{ text }, ...toCachePoint(cache)]))

/** Converts a cache breakpoint to a block that follows the cached part. */
export const toCachePoint = (cache: CacheMark | undefined): object[] =>
  cache ? [{ cachePoint: { type: 'default', ...(cache.ttl !== undefined && { ttl: cache.ttl }) } }] : []

/** Unsigned reasoning is dropped: models that do not sign their reasoning do not accept it as input. */
function toReasoningContent({ origin, text, signature, data }: Reasoning): object[] {
  if (origin !== BEDROCK_ORIGIN) return []
  if (data !== undefined) return [{ reasoningContent: { redactedContent: data } }]
  return signature === undefined ? [] : [{ reasoningContent: { reasoningText: { text, signature } } }]
}

function toToolUse({ id, name, arguments: text, cache }: ToolCall): object[] {
  return [{ toolUse: { toolUseId: toToolUseId(id), name, input: toInput(text) } }, ...toCachePoint(cache)]
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
