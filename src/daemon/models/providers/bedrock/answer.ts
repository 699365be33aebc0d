import { isObject, type Json } from '../../../platform/text/json.ts'
import type { ChatPart } from '../../provider.ts'
import type { AnswerDraft, AnswerFormat } from '../stream/answer-format.ts'
import { type Ending, toEnding } from '../stream/ending.ts'
import { objectIn, parseEvent, textIn } from '../stream/event-json.ts'
import { reportedError, truncatedError, unreadableError } from '../stream/failure.ts'
import type { SseEvent } from '../stream/sse-event.ts'
import { createEventStreamReader } from './event-stream.ts'
import { BEDROCK_ORIGIN } from './messages.ts'
import { toTokenUsage } from './usage.ts'

/**
 * Stop reasons and their outcomes. `malformed_model_output` and `malformed_tool_use` are intentionally missing, because
 * the output is faulty. Missing and unknown reasons are failures.
 */
const OUTCOMES = new Map<string, Ending['outcome']>([
  ['end_turn', 'complete'],
  ['stop_sequence', 'complete'],
  ['tool_use', 'complete'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['guardrail_intervened', 'filtered'],
  ['content_filtered', 'filtered'],
])

/**
 * A block in progress. `input` contains the block's initial arguments. The initial arguments are used if no argument
 * chunks follow.
 */
type Block =
  | { type: 'text' }
  | { type: 'reasoning'; signature: string; redacted: Buffer[] }
  | { type: 'tool_use'; call: number; input: string }
  /** A step of a server tool. Steps of server tools are not part of the answer to the caller. */
  | { type: 'server_tool' }

/**
 * Decodes one stream of events. The last event of the stream is `metadata`: it follows the stop reason and contains the
 * usage.
 */
export function createEventDecoder(): (event: SseEvent, draft: AnswerDraft) => void {
  const blocks = new Map<unknown, Block>()
  let calls = 0
  let started = false

  return function decode({ name, data }, draft) {
    // The first event of the protocol has no body.
    const event = parseEvent(data === '' ? '{}' : data, false) ?? {}
    switch (name) {
      case 'messageStart':
        if (started) throw unreadableError('a second answer inside the first')
        started = true
        return
      case 'contentBlockStart': {
        draft.ending = undefined
        const start = objectIn(event, 'start')
        // According to the protocol, text blocks have no start event. Some servers nevertheless send an empty start
        // event.
        if (Object.keys(start).length === 0) return
        const block = startBlock(start, calls, draft.parts)
        if (block.type === 'tool_use') calls++
        blocks.set(event.contentBlockIndex, block)
        return
      }
      case 'contentBlockDelta': {
        draft.ending = undefined
        const delta = objectIn(event, 'delta')
        // Only tool calls have a start event.
        const block = blocks.get(event.contentBlockIndex) ?? impliedBlock(delta)
        blocks.set(event.contentBlockIndex, block)
        addDelta(block, delta, draft.parts)
        return
      }
      case 'contentBlockStop': {
        const block = blocks.get(event.contentBlockIndex)
        if (block) stopBlock(block, draft.parts)
        blocks.delete(event.contentBlockIndex)
        return
      }
      case 'messageStop':
        for (const block of blocks.values()) stopBlock(block, draft.parts)
        blocks.clear()
        draft.ending = toEnding(OUTCOMES, String(event.stopReason))
        return
      case 'metadata':
        draft.usage = toTokenUsage(event.usage)
        draft.done = draft.ending !== undefined
    }
    // Unknown event types are ignored.
  }
}

/** Decodes a non-streamed answer. */
export function decodeBody(body: unknown): ChatPart[] {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  if (!isObject(body.output)) {
    if (typeof body.message === 'string') throw reportedError(body)
    throw unreadableError('an answer without content')
  }
  const { content } = objectIn(body.output, 'message')
  if (!Array.isArray(content)) throw unreadableError('an answer without content')
  const parts: ChatPart[] = []
  let calls = 0
  for (const block of content) {
    if (!isObject(block)) throw unreadableError('content of an unknown kind')
    if (addContent(block, calls, parts) === 'tool_use') calls++
  }
  if (typeof body.stopReason !== 'string') throw truncatedError()
  return [...parts, { type: 'end', ...toEnding(OUTCOMES, body.stopReason), usage: toTokenUsage(body.usage) }]
}

function addContent(content: Json, call: number, parts: ChatPart[]): Block['type'] {
  if (content.toolUse !== undefined || content.toolResult !== undefined) {
    const block = startBlock(content, call, parts)
    stopBlock(block, parts)
    return block.type
  }
  if (isObject(content.reasoningContent)) {
    const { reasoningText, redactedContent } = content.reasoningContent
    const delta = isObject(reasoningText) ? reasoningText : { redactedContent }
    const reasoning = impliedBlock({ reasoningContent: delta })
    addDelta(reasoning, { reasoningContent: delta }, parts)
    stopBlock(reasoning, parts)
    return 'reasoning'
  }
  const texts = isObject(content.citationsContent) ? content.citationsContent.content : [content]
  if (!Array.isArray(texts)) throw unreadableError('content of an unknown kind')
  for (const text of texts) addDelta({ type: 'text' }, isObject(text) ? text : {}, parts)
  return 'text'
}

function startBlock({ toolUse, toolResult }: Json, call: number, parts: ChatPart[]): Block {
  if (isObject(toolResult)) return { type: 'server_tool' }
  // Images and unknown types are errors: skipping them could make a shortened answer look complete.
  if (!isObject(toolUse)) throw unreadableError('content of an unknown kind')
  if (toolUse.type === 'server_tool_use') return { type: 'server_tool' }
  const { toolUseId: id, name, input } = toolUse
  if (typeof id !== 'string' || typeof name !== 'string') throw unreadableError('a tool call without id or name')
  parts.push({ type: 'tool_call', index: call, id, name, arguments: '' })
  return { type: 'tool_use', call, input: JSON.stringify(input ?? {}) }
}

const impliedBlock = ({ reasoningContent }: Json): Block =>
  reasoningContent === undefined ? { type: 'text' } : { type: 'reasoning', signature: '', redacted: [] }

function addDelta(block: Block, delta: Json, parts: ChatPart[]): void {
  switch (block.type) {
    case 'server_tool':
      return
    case 'tool_use':
      addArguments(block, textIn(objectIn(delta, 'toolUse').input), parts)
      return
    case 'reasoning': {
      const { text, signature, redactedContent } = objectIn(delta, 'reasoningContent')
      addText('reasoning', textIn(text), parts)
      block.signature += textIn(signature)
      // Each chunk is encoded separately, so the base64 texts of the chunks cannot simply be concatenated.
      if (redactedContent !== undefined) block.redacted.push(Buffer.from(textIn(redactedContent), 'base64'))
      return
    }
    case 'text':
      // A citation is not part of the text.
      if (delta.citation !== undefined) return
      if (typeof delta.text !== 'string') throw unreadableError('content of an unknown kind')
      addText('text', delta.text, parts)
      return
    default:
      block satisfies never
  }
}

/**
 * Signed or encrypted reasoning is passed on when its block ends, because the signature covers the whole block and may
 * arrive in chunks.
 */
function stopBlock(block: Block, parts: ChatPart[]): void {
  if (block.type === 'reasoning') {
    const { signature, redacted } = block
    const part = { type: 'reasoning', text: '', origin: BEDROCK_ORIGIN } as const
    if (signature !== '') parts.push({ ...part, signature })
    if (redacted.length > 0) parts.push({ ...part, data: Buffer.concat(redacted).toString('base64') })
  }
  // If no argument chunks arrived, the block's initial arguments are used: callers expect valid JSON even if a call has
  // no arguments.
  if (block.type === 'tool_use') addArguments(block, block.input, parts)
}

function addText(type: 'text' | 'reasoning', text: string, parts: ChatPart[]): void {
  if (text !== '') parts.push(type === 'text' ? { type, text } : { type, text, origin: BEDROCK_ORIGIN })
}

function addArguments(block: Extract<Block, { type: 'tool_use' }>, text: string, parts: ChatPart[]): void {
  if (text === '') return
  parts.push({ type: 'tool_call', index: block.call, arguments: text })
  block.input = ''
}

/** Decodes answers of ConverseStream and Converse. */
export const bedrockFormat: AnswerFormat = {
  createEventReader: createEventStreamReader,
  createEventDecoder,
  decodeBody,
}
