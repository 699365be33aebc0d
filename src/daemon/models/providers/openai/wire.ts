import { isObject, type Json, member } from '../../json.ts'
import type { ChatPart, ProviderCall } from '../../provider.ts'
import type { AnswerDraft, AnswerFormat } from '../stream/answer-format.ts'
import { type Ending, toEnding as endingOf, worseEnding } from '../stream/ending.ts'
import { END_MARK, isHeartbeat, parseEvent, throwListed } from '../stream/event-json.ts'
import { reportedError, truncatedError, unreadableError } from '../stream/failure.ts'
import type { SseEvent } from '../stream/sse-event.ts'
import { TOOL_REASONS } from '../stream/tool-arguments.ts'
import type { Profile } from './profiles.ts'
import { addDetails } from './reasoning.ts'
import { createToolCallReader, type ToolCallReader } from './tool-calls.ts'
import { toTokenUsage } from './usage.ts'
import { createUsualChunks, isNothingButText } from './usual-chunk.ts'

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
  return {
    createEventDecoder: () => createEventDecoder(asked),
    decodeBody: (body) => decodeBody(body, asked),
    hidesCalls: !tools,
  }
}

/**
 * What one answer has held so far. Of its text the length and the last piece, by which a message that says all of it again is
 * known: one that says more is longer, and one that says something else ends otherwise.
 */
type Seen = { chars: number; lastText: string; reasoning: boolean; refusal: boolean; calls: ToolCallReader | undefined }

const nothingSeen = (): Seen => ({ chars: 0, lastText: '', reasoning: false, refusal: false, calls: undefined })

/**
 * What finish reasons mean, beside OpenAI's own: Together `eos`, Hugging Face `eos_token` and `stop_sequence`, Mistral
 * `model_length`, Z.ai `sensitive` and `model_context_window_exceeded`, and the words of Anthropic, Google and Cohere, which
 * some servers pass on. A reason that is not here is a failure, not an answer: it may mean that the model was stopped half way,
 * and nobody can tell.
 */
const OUTCOMES = new Map<string, Ending['outcome']>([
  ['stop', 'complete'],
  ['eos', 'complete'],
  ['eos_token', 'complete'],
  ['stop_sequence', 'complete'],
  ['end_turn', 'complete'],
  ['STOP', 'complete'],
  ['COMPLETE', 'complete'],
  ['TOOL_CALL', 'complete'],
  ['tool_calls', 'complete'],
  ['function_call', 'complete'],
  ['tool_use', 'complete'],
  ['length', 'length'],
  ['model_length', 'length'],
  ['max_tokens', 'length'],
  ['MAX_TOKENS', 'length'],
  ['MAX_TOKEN', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['content_filter', 'filtered'],
  ['sensitive', 'filtered'],
  ['refusal', 'filtered'],
])
/** What Google's filters are called, in small letters too. Its own interface of this kind says `content_filter: SAFETY`. */
const FILTERS = /^(content_filter:|(safety|recitation|prohibited_content|blocklist|spii)$)/i
/** What stands for no reason; one server writes out its null. */
const NOT_FINISHED: ReadonlySet<unknown> = new Set(['', 'null', null, undefined])

function createEventDecoder(asked: Asked): (event: SseEvent, draft: AnswerDraft) => void {
  const seen = nothingSeen()
  const usual = createUsualChunks()

  return function decode({ name, data, cut }, draft) {
    const trimmed = data.trim()
    // Text that follows a call is not usual: what is held back of the call goes before it.
    const usualText = name === undefined && !seen.calls ? usual.textOf(trimmed) : undefined
    if (usualText !== undefined) {
      draft.parts.push({ type: 'text', text: usualText })
      seen.chars += usualText.length
      seen.lastText = usualText
      draft.ending = undefined
      return
    }
    if (trimmed === END_MARK) {
      draft.done = true
      return
    }
    if (isHeartbeat(trimmed)) return
    const chunk = parseEvent(trimmed, cut)
    // The last event broke off: the engine decides by whether the finish reason had come.
    if (chunk === undefined) return
    throwReported(chunk, name)
    const usageBefore = draft.usage
    draft.usage = toTokenUsage(chunk.usage) ?? toTokenUsage(member(chunk.x_groq, 'usage')) ?? draft.usage

    const before = draft.parts.length
    let ending: Ending | undefined
    const choices = ourChoices(chunk)
    if (choices.length === 0) throwInstead(chunk)
    for (const choice of choices) {
      throwReported(choice)
      draft.usage = toTokenUsage(choice.usage) ?? draft.usage
      addDelta(choice, draft.parts, seen, asked)
      const reason = choice.finish_reason
      if (typeof reason === 'string' && !NOT_FINISHED.has(reason)) {
        ending = worseEnding(ending, toEnding(reason, seen, asked))
      }
    }
    draft.held = asked.tools ? seen.calls?.held : undefined
    // Some servers give every chunk a finish reason; only what nothing follows is one.
    if (draft.parts.length > before) draft.ending = undefined
    if (ending) draft.ending = ending
    else if (draft.usage === usageBefore && name === undefined) {
      const text = onlyText(choices, draft.parts.slice(before))
      if (text !== undefined) usual.learn(trimmed, text)
    }
  }
}

/** The text of a chunk that says nothing else, in its delta. */
function onlyText([choice, ...others]: readonly Json[], parts: readonly ChatPart[]): string | undefined {
  const [part] = parts
  if (others.length > 0 || parts.length !== 1 || part?.type !== 'text' || part.logprobs !== undefined) return undefined
  const delta = choice?.delta
  return isObject(delta) && delta.content === part.text && isNothingButText(delta) ? part.text : undefined
}

/**
 * Adds what a choice of a chunk says. Some servers put all of an answer into one `message`, or MiniMax all that its deltas have
 * said into a last one; whatever is beside the delta otherwise was either in a delta too, or is lost.
 * @throws ProviderError for words that are nowhere else.
 */
function addDelta(choice: Json, parts: ChatPart[], seen: Seen, asked: Asked): void {
  const { delta, message, text } = choice
  const before = parts.length
  const isFirst = seen.chars === 0 && !seen.reasoning && !seen.calls
  if (isObject(delta)) addMessage(delta, false, parts, seen, asked)
  else if (isFilled(delta)) throw unreadableError('content of an unknown kind')
  if (parts.length === before && isFirst && isObject(message)) addMessage(message, true, parts, seen, asked)
  if (parts.length === before) {
    const isRepeated = seen.chars > 0 && (isObject(delta) || (isObject(message) && repeats(message, seen)))
    if (isFilled(text) || (isFilled(member(message, 'content')) && !isRepeated)) {
      throw unreadableError('content outside of its delta')
    }
  }
  addLogprobs(choice.logprobs, parts, before, asked)
}

const repeats = ({ content, tool_calls: calls }: Json, seen: Seen) =>
  typeof content === 'string' &&
  content.length === seen.chars &&
  content.endsWith(seen.lastText) &&
  (!isFilled(calls) || seen.calls !== undefined)

function decodeBody(body: unknown, asked: Asked): ChatPart[] {
  throwListed(body)
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  throwReported(body)
  const parts: ChatPart[] = []
  const seen = nothingSeen()
  const choices = ourChoices(body)
  if (choices.length === 0) {
    throwInstead(body)
    throw unreadableError('an answer without choices')
  }
  let ending: Ending | undefined
  let usage = toTokenUsage(body.usage)
  for (const choice of choices) {
    throwReported(choice)
    const { message, finish_reason: reason } = choice
    const before = parts.length
    if (isObject(message)) addMessage(message, true, parts, seen, asked)
    else if ([message, choice.delta, choice.text].some(isFilled) || !mayBeEmpty(reason)) {
      throw unreadableError('an answer without a message')
    }
    addLogprobs(choice.logprobs, parts, before, asked)
    if (typeof reason !== 'string' || NOT_FINISHED.has(reason)) throw truncatedError()
    ending = worseEnding(ending, toEnding(reason, seen, asked))
    usage ??= toTokenUsage(choice.usage)
  }
  if (asked.tools) seen.calls?.release(parts)
  if (ending) parts.push({ type: 'end', ...ending, usage })
  return parts
}

/** Azure leaves the message out when its filter held back all of it, Google also when thinking took all tokens. */
const mayBeEmpty = (reason: unknown) => typeof reason === 'string' && toNamedEnding(reason).outcome !== 'complete'

function addMessage(message: Json, whole: boolean, parts: ChatPart[], seen: Seen, asked: Asked): void {
  addContent(message, parts, seen, asked)
  addToolCalls(message, whole, parts, seen, asked)
}

/**
 * Adds what a delta or a message says. A refusal is the text of its answer, and makes the outcome `filtered`: the
 * provider held back what was asked for, although it then says `stop`.
 */
function addContent(message: Json, parts: ChatPart[], seen: Seen, { origin, tools }: Asked): void {
  const start = parts.length
  addReasoning(message, origin, parts)
  addDetails(message.reasoning_details, parts.length > start, origin, parts)
  const before = parts.length
  addText(message.content, 'text', origin, parts)
  if (typeof message.refusal === 'string' && message.refusal !== '') {
    parts.push({ type: 'text', text: message.refusal })
    seen.refusal = true
  }
  seen.reasoning ||= before > start
  for (let at = before; at < parts.length; at++) {
    const part = parts[at]
    if (part?.type !== 'text') continue
    seen.chars += part.text.length
    seen.lastText = part.text
  }
  // What follows a call shows that it is whole, and comes after it.
  if (tools && seen.calls && parts.length > start) {
    const said = parts.splice(start)
    seen.calls.release(parts)
    parts.push(...said)
  }
}

/** The first of the fields that holds any; in a shape of its own it is left out, for it is no part of what was asked for. */
function addReasoning({ reasoning_content: content, reasoning }: Json, origin: string, parts: ChatPart[]): void {
  const thought = content === '' || content === undefined || content === null ? reasoning : content
  const isKnown = typeof thought === 'string' || typeof thought === 'number' || Array.isArray(thought)
  if (isKnown) addText(thought, 'reasoning', origin, parts)
}

/** Where Mistral's text comes from. */
const CITATIONS: ReadonlySet<unknown> = new Set(['reference', 'tool_reference'])

/**
 * Adds a string, or the `text` parts, `thinking` parts and citations (`reference`) that Mistral mixes into content, and the
 * `reasoning` parts of Databricks.
 */
function addText(content: unknown, type: 'text' | 'reasoning', origin: string, parts: ChatPart[]): void {
  if (typeof content === 'string') {
    if (content !== '') parts.push(type === 'text' ? { type, text: content } : { type, text: content, origin })
    return
  }
  if (content === undefined || content === null) return
  // Cloudflare does not quote a piece that is a number. Beyond these some digits may be others than were sent.
  if (typeof content === 'number' && Math.abs(content) <= Number.MAX_SAFE_INTEGER) {
    addText(String(content), type, origin, parts)
    return
  }
  if (!Array.isArray(content)) throw unreadableError('content of an unknown kind')
  for (const part of content) {
    if (isObject(part) && part.type === 'text') addText(part.text, type, origin, parts)
    else if (isObject(part) && part.type === 'thinking') addText(part.thinking, 'reasoning', origin, parts)
    else if (isObject(part) && part.type === 'reasoning') addSummary(part.summary, origin, parts)
    else if (!isObject(part) || !CITATIONS.has(part.type)) throw unreadableError('content of an unknown kind')
  }
}

/** What has no text is encrypted, and no part of what was asked for. */
function addSummary(summary: unknown, origin: string, parts: ChatPart[]): void {
  if (!Array.isArray(summary)) return
  for (const step of summary) {
    const text = member(step, 'text')
    if (typeof text === 'string') addText(text, 'reasoning', origin, parts)
  }
}

/** A call that no tool was offered for is noted, and told to nobody. `function_call` is the form before `tool_calls`. */
function addToolCalls(message: Json, whole: boolean, parts: ChatPart[], seen: Seen, { tools }: Asked): void {
  if (message.tool_calls === undefined && message.function_call === undefined) return
  const told = tools ? parts : []
  seen.calls ??= createToolCallReader()
  seen.calls.take(message.tool_calls, whole, told)
  if (isObject(message.function_call)) seen.calls.take([{ function: message.function_call }], whole, told)
}

/** Log probabilities belong to the text they came with, that is to the last part of it. */
function addLogprobs(logprobs: unknown, parts: ChatPart[], from: number, { logprobs: asked }: Asked): void {
  if (!asked || !isObject(logprobs)) return
  const part = parts.slice(from).findLast(({ type }) => type === 'text')
  if (part?.type === 'text') part.logprobs = logprobs
}

const toNamedEnding = (reason: string): Ending =>
  FILTERS.test(reason) ? { outcome: 'filtered', nativeFinishReason: reason } : endingOf(OUTCOMES, reason)

function toEnding(reason: string, { chars, refusal, calls }: Seen, { tools }: Asked): Ending {
  const ending = toNamedEnding(reason)
  if (calls?.unnamed) throw unreadableError('a tool call without a name')
  // Without any text there is nothing to hand on, only a question that nobody here can answer.
  if (!tools && chars === 0 && (TOOL_REASONS.has(reason) || calls?.any)) {
    throw unreadableError('a tool call instead of an answer')
  }
  return refusal && ending.outcome === 'complete' ? { ...ending, outcome: 'filtered' } : ending
}

/**
 * Errors come as `error` in a chunk or a choice, as an `error` event, bare with `object: "error"` (vLLM), or in `x_groq`, where
 * Groq tells why it stopped a stream.
 */
function throwReported(value: Json, eventName?: string): void {
  if (isFilled(value.error)) throw reportedError(value.error)
  if (value.x_groq !== undefined) throwReported({ error: member(value.x_groq, 'error') })
  if (value.object === 'error' || eventName === 'error') throw reportedError(value)
}

/** @throws ProviderError for an error in the place of an answer, in members of its own: `detail`, or `error_message`. */
function throwInstead(value: Json): void {
  const { error_type: type = value.type, error_message: message = value.message, detail } = value
  if ([value.error_type, value.error_message, detail].some(isFilled)) throw reportedError({ ...value, type, message })
}

/** Whether there is anything in it. Some servers have an empty `error` in every good answer. */
function isFilled(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length > 0
  return value !== undefined && value !== null && value !== '' && value !== false
}

/**
 * The one choice we asked for, which some proxies cut in two, its text and its tool calls; none in chunks that only carry usage
 * or filter results.
 */
function ourChoices({ choices }: Json): Json[] {
  if (choices === undefined || choices === null) return []
  if (!Array.isArray(choices)) throw unreadableError('choices that are no list')
  return choices.filter((choice): choice is Json => {
    if (!isObject(choice)) throw unreadableError('a choice that is no object')
    const index = choice.index ?? 0
    if (typeof index !== 'number') throw unreadableError('a choice whose index is no number')
    return index === 0
  })
}
