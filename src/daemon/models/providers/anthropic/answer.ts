import { isObject, type Json, parseObject, tokenCount as tokens } from '../../../platform/text/json.ts'
import type { ChatPart, NativeKind } from '../../provider.ts'
import type { AnswerDraft, AnswerFormat } from '../stream/answer-format.ts'
import { type Ending, toEnding } from '../stream/ending.ts'
import { END_MARK, isHeartbeat, objectIn, parseEvent, textIn } from '../stream/event-json.ts'
import { reportedError, truncatedError, unreadableError } from '../stream/failure.ts'
import type { SseEvent } from '../stream/sse-event.ts'
import { ANTHROPIC_ORIGIN } from './messages.ts'
import { toTokenUsage, withCounts } from './usage.ts'

/**
 * Stop reasons and their outcomes. `pause_turn` is intentionally not listed, because an answer with this stop reason is
 * incomplete. Unknown reasons are failures, because the model may have been stopped early.
 */
const OUTCOMES = new Map<string, Ending['outcome']>([
  ['end_turn', 'complete'],
  ['stop_sequence', 'complete'],
  ['tool_use', 'complete'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['refusal', 'filtered'],
])

/**
 * Outcomes of requests with native options. A turn that pauses is complete for such clients: they send it back to let
 * the model continue.
 */
const NATIVE_OUTCOMES = new Map([...OUTCOMES, ['pause_turn', 'complete'] as const])

/** Blocks of server tools and Anthropic-internal blocks. Only requests with native options get these
 * blocks. */
const NON_ANSWER_BLOCK = /^(server_tool_use|mcp_tool_use|[a-z_]+_tool_result|container_upload|compaction|fallback)$/

/** The delta types of a block. Citation and signature deltas do not add text. */
const DELTAS = {
  text: ['text_delta', 'citations_delta', 'signature_delta'],
  tool_use: ['input_json_delta'],
}

/**
 * A block in progress. `input` contains the arguments from the start event. The arguments in `input` are used if no
 * argument chunks follow.
 */
type Block =
  | { type: 'text' }
  | { type: 'thinking'; signature: string }
  | { type: 'tool_use'; call: number; input: string }
  /** A block of the provider's own API. `input` collects the JSON of a server tool's call. */
  | { type: 'native'; call: number; content: Json; input: string }
  | { type: 'other' }

/**
 * Decodes one stream of events. The stream ends with `message_stop`, or with the `[DONE]` that some servers send
 * instead.
 */
export function createEventDecoder(isNative = false): (event: SseEvent, draft: AnswerDraft) => void {
  const outcomes = isNative ? NATIVE_OUTCOMES : OUTCOMES
  const blocks = new Map<unknown, Block>()
  let started = false
  let calls = 0
  let hasBlocks = false
  let counts: Json = {}

  return function decode({ name, data, cut }, draft) {
    const trimmed = data.trim()
    if (trimmed === END_MARK) {
      draft.done = true
      return
    }
    if (isHeartbeat(trimmed)) return
    const event = parseEvent(trimmed, cut)
    // If the last event is incomplete, it is ignored. The assembly checks whether the stop reason was already received.
    if (event === undefined) return
    throwReported(event, name)

    // Pings and unknown event types are ignored.
    switch (event.type) {
      case 'message_start': {
        const message = objectIn(event, 'message')
        // Rejects a second start event, and a start event with content, because two answers in one stream cannot be
        // separated.
        if (started || (Array.isArray(message.content) && message.content.length > 0)) {
          throw unreadableError('a second answer inside the first')
        }
        started = true
        counts = withCounts(counts, message.usage)
        draft.usage = toTokenUsage(counts)
        return
      }
      case 'content_block_start': {
        draft.ending = undefined
        const content = objectIn(event, 'content_block')
        if (isNative && content.type === 'text' && hasBlocks) addNative('break', calls++, {}, draft.parts)
        hasBlocks = true
        const block = startBlock(content, calls, draft.parts, isNative)
        if (block.type === 'tool_use' || block.type === 'native') calls++
        blocks.set(event.index, block)
        return
      }
      case 'content_block_delta': {
        draft.ending = undefined
        const delta = objectIn(event, 'delta')
        let block = blocks.get(event.index)
        if (!block) throw unreadableError('a piece of a block that is not open')
        // A text delta ends a thinking block, because some servers send the text deltas in that block.
        if (block.type === 'thinking' && delta.type === 'text_delta') {
          stopBlock(block, draft.parts)
          block = { type: 'text' }
          blocks.set(event.index, block)
        }
        if (isNative && block.type === 'text' && delta.type === 'citations_delta') {
          addNative('citation', calls++, delta.citation, draft.parts)
          return
        }
        addDelta(block, delta, draft.parts)
        return
      }
      case 'content_block_stop': {
        const block = blocks.get(event.index)
        if (block) stopBlock(block, draft.parts)
        blocks.delete(event.index)
        return
      }
      case 'message_delta': {
        const { stop_reason: reason, stop_sequence: sequence } = objectIn(event, 'delta')
        // The counts of this event replace the counts of the start event. If this event has no output count, the output
        // count is unknown.
        counts = withCounts(counts, event.usage)
        if (isObject(event.usage) && tokens(event.usage.output_tokens) !== undefined) draft.usage = toTokenUsage(counts)
        if (typeof reason !== 'string') return
        // All blocks are ended here, because some servers omit the stop events of blocks or send them later.
        for (const block of blocks.values()) stopBlock(block, draft.parts)
        blocks.clear()
        draft.ending = { ...toEnding(outcomes, reason), ...matched(sequence) }
        return
      }
      case 'message_stop':
        draft.done = true
    }
  }
}

/** Decodes a non-streamed answer. */
export function decodeBody(body: unknown, isNative = false): ChatPart[] {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  throwReported(body)
  if (!Array.isArray(body.content)) throw unreadableError('an answer without content')
  const parts: ChatPart[] = []
  let calls = 0
  for (const content of body.content) {
    if (!isObject(content)) throw unreadableError('content of an unknown kind')
    if (isNative && content.type === 'text' && parts.length > 0) addNative('break', calls++, {}, parts)
    const block = startBlock(content, calls, parts, isNative)
    if (block.type === 'tool_use' || block.type === 'native') calls++
    stopBlock(block, parts)
    if (!isNative || content.type !== 'text' || !Array.isArray(content.citations)) continue
    for (const citation of content.citations) addNative('citation', calls++, citation, parts)
  }
  if (typeof body.stop_reason !== 'string') throw truncatedError()
  const ending = {
    ...toEnding(isNative ? NATIVE_OUTCOMES : OUTCOMES, body.stop_reason),
    ...matched(body.stop_sequence),
  }
  parts.push({ type: 'end', ...ending, usage: toTokenUsage(withCounts({}, body.usage)) })
  return parts
}

const matched = (sequence: unknown): { stopSequence?: string } =>
  typeof sequence === 'string' && sequence !== '' ? { stopSequence: sequence } : {}

function startBlock(content: Json, call: number, parts: ChatPart[], isNative: boolean): Block {
  switch (content.type) {
    case 'text':
      addText('text', content.text, parts)
      return { type: 'text' }
    case 'thinking':
      addText('reasoning', content.thinking, parts)
      return { type: 'thinking', signature: textIn(content.signature) }
    case 'redacted_thinking':
      parts.push({ type: 'reasoning', text: '', origin: ANTHROPIC_ORIGIN, data: textIn(content.data) })
      return { type: 'other' }
    case 'tool_use': {
      const { id, name, input } = content
      if (typeof id !== 'string' || typeof name !== 'string') throw unreadableError('a tool call without id or name')
      parts.push({ type: 'tool_call', index: call, id, name, arguments: '' })
      return { type: 'tool_use', call, input: JSON.stringify(input ?? {}) }
    }
    default:
      // An unknown block may contain text, so skipping it could make a shortened answer look complete.
      if (!NON_ANSWER_BLOCK.test(textIn(content.type))) throw unreadableError('content of an unknown kind')
      return isNative ? { type: 'native', call, content, input: '' } : { type: 'other' }
  }
}

function addDelta(block: Block, delta: Json, parts: ChatPart[]): void {
  if (block.type === 'thinking') {
    // Thinking deltas of other types are ignored, because the answer is complete without them.
    if (delta.type === 'thinking_delta') addText('reasoning', delta.thinking, parts)
    else if (delta.type === 'signature_delta') block.signature += textIn(delta.signature)
    else if (delta.type === 'input_json_delta') throw unreadableError('arguments outside their call')
    return
  }
  if (block.type === 'native') {
    if (delta.type === 'input_json_delta') block.input += textIn(delta.partial_json)
    else if (delta.type === 'compaction_delta') block.content = { ...block.content, content: delta.content }
    else if (delta.type === 'text_delta') throw unreadableError('text outside its block')
    return
  }
  if (block.type === 'other') {
    if (delta.type === 'text_delta') throw unreadableError('text outside its block')
    return
  }
  if (!DELTAS[block.type].includes(textIn(delta.type))) throw unreadableError('content of an unknown kind')
  if (block.type === 'text') addText('text', delta.text, parts)
  else addArguments(block, textIn(delta.partial_json), parts)
}

/** The signature is passed on when its block ends, because it covers the whole block and may arrive in chunks. */
function stopBlock(block: Block, parts: ChatPart[]): void {
  if (block.type === 'thinking' && block.signature !== '') {
    parts.push({ type: 'reasoning', text: '', origin: ANTHROPIC_ORIGIN, signature: block.signature })
  }
  if (block.type === 'native') {
    const { content, input } = block
    addNative('block', block.call, input === '' ? content : { ...content, input: inputOf(input) }, parts)
  }
  // If no argument chunks arrived, the arguments of the start event are used: callers expect valid JSON even if a call
  // has no arguments.
  if (block.type === 'tool_use') addArguments(block, block.input, parts)
}

function inputOf(text: string): Json {
  const input = parseObject(text)
  if (!input) throw unreadableError('arguments of a tool call that are not a JSON object')
  return input
}

function addNative(native: NativeKind, index: number, value: unknown, parts: ChatPart[]): void {
  if (!isObject(value)) throw unreadableError('content of an unknown kind')
  parts.push({ type: 'tool_call', index, id: '', name: '', native, arguments: JSON.stringify(value) })
}

function addText(type: 'text' | 'reasoning', value: unknown, parts: ChatPart[]): void {
  const text = textIn(value)
  if (text === '') return
  parts.push(type === 'text' ? { type, text } : { type, text, origin: ANTHROPIC_ORIGIN })
}

function addArguments(block: Extract<Block, { type: 'tool_use' }>, text: string, parts: ChatPart[]): void {
  if (text === '') return
  parts.push({ type: 'tool_call', index: block.call, arguments: text })
  block.input = ''
}

function throwReported(value: Json, eventName?: string): void {
  if (value.error !== undefined && value.error !== null) throw reportedError(value.error)
  if (value.type === 'error' || eventName === 'error') throw reportedError(value)
}

/** Decodes answers of the Messages API, streamed or as one body. */
export const anthropicFormat: AnswerFormat = {
  createEventDecoder: () => createEventDecoder(),
  decodeBody: (body) => decodeBody(body),
}
/** Also decodes the blocks and citations that only this API has. */
export const nativeFormat: AnswerFormat = {
  createEventDecoder: () => createEventDecoder(true),
  decodeBody: (body) => decodeBody(body, true),
}
