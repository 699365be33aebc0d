import { isObject, type Json, member } from '../../../platform/text/json.ts'
import type { ChatPart } from '../../provider.ts'
import type { AnswerDraft, AnswerFormat } from '../stream/answer-format.ts'
import { type Ending, toEnding } from '../stream/ending.ts'
import { END_MARK, isHeartbeat, parseEvent, textIn } from '../stream/event-json.ts'
import { reportedError, truncatedError, unreadableError } from '../stream/failure.ts'
import type { SseEvent } from '../stream/sse-event.ts'
import { COHERE_ORIGIN } from './supported.ts'
import { toTokenUsage } from './usage.ts'

/**
 * Decodes answers of Cohere's chat API. A stream ends with `message-end`. Some models send `[DONE]` after it, which is
 * not needed. Citations are dropped, because the gateway sends no documents in Cohere's form.
 */
export const cohereFormat: AnswerFormat = { createEventDecoder, decodeBody }

/** Finish reasons and their outcomes. `ERROR` and `TIMEOUT` are intentionally not listed: the answer is incomplete. */
const OUTCOMES = new Map<string, Ending['outcome']>([
  ['COMPLETE', 'complete'],
  ['STOP_SEQUENCE', 'complete'],
  ['TOOL_CALL', 'complete'],
  ['MAX_TOKENS', 'length'],
  ['ERROR_LIMIT', 'length'],
  ['ERROR_TOXIC', 'filtered'],
])

function createEventDecoder(): (event: SseEvent, draft: AnswerDraft) => void {
  /** The calls by their index in the stream. `index` is the place in the answer. */
  const calls = new Map<unknown, { index: number; hasText: boolean }>()
  let started = false

  return function decode({ data, cut }, draft) {
    const trimmed = data.trim()
    if (isHeartbeat(trimmed)) return
    if (trimmed === END_MARK) {
      draft.done = true
      return
    }
    const event = parseEvent(trimmed, cut)
    // If the last event is incomplete, it is ignored. The assembly checks whether the end was already received.
    if (event === undefined) return
    const message = member(event.delta, 'message')

    switch (event.type) {
      case 'message-start':
        if (started) throw unreadableError('a second answer inside the first')
        started = true
        return
      case 'content-start':
      case 'content-delta':
        addContent(member(message, 'content'), draft.parts)
        return
      case 'tool-plan-delta':
        addText(member(message, 'tool_plan'), draft.parts)
        return
      case 'tool-call-start':
        if (calls.has(event.index)) throw unreadableError('a tool call that starts twice')
        draft.parts.push(toToolCall(member(message, 'tool_calls'), calls.size))
        calls.set(event.index, { index: calls.size, hasText: false })
        return
      case 'tool-call-delta': {
        const call = calls.get(event.index)
        if (!call) throw unreadableError('a piece of a tool call that has not started')
        const piece = textIn(member(member(member(message, 'tool_calls'), 'function'), 'arguments'))
        const text = call.hasText ? piece : withoutNull(piece)
        call.hasText ||= text !== ''
        if (text !== '') draft.parts.push({ type: 'tool_call', index: call.index, arguments: text })
        return
      }
      case 'message-end': {
        const delta = isObject(event.delta) ? event.delta : {}
        throwReported(delta)
        draft.usage = toTokenUsage(delta.usage) ?? draft.usage
        draft.ending = endingOf(delta.finish_reason)
        draft.done = true
        return
      }
    }
    // The ends of blocks, citations and unknown event types are ignored. An error in a stream has no type.
    if (event.type === undefined) throw reportedError(event)
  }
}

function decodeBody(body: unknown): ChatPart[] {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  throwReported(body)
  const { message } = body
  // Errors have a text as their message.
  if (!isObject(message)) throw reportedError(body)
  const parts: ChatPart[] = []
  // A member without a value may be null.
  const [content, calls] = [message.content ?? [], message.tool_calls ?? []]
  if (!Array.isArray(content) || !Array.isArray(calls)) throw unreadableError('content of an unknown kind')
  for (const one of content) addContent(one, parts)
  addText(message.tool_plan, parts)
  parts.push(...calls.map(toToolCall))
  return [...parts, { type: 'end', ...endingOf(body.finish_reason), usage: toTokenUsage(body.usage) }]
}

/** @throws ProviderError if the answer contains an error instead of its end */
function throwReported({ error }: Json): void {
  if (error !== undefined && error !== null && error !== '') {
    throw reportedError(typeof error === 'string' ? { message: error } : error)
  }
}

/** Adds a text or a step of reasoning, whole or in pieces. */
function addContent(content: unknown, parts: ChatPart[]): void {
  if (!isObject(content)) throw unreadableError('content of an unknown kind')
  const { type, text, thinking } = content
  const isKnown = type === undefined ? text !== undefined || thinking !== undefined : KNOWN_TYPES.has(type)
  if (!isKnown) throw unreadableError('content of an unknown kind')
  const thought = textIn(thinking)
  if (thought !== '') parts.push({ type: 'reasoning', text: thought, origin: COHERE_ORIGIN })
  addText(text, parts)
}

const KNOWN_TYPES: ReadonlySet<unknown> = new Set(['text', 'thinking'])

function addText(value: unknown, parts: ChatPart[]): void {
  const text = textIn(value)
  if (text !== '') parts.push({ type: 'text', text })
}

function toToolCall(call: unknown, index: number): ChatPart {
  const id = textIn(member(call, 'id'))
  const name = textIn(member(member(call, 'function'), 'name'))
  if (id === '' || name === '') throw unreadableError('a tool call without a name')
  const text = withoutNull(textIn(member(member(call, 'function'), 'arguments')))
  return { type: 'tool_call', index, id, name, arguments: text }
}

/** Cohere writes `null` as the arguments of a tool without parameters. */
const withoutNull = (text: string): string => (text === 'null' ? '' : text)

function endingOf(reason: unknown): Ending {
  if (typeof reason !== 'string' || reason === '') throw truncatedError()
  return toEnding(OUTCOMES, reason)
}
