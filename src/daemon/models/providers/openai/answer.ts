// Decodes chat completions from OpenAI and compatible servers. This file is long, because the dialects differ in many
// details.
import { appendTo } from '../../../../shared/lists.ts'
import { isObject, type Json, member } from '../../../platform/text/json.ts'
import { asksForAudio } from '../../conversation.ts'
import type { ChatPart, ProviderCall } from '../../provider.ts'
import type { AnswerDraft, AnswerFormat } from '../stream/answer-format.ts'
import { type Ending, toEnding as endingOf, worseEnding } from '../stream/ending.ts'
import { END_MARK, isHeartbeat, parseEvent, throwListed } from '../stream/event-json.ts'
import { reportedError, truncatedError, unreadableError } from '../stream/failure.ts'
import type { SseEvent } from '../stream/sse-event.ts'
import { TOOL_REASONS } from '../stream/tool-arguments.ts'
import { choicesFormat } from './choices.ts'
import type { Profile } from './profiles.ts'
import { addDetails } from './reasoning.ts'
import { addAnnotations, addSources } from './sources.ts'
import { createToolCallReader, type ToolCallReader } from './tool-calls.ts'
import { toTokenUsage } from './usage.ts'
import { createUsualChunks, isNothingButText } from './usual-chunk.ts'

/** The properties of the request that affect how the answer is read. */
type Asked = {
  /** Whether the request offered tools, so that the answer may be a tool call. */
  tools: boolean
  logprobs: boolean
  /** Whether the request asks for a spoken answer. */
  audio: boolean
  /** The origin of reasoning. */
  origin: string
}

/** Decodes answers to this call from OpenAI and compatible servers. */
export function openAiFormat(call: Pick<ProviderCall, 'options'>, profile: Profile): AnswerFormat {
  const one = formatOfOne(call, profile)
  const { choices } = call.options ?? {}
  return choices === undefined ? one : choicesFormat(one, choices)
}

function formatOfOne({ options }: Pick<ProviderCall, 'options'>, { origin }: Profile): AnswerFormat {
  const tools = (options?.tools?.length ?? 0) > 0 && options?.toolChoice !== 'none'
  const audio = options !== undefined && asksForAudio(options)
  const asked = { tools, logprobs: options?.logprobs === true, audio, origin }
  return {
    createEventDecoder: () => createEventDecoder(asked),
    decodeBody: (body) => decodeBody(body, asked),
    hidesCalls: !tools,
  }
}

/**
 * The content that one answer has so far. Some servers repeat the whole text in a final message. A message counts as a
 * repetition if it is as long as the text so far and ends with the last chunk.
 */
type Seen = {
  chars: number
  lastText: string
  reasoning: boolean
  refusal: boolean
  calls: ToolCallReader | undefined
  annotations: number
}

const nothingSeen = (): Seen => ({
  chars: 0,
  lastText: '',
  reasoning: false,
  refusal: false,
  calls: undefined,
  annotations: 0,
})

/**
 * Finish reasons and their outcomes. Some servers have their own finish reasons. Together sends `eos`, Hugging Face
 * `eos_token` and `stop_sequence`, Mistral `model_length`, and Z.ai `sensitive` and `model_context_window_exceeded`.
 * Some servers pass on finish reasons from Anthropic, Google and Cohere. An unknown reason is a failure, because the
 * model may have been stopped early.
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
/** Google's filters, in upper or lower case. Its OpenAI-compatible API sends `content_filter: SAFETY`. */
const FILTERS = /^(content_filter:|(safety|recitation|prohibited_content|blocklist|spii)$)/i
/** Values that mean "no finish reason". One server sends the string "null". */
const NOT_FINISHED: ReadonlySet<unknown> = new Set(['', 'null', null, undefined])

function createEventDecoder(asked: Asked): (event: SseEvent, draft: AnswerDraft) => void {
  const seen = nothingSeen()
  const usual = createUsualChunks()

  return function decode({ name, data, cut }, draft) {
    const trimmed = data.trim()
    // Text that follows a tool call uses the slow path, because that path first adds the held part of the call.
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
    // If the last event is incomplete, it is ignored. The assembly checks whether the finish reason was already
    // received.
    if (chunk === undefined) return
    throwReported(chunk, name)
    const usageBefore = draft.usage
    const { service_tier: tier } = chunk
    draft.usage = toTokenUsage(chunk.usage, tier) ?? toTokenUsage(member(chunk.x_groq, 'usage'), tier) ?? draft.usage

    const before = draft.parts.length
    let ending: Ending | undefined
    const choices = ourChoices(chunk)
    if (choices.length === 0) throwInstead(chunk)
    for (const choice of choices) {
      throwReported(choice)
      draft.usage = toTokenUsage(choice.usage, tier) ?? draft.usage
      addDelta(choice, draft.parts, seen, asked)
      const reason = choice.finish_reason
      if (typeof reason === 'string' && !NOT_FINISHED.has(reason)) {
        ending = worseEnding(ending, toEnding(reason, seen, asked))
        addSources(chunk, draft.parts, seen)
      }
    }
    draft.held = asked.tools ? seen.calls?.held : undefined
    // Some servers send a finish reason in every chunk. Only the last finish reason is used.
    if (draft.parts.length > before && addsContent(draft.parts, before)) draft.ending = undefined
    if (ending) draft.ending = ending
    else if (draft.usage === usageBefore && name === undefined) {
      const text = onlyText(choices, draft.parts.slice(before))
      if (text !== undefined) usual.learn(trimmed, text)
    }
  }
}

/** Annotations and the expiry of audio belong to content that has arrived. Some servers send them after the finish reason. */
function addsContent(parts: readonly ChatPart[], from: number): boolean {
  return parts
    .slice(from)
    .some((part) =>
      part.type === 'tool_call' ? part.native !== 'annotation' : part.type !== 'audio' || part.data !== undefined,
    )
}

/** Returns a chunk's text if the chunk's delta contains nothing else. */
function onlyText([choice, ...others]: readonly Json[], parts: readonly ChatPart[]): string | undefined {
  const [part] = parts
  if (others.length > 0 || parts.length !== 1 || part?.type !== 'text' || part.logprobs !== undefined) return undefined
  const delta = choice?.delta
  return isObject(delta) && delta.content === part.text && isNothingButText(delta) ? part.text : undefined
}

/**
 * Adds the content of a choice. Some servers put a whole answer into one `message`, and MiniMax repeats all deltas in a
 * last message. All other content outside a delta must repeat the deltas. Content that does not repeat them would be
 * lost, so it is an error.
 * @throws ProviderError if content is missing from the deltas
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
      throw unreadableError('content outside its delta')
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
  let usage = toTokenUsage(body.usage, body.service_tier)
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
    usage ??= toTokenUsage(choice.usage, body.service_tier)
  }
  if (asked.tools) seen.calls?.release(parts)
  addSources(body, parts, seen)
  if (ending) parts.push({ type: 'end', ...ending, usage })
  return parts
}

/**
 * Azure omits the message if Azure's filter withheld the whole message. Google also omits the message if thinking used
 * all tokens.
 */
const mayBeEmpty = (reason: unknown) => typeof reason === 'string' && toNamedEnding(reason).outcome !== 'complete'

function addMessage(message: Json, whole: boolean, parts: ChatPart[], seen: Seen, asked: Asked): void {
  addContent(message, parts, seen, asked)
  addToolCalls(message, whole, parts, seen, asked)
  if (message.annotations !== undefined) addAnnotations(message.annotations, parts, seen)
}

/**
 * Adds the content of a delta or a message. If the model refuses, the refusal becomes the text, and the outcome is
 * `filtered`: the requested content was withheld, although the server reports `stop`.
 */
function addContent(message: Json, parts: ChatPart[], seen: Seen, { origin, tools, audio }: Asked): void {
  const start = parts.length
  addReasoning(message, origin, parts)
  addDetails(message.reasoning_details, parts.length > start, origin, parts)
  const before = parts.length
  addText(message.content, 'text', origin, parts)
  if (audio && isObject(message.audio)) addAudio(message.audio, origin, parts)
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
  // Content that follows a tool call shows that the call is complete, so the call is added first.
  if (tools && seen.calls && parts.length > start) {
    const said = parts.splice(start)
    seen.calls.release(parts)
    appendTo(parts, said)
  }
}

/**
 * Adds the first non-empty reasoning field. Non-standard forms are dropped, because reasoning is not part of the
 * requested answer.
 */
function addReasoning({ reasoning_content: content, reasoning }: Json, origin: string, parts: ChatPart[]): void {
  const thought = content === '' || content === undefined || content === null ? reasoning : content
  const isKnown = typeof thought === 'string' || typeof thought === 'number' || Array.isArray(thought)
  if (isKnown) addText(thought, 'reasoning', origin, parts)
}

/** Types of Mistral's citations. */
const CITATIONS: ReadonlySet<unknown> = new Set(['reference', 'tool_reference'])

/**
 * Adds content: a string, the `text` parts, `thinking` parts and citations (`reference`) of Mistral, or the `reasoning`
 * parts of Databricks.
 */
function addText(content: unknown, type: 'text' | 'reasoning', origin: string, parts: ChatPart[]): void {
  if (typeof content === 'string') {
    if (content !== '') parts.push(type === 'text' ? { type, text: content } : { type, text: content, origin })
    return
  }
  if (content === undefined || content === null) return
  // If a text chunk looks like a number, Cloudflare sends it as a JSON number. For larger numbers, parsing may change
  // digits.
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

/** Adds spoken content. Its transcript is a text, so that guards inspect it. */
function addAudio({ id, data, transcript, expires_at: expiresAt }: Json, origin: string, parts: ChatPart[]): void {
  const audio = {
    ...(typeof id === 'string' && id !== '' && { id }),
    ...(typeof data === 'string' && data !== '' && { data }),
    ...(typeof expiresAt === 'number' && Number.isSafeInteger(expiresAt) && { expiresAt }),
  }
  if (Object.keys(audio).length > 0) parts.push({ type: 'audio', ...audio })
  addText(transcript, 'text', origin, parts)
}

/** A summary without text is encrypted reasoning. It is not part of the requested answer. */
function addSummary(summary: unknown, origin: string, parts: ChatPart[]): void {
  if (!Array.isArray(summary)) return
  for (const step of summary) {
    const text = member(step, 'text')
    if (typeof text === 'string') addText(text, 'reasoning', origin, parts)
  }
}

/**
 * If no tools were offered, tool calls are recorded but not passed on. `function_call` is the older form of
 * `tool_calls`.
 */
function addToolCalls(message: Json, whole: boolean, parts: ChatPart[], seen: Seen, { tools }: Asked): void {
  if (message.tool_calls === undefined && message.function_call === undefined) return
  const told = tools ? parts : []
  seen.calls ??= createToolCallReader()
  seen.calls.take(message.tool_calls, whole, told)
  if (isObject(message.function_call)) seen.calls.take([{ function: message.function_call }], whole, told)
}

/** Adds a chunk's log probabilities to the last part from this chunk, because they belong to the chunk's text. */
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
  // If no tools were offered, an answer that consists only of a tool call is an error, because the caller cannot
  // execute the call.
  if (!tools && chars === 0 && (TOOL_REASONS.has(reason) || calls?.any)) {
    throw unreadableError('a tool call instead of an answer')
  }
  return refusal && ending.outcome === 'complete' ? { ...ending, outcome: 'filtered' } : ending
}

/**
 * Throws the error that a server reports. Does nothing if the value contains no error. Servers report errors as `error`
 * in a chunk or a choice, as an `error` event, or as an object with `object: "error"` (vLLM). Groq reports the reason
 * for stopping a stream in `x_groq`.
 */
function throwReported(value: Json, eventName?: string): void {
  if (isFilled(value.error)) throw reportedError(value.error)
  if (value.x_groq !== undefined) throwReported({ error: member(value.x_groq, 'error') })
  if (value.object === 'error' || eventName === 'error') throw reportedError(value)
}

/** @throws ProviderError if the body contains an error instead of an answer, in `detail` or `error_message` */
function throwInstead(value: Json): void {
  const { error_type: type = value.type, error_message: message = value.message, detail } = value
  if ([value.error_type, value.error_message, detail].some(isFilled)) throw reportedError({ ...value, type, message })
}

/** Whether a value is non-empty. Some servers send an empty `error` in every successful answer. */
function isFilled(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length > 0
  return value !== undefined && value !== null && value !== '' && value !== false
}

/**
 * Returns the requested choice as a list, usually of one element. Some proxies split the choice into two, one with the
 * text and one with the tool calls. Returns an empty list for chunks that contain only usage or filter results.
 */
function ourChoices({ choices }: Json): Json[] {
  if (choices === undefined || choices === null) return []
  if (!Array.isArray(choices)) throw unreadableError('choices that are not a list')
  return choices.filter((choice): choice is Json => {
    if (!isObject(choice)) throw unreadableError('a choice that is not an object')
    const index = choice.index ?? 0
    if (typeof index !== 'number') throw unreadableError('a choice whose index is not a number')
    return index === 0
  })
}
