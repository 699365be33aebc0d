import { isObject, type Json, member } from '../../../platform/text/json.ts'
import { ORIGIN, signatureOf, synthesisedId } from '../../part-signature.ts'
import { type ChatPart, type NativeKind, ProviderError } from '../../provider.ts'
import type { AnswerDraft, AnswerFormat } from '../stream/answer-format.ts'
import { type Ending, toEnding as endingOf, worseEnding } from '../stream/ending.ts'
import { END_MARK, isHeartbeat, parseEvent } from '../stream/event-json.ts'
import { reportedError, truncatedError, unreadableError } from '../stream/failure.ts'
import type { SseEvent } from '../stream/sse-event.ts'
import { toLogprobs } from './logprobs.ts'
import { toTokenUsage } from './usage.ts'

/**
 * Decodes answers of Gemini models. Only some intermediaries send an end marker. Each event is a response with the same
 * structure, and the last event with a candidate contains the finish reason.
 */
export const googleFormat: AnswerFormat = formatOf({ isNative: false })

/** For requests in Gemini's own form: the answer also has the steps of server tools, and metadata such as citations. */
export const nativeFormat: AnswerFormat = formatOf({ isNative: true })

/** The content that one answer has so far. `isNative`: whether it includes parts that only this API has. */
type Seen = { toolCalls: number; content: boolean; isNative: boolean }
type Form = Pick<Seen, 'isNative'>

/**
 * Finish reasons and their outcomes. Reasons that indicate a failure (OTHER, MALFORMED_FUNCTION_CALL,
 * UNEXPECTED_TOOL_CALL …) are intentionally not listed. Unknown reasons are failures too, because the model may have
 * been stopped early. Some proxies send numeric enum values instead of names. The numbers have the same meaning in all
 * API versions.
 */
const OUTCOMES = new Map<string, Ending['outcome']>([
  ['STOP', 'complete'],
  ['1', 'complete'],
  ['MAX_TOKENS', 'length'],
  ['2', 'length'],
  ['SAFETY', 'filtered'],
  ['3', 'filtered'],
  ['RECITATION', 'filtered'],
  ['4', 'filtered'],
  ['LANGUAGE', 'filtered'],
  ['BLOCKLIST', 'filtered'],
  ['PROHIBITED_CONTENT', 'filtered'],
  ['SPII', 'filtered'],
  ['MODEL_ARMOR', 'filtered'],
  ['IMAGE_SAFETY', 'filtered'],
  ['IMAGE_PROHIBITED_CONTENT', 'filtered'],
  ['IMAGE_RECITATION', 'filtered'],
])
const NOT_FINISHED = new Set(['', '0', 'FINISH_REASON_UNSPECIFIED'])

/** Steps of Google's server tools. These steps are not part of the answer. */
const SERVER_STEPS = new Set(['executableCode', 'codeExecutionResult', 'toolCall', 'toolResponse'])
/** Members of a candidate that describe the sources of an answer. */
const METADATA = ['groundingMetadata', 'citationMetadata', 'urlContextMetadata'] as const
/**
 * The known members of a part. If a part has any other member, it is never skipped, because it may be requested
 * content, such as an image.
 */
const READ_MEMBERS = new Set(['text', 'thought', 'thoughtSignature', 'functionCall', 'partMetadata'])

function formatOf(form: Form): AnswerFormat {
  return {
    createEventDecoder: () => createEventDecoder(form),
    decodeBody: (body) => decodeBody(body, form),
    endsWithBody: true,
  }
}

function createEventDecoder({ isNative }: Form): (event: SseEvent, draft: AnswerDraft) => void {
  const seen: Seen = { toolCalls: 0, content: false, isNative }

  return function decode({ data, cut }, draft) {
    const trimmed = data.trim()
    if (trimmed === END_MARK) {
      draft.done = true
      return
    }
    if (isHeartbeat(trimmed)) return
    const response = parseEvent(trimmed, cut)
    if (response) decodeResponse(response, draft, seen)
    // If the stream ends with incomplete data, this data is always a part of the answer, because no other data follows
    // the last response.
    else draft.ending = undefined
  }
}

/** Decodes a response, or the list of responses that a stream without `alt=sse` returns. */
function decodeBody(body: unknown, { isNative }: Form): ChatPart[] {
  const draft: AnswerDraft = { parts: [], ending: undefined, usage: undefined, done: false }
  const seen: Seen = { toolCalls: 0, content: false, isNative }
  for (const response of Array.isArray(body) ? body : [body]) {
    if (!isObject(response)) throw unreadableError('an answer that is not an object')
    decodeResponse(response, draft, seen)
  }
  if (!draft.ending) throw truncatedError()
  return [...draft.parts, { type: 'end', ...draft.ending, usage: draft.usage }]
}

function decodeResponse(response: Json, draft: AnswerDraft, seen: Seen): void {
  if (response.error !== undefined && response.error !== null) throw reportedError(response.error)
  const candidate = firstCandidate(response)
  throwBlocked(response.promptFeedback, candidate)

  if (candidate) {
    const before = draft.parts.length
    addContent(candidate, response.responseId, draft.parts, seen)
    // Gemini 1 sends a finish reason in every response. Only the last finish reason is used.
    if (draft.parts.length > before) {
      draft.ending = undefined
      seen.content = true
    }
    const ending = toEnding(candidate.finishReason)
    if (ending) draft.ending = worseEnding(draft.ending, ending)
    // Gemini 1 sends sources after the finish reason.
    if (seen.isNative) addMetadata(candidate, draft.parts, seen)
  }

  const usage = toTokenUsage(response.usageMetadata)
  // Counts are cumulative. If the answer has content, counts without output tokens are not final.
  if (usage && (usage.outputTokens > 0 || !seen.content)) draft.usage = usage
}

function addContent({ content, logprobsResult }: Json, responseId: unknown, parts: ChatPart[], seen: Seen): void {
  const received = member(content, 'parts')
  if (received === undefined || received === null) return
  if (!Array.isArray(received)) throw unreadableError('content of an unknown kind')
  let logprobs = toLogprobs(logprobsResult)

  for (const part of received) {
    if (!isObject(part)) throw unreadableError('content of an unknown kind')
    const others = Object.keys(part).filter((name) => part[name] !== null && !READ_MEMBERS.has(name))
    if (others.some((name) => SERVER_STEPS.has(name))) {
      if (seen.isNative) parts.push(toNative('block', part, seen))
      continue
    }
    if (others.length > 0) throw unreadableError('content of an unknown kind')
    const { text, functionCall } = part
    const signature = typeof part.thoughtSignature === 'string' ? part.thoughtSignature : undefined
    if (functionCall !== undefined && functionCall !== null) {
      addToolCall(functionCall, signature, responseId, parts, seen)
    } else if (part.thought === true) {
      const signed = signature === undefined ? {} : { signature }
      if (hasText(text) || signature !== undefined) {
        parts.push({ type: 'reasoning', text: hasText(text) ? text : '', origin: ORIGIN, ...signed })
      }
    } else {
      if (hasText(text)) {
        parts.push(logprobs === undefined ? { type: 'text', text } : { type: 'text', text, logprobs })
        logprobs = undefined
      }
      if (signature !== undefined) parts.push(signatureOf('', signature))
    }
  }
}

/** Sources and citations of an answer. They contain text of other sites, so they pass the guards like tool calls. */
function addMetadata(candidate: Json, parts: ChatPart[], seen: Seen): void {
  const metadata = METADATA.filter((name) => isObject(candidate[name])).map((name) => [name, candidate[name]])
  if (metadata.length > 0) parts.push(toNative('citation', Object.fromEntries(metadata), seen))
}

const toNative = (native: NativeKind, value: Json, seen: Seen): ChatPart => ({
  type: 'tool_call',
  index: seen.toolCalls++,
  id: '',
  name: '',
  arguments: JSON.stringify(value),
  native,
})

/**
 * A tool call arrives complete, with its arguments as an object. Google streams arguments only on request, and the
 * gateway does not request this.
 */
function addToolCall(call: unknown, signature: string | undefined, responseId: unknown, parts: ChatPart[], seen: Seen) {
  if (!isObject(call) || typeof call.name !== 'string' || call.name === '') {
    throw unreadableError('a tool call without a name')
  }
  if (call.partialArgs !== undefined || call.willContinue === true) throw unreadableError('a tool call in pieces')
  const index = seen.toolCalls++
  const id = typeof call.id === 'string' && call.id !== '' ? call.id : synthesisedId(index, responseId)
  if (signature !== undefined) parts.push(signatureOf(id, signature))
  parts.push({ type: 'tool_call', index, id, name: call.name, arguments: JSON.stringify(call.args ?? {}) })
}

/**
 * Throws if the prompt was rejected. The reason of the rejection is only for the provider log. An unspecified reason is
 * ignored if there is an answer.
 */
function throwBlocked(feedback: unknown, candidate: Json | undefined): void {
  const reason = member(feedback, 'blockReason')
  const isBlocked = reason && !(candidate && reason === 'BLOCK_REASON_UNSPECIFIED')
  if (!isBlocked && !member(feedback, 'blockReasonMessage')) return
  throw new ProviderError('content_filter', 'The provider rejected the prompt.')
}

function toEnding(finishReason: unknown): Ending | undefined {
  if (finishReason === undefined || finishReason === null || NOT_FINISHED.has(String(finishReason))) return undefined
  return endingOf(OUTCOMES, String(finishReason))
}

/**
 * Returns the only candidate of the response, because each call requests one. Returns undefined for responses that
 * contain only usage or feedback.
 */
function firstCandidate({ candidates }: Json): Json | undefined {
  if (!Array.isArray(candidates)) return undefined
  const ours = candidates.filter((candidate): candidate is Json => isObject(candidate) && (candidate.index ?? 0) === 0)
  if (ours.length > 1) throw unreadableError('two answers at once')
  return ours[0]
}

const hasText = (value: unknown): value is string => typeof value === 'string' && value !== ''
