import { type ChatPart, type ProviderCall, ProviderError } from '../provider.ts'
import type { AnswerDraft, AnswerFormat } from '../stream/assembly.ts'
import { reportedError, truncatedError, unreadableError } from '../stream/failure.ts'
import type { SseEvent } from '../stream/sse.ts'
import { isObject, type Json, member } from './json.ts'
import type { Profile } from './profiles.ts'
import { addDetails } from './reasoning.ts'
import { createToolCallReader, type ToolCallReader } from './tool-calls.ts'
import { toTokenUsage } from './usage.ts'

/** What the reading of an answer depends on beside the answer. */
type Asked = {
  /** Tools were offered, so that the answer may be a call of one. */
  tools: boolean
  logprobs: boolean
  /** Of reasoning. */
  origin: string
}

/** Chat completions as OpenAI and the many servers that speak its dialect send them, in answer to this call. */
export function openAiFormat({ options }: Pick<ProviderCall, 'options'>, { origin }: Profile): AnswerFormat {
  const tools = (options?.tools?.length ?? 0) > 0 && options?.toolChoice !== 'none'
  const asked = { tools, logprobs: options?.logprobs === true, origin }
  return { createEventDecoder: () => createEventDecoder(asked), decodeBody: (body) => decodeBody(body, asked) }
}

type Ending = NonNullable<AnswerDraft['ending']>

/** What one answer has held so far. */
type Seen = { text: boolean; refusal: boolean; calls: ToolCallReader }

/**
 * What finish reasons mean, beside OpenAI's own: Together `eos`, Hugging Face `eos_token` and `stop_sequence`, Mistral
 * `model_length`, Z.ai `sensitive` and `model_context_window_exceeded`. A reason that is not here is a failure, not an
 * answer: it may mean that the model was stopped half way, and nobody can tell.
 */
const OUTCOMES = new Map<string, Ending['outcome']>([
  ['stop', 'complete'],
  ['eos', 'complete'],
  ['eos_token', 'complete'],
  ['stop_sequence', 'complete'],
  ['tool_calls', 'complete'],
  ['function_call', 'complete'],
  ['length', 'length'],
  ['model_length', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['content_filter', 'filtered'],
  ['sensitive', 'filtered'],
])
const TOOL_REASONS = new Set(['tool_calls', 'function_call'])

function createEventDecoder(asked: Asked): (event: SseEvent, draft: AnswerDraft) => void {
  const seen: Seen = { text: false, refusal: false, calls: createToolCallReader() }

  return function decode({ name, data, cut }, draft) {
    const trimmed = data.trim()
    if (trimmed === '[DONE]') {
      draft.done = true
      return
    }
    // Heartbeats of some servers are events without data.
    if (trimmed === '') return
    const chunk = parse(trimmed, cut)
    // The last event broke off: the engine decides by whether the finish reason had come.
    if (chunk === undefined) return
    throwReported(chunk, name)
    draft.usage = toTokenUsage(chunk.usage) ?? toTokenUsage(member(chunk.x_groq, 'usage')) ?? draft.usage

    const choice = firstChoice(chunk)
    if (!choice) return
    throwReported(choice)
    draft.usage = toTokenUsage(choice.usage) ?? draft.usage
    if (isObject(choice.delta)) {
      const before = draft.parts.length
      addContent(choice.delta, draft.parts, seen, asked)
      addToolCalls(choice.delta, false, draft.parts, seen, asked)
      addLogprobs(choice.logprobs, draft.parts, before, asked)
      // Some servers give every chunk a finish reason; only what nothing follows is one.
      if (draft.parts.length > before) draft.ending = undefined
    }
    if (typeof choice.finish_reason === 'string' && choice.finish_reason !== '') {
      draft.ending = toEnding(choice.finish_reason, seen, asked)
    }
  }
}

function decodeBody(body: unknown, asked: Asked): ChatPart[] {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  throwReported(body)
  const choice = firstChoice(body)
  if (!choice) throw unreadableError('an answer without choices')
  throwReported(choice)
  const reason = choice.finish_reason
  const parts: ChatPart[] = []
  const seen: Seen = { text: false, refusal: false, calls: createToolCallReader() }
  if (isObject(choice.message)) {
    addContent(choice.message, parts, seen, asked)
    addToolCalls(choice.message, true, parts, seen, asked)
    addLogprobs(choice.logprobs, parts, 0, asked)
  } else if (reason !== 'content_filter') {
    // Azure leaves the message out when its filter held back all of it.
    throw unreadableError('an answer without a message')
  }
  if (typeof reason !== 'string' || reason === '') throw truncatedError()
  const usage = toTokenUsage(body.usage) ?? toTokenUsage(choice.usage)
  parts.push({ type: 'end', ...toEnding(reason, seen, asked), usage })
  return parts
}

/**
 * Adds what a delta or a message says. A refusal is the text of its answer, and makes the outcome `filtered`: the
 * provider held back what was asked for, although it then says `stop`.
 */
function addContent(message: Json, parts: ChatPart[], seen: Seen, { origin }: Asked): void {
  const start = parts.length
  addText(message.reasoning_content ?? message.reasoning, 'reasoning', origin, parts)
  addDetails(message.reasoning_details, parts.length > start, origin, parts)
  const before = parts.length
  addText(message.content, 'text', origin, parts)
  if (typeof message.refusal === 'string' && message.refusal !== '') {
    parts.push({ type: 'text', text: message.refusal })
    seen.refusal = true
  }
  for (let at = before; at < parts.length; at++) seen.text ||= parts[at]?.type === 'text'
}

/** Adds a string, or the `text` parts, `thinking` parts and citations (`reference`) that Mistral mixes into content. */
function addText(content: unknown, type: 'text' | 'reasoning', origin: string, parts: ChatPart[]): void {
  if (typeof content === 'string') {
    if (content !== '') parts.push(type === 'text' ? { type, text: content } : { type, text: content, origin })
    return
  }
  if (content === undefined || content === null) return
  if (!Array.isArray(content)) throw unreadableError('content of an unknown kind')
  for (const part of content) {
    if (isObject(part) && part.type === 'text') addText(part.text, type, origin, parts)
    else if (isObject(part) && part.type === 'thinking') addText(part.thinking, 'reasoning', origin, parts)
    else if (!isObject(part) || part.type !== 'reference') throw unreadableError('content of an unknown kind')
  }
}

/** A call that no tool was offered for is noted, and told to nobody. `function_call` is the form before `tool_calls`. */
function addToolCalls(message: Json, whole: boolean, parts: ChatPart[], { calls }: Seen, { tools }: Asked): void {
  if (message.tool_calls === undefined && message.function_call === undefined) return
  const told = tools ? parts : []
  calls.take(message.tool_calls, whole, told)
  if (isObject(message.function_call)) calls.take([{ function: message.function_call }], whole, told)
}

/** Log probabilities belong to the text they came with, that is to the last part of it. */
function addLogprobs(logprobs: unknown, parts: ChatPart[], from: number, { logprobs: asked }: Asked): void {
  if (!asked || !isObject(logprobs)) return
  const part = parts.slice(from).findLast(({ type }) => type === 'text')
  if (part?.type === 'text') part.logprobs = logprobs
}

function toEnding(reason: string, { text, refusal, calls }: Seen, { tools }: Asked): Ending {
  const outcome = OUTCOMES.get(reason)
  if (!outcome) {
    const named = /^[\w-]{1,64}$/.test(reason) ? ` "${reason}"` : ''
    throw new ProviderError('server_error', `The provider ended its answer with the unknown finish reason${named}.`)
  }
  if (calls.unnamed) throw unreadableError('a tool call without a name')
  const isAnswer = text || (tools && calls.any)
  // Without any text there is nothing to hand on, only a question that nobody here can answer.
  if (!isAnswer && (TOOL_REASONS.has(reason) || calls.any)) {
    throw unreadableError(tools ? 'the end of a tool call without the call' : 'a tool call instead of an answer')
  }
  return { outcome: refusal && outcome === 'complete' ? 'filtered' : outcome, nativeFinishReason: reason }
}

function parse(data: string, cut: boolean): Json | undefined {
  let chunk: unknown
  try {
    chunk = JSON.parse(data)
  } catch (error) {
    if (cut) return undefined
    // It may have carried text, so leaving it out could pass off a shortened answer as a whole one.
    throw unreadableError('an event that is not JSON', error)
  }
  if (!isObject(chunk)) throw unreadableError('an event that is not an object')
  return chunk
}

/** Errors come as `error` in a chunk or a choice, as an `error` event, or bare with `object: "error"` (vLLM). */
function throwReported(value: Json, eventName?: string): void {
  if (value.error !== undefined && value.error !== null) throw reportedError(value.error)
  if (value.object === 'error' || eventName === 'error') throw reportedError(value)
}

/** The one choice we asked for; undefined in chunks that only carry usage or filter results. */
function firstChoice({ choices }: Json): Json | undefined {
  if (!Array.isArray(choices)) return undefined
  return choices.find((choice): choice is Json => isObject(choice) && (choice.index ?? 0) === 0)
}
