import { type ChatPart, type ProviderCall, ProviderError, type TokenUsage } from '../provider.ts'
import type { AnswerDraft, AnswerFormat } from '../stream/assembly.ts'
import { reportedError, truncatedError, unreadableError } from '../stream/failure.ts'
import type { SseEvent } from '../stream/sse.ts'

/** The body of POST /chat/completions for a call. */
export function toOpenAiRequest({ model, system, messages, temperature, maxTokens, stream }: ProviderCall): object {
  return {
    model,
    messages: system === '' ? messages : [{ role: 'system', content: system }, ...messages],
    temperature,
    max_tokens: maxTokens,
    stream,
    ...(stream && { stream_options: { include_usage: true } }),
  }
}

/** Chat completions as OpenAI and the many servers that speak its dialect send them. */
export const openAiFormat: AnswerFormat = { createEventDecoder, decodeBody }

type Json = Record<string, unknown>
type Ending = NonNullable<AnswerDraft['ending']>

/**
 * What finish reasons mean, beside OpenAI's own: Together `eos`, Mistral `model_length`, Z.ai `sensitive`. A reason that
 * is not here is a failure, not an answer: it may mean that the model was stopped half way, and nobody can tell.
 */
const OUTCOMES = new Map<string, Ending['outcome']>([
  ['stop', 'complete'],
  ['eos', 'complete'],
  ['tool_calls', 'complete'],
  ['function_call', 'complete'],
  ['length', 'length'],
  ['model_length', 'length'],
  ['content_filter', 'filtered'],
  ['sensitive', 'filtered'],
])
const TOOL_REASONS = new Set(['tool_calls', 'function_call'])

function createEventDecoder(): (event: SseEvent, draft: AnswerDraft) => void {
  const seen = { text: false, refusal: false }

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
      addContent(choice.delta, draft.parts, seen)
      // Some servers give every chunk a finish reason; only what nothing follows is one.
      if (draft.parts.length > before) draft.ending = undefined
    }
    if (typeof choice.finish_reason === 'string' && choice.finish_reason !== '') {
      draft.ending = toEnding(choice.finish_reason, seen)
    }
  }
}

function decodeBody(body: unknown): ChatPart[] {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  throwReported(body)
  const choice = firstChoice(body)
  if (!choice) throw unreadableError('an answer without choices')
  throwReported(choice)
  const reason = choice.finish_reason
  const parts: ChatPart[] = []
  const seen = { text: false, refusal: false }
  // Azure leaves the message out when its filter held back all of it.
  if (isObject(choice.message)) addContent(choice.message, parts, seen)
  else if (reason !== 'content_filter') throw unreadableError('an answer without a message')
  if (typeof reason !== 'string' || reason === '') throw truncatedError()
  parts.push({ type: 'end', ...toEnding(reason, seen), usage: toTokenUsage(body.usage) ?? toTokenUsage(choice.usage) })
  return parts
}

/**
 * Adds what a delta or a message says. A refusal is the text of its answer, and makes the outcome `filtered`: the
 * provider held back what was asked for, although it then says `stop`.
 */
function addContent(message: Json, parts: ChatPart[], seen: { text: boolean; refusal: boolean }): void {
  addText(message.reasoning_content ?? message.reasoning, 'reasoning', parts)
  const before = parts.length
  addText(message.content, 'text', parts)
  if (typeof message.refusal === 'string' && message.refusal !== '') {
    parts.push({ type: 'text', text: message.refusal })
    seen.refusal = true
  }
  for (let at = before; at < parts.length; at++) seen.text ||= parts[at]?.type === 'text'
}

/** Adds a string, or the `text` parts, `thinking` parts and citations (`reference`) that Mistral mixes into content. */
function addText(content: unknown, type: 'text' | 'reasoning', parts: ChatPart[]): void {
  if (typeof content === 'string') {
    if (content !== '') parts.push({ type, text: content })
    return
  }
  if (content === undefined || content === null) return
  if (!Array.isArray(content)) throw unreadableError('content of an unknown kind')
  for (const part of content) {
    if (isObject(part) && part.type === 'text') addText(part.text, type, parts)
    else if (isObject(part) && part.type === 'thinking') addText(part.thinking, 'reasoning', parts)
    else if (!isObject(part) || part.type !== 'reference') throw unreadableError('content of an unknown kind')
  }
}

function toEnding(reason: string, seen: { text: boolean; refusal: boolean }): Ending {
  const outcome = OUTCOMES.get(reason)
  if (!outcome) {
    const named = /^[\w-]{1,64}$/.test(reason) ? ` "${reason}"` : ''
    throw new ProviderError('server_error', `The provider ended its answer with the unknown finish reason${named}.`)
  }
  // No tool was offered. Without any text there is no answer to hand on, only a question that we cannot answer.
  if (TOOL_REASONS.has(reason) && !seen.text) throw unreadableError('a tool call instead of an answer')
  return { outcome: seen.refusal && outcome === 'complete' ? 'filtered' : outcome, nativeFinishReason: reason }
}

/** Tokens as we count them, or undefined when the provider gave none. Zero for both is a placeholder of some servers. */
function toTokenUsage(usage: unknown): TokenUsage | undefined {
  if (!isObject(usage)) return undefined
  const inputTokens = tokens(usage.prompt_tokens)
  const visibleTokens = tokens(usage.completion_tokens)
  if (inputTokens === undefined || visibleTokens === undefined || inputTokens + visibleTokens === 0) return undefined
  const reasoningTokens = tokens(member(usage.completion_tokens_details, 'reasoning_tokens')) ?? 0
  const details = usage.prompt_tokens_details
  // xAI counts reasoning beside the completion instead of inside it, and only its total tells.
  const isBeside = reasoningTokens > 0 && usage.total_tokens === inputTokens + visibleTokens + reasoningTokens
  return {
    inputTokens,
    outputTokens: isBeside ? visibleTokens + reasoningTokens : visibleTokens,
    // DeepSeek and Moonshot name the cached ones differently.
    cacheReadTokens:
      tokens(member(details, 'cached_tokens')) ??
      tokens(usage.prompt_cache_hit_tokens) ??
      tokens(usage.cached_tokens) ??
      0,
    cacheWriteTokens: tokens(member(details, 'cache_write_tokens')) ?? 0,
    reasoningTokens,
    estimated: false,
  }
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

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

const member = (value: unknown, name: string) => (isObject(value) ? value[name] : undefined)

const tokens = (value: unknown) =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined
