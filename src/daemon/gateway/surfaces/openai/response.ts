import {
  OPENAI_CHAT_PATH,
  type OpenAiChatResponse,
  type OpenAiDelta,
  type OpenAiError,
  type OpenAiFinishReason,
  type OpenAiUsage,
} from '../../../../shared/wire/openai.ts'
import type { Reasoning, ToolCall } from '../../../models/conversation.ts'
import { toCustomInput } from '../../../models/custom-tools.ts'
import type { ChatPart, TokenUsage } from '../../../models/provider.ts'
import { SSE_DONE, SSE_KEEP_ALIVE, sseFrame } from '../../../platform/http/sse.ts'
import { toJsonString } from '../../../platform/text/json-string.ts'
import { writingJson } from '../../../platform/text/json-writer.ts'
import type { Answer, Envelope, Finish } from '../../chat/answer-contract.ts'
import { type AnswerItem, createAnswerItems, isSealed, withPart } from '../../chat/answer-items.ts'
import { JsonBody } from '../../chat/answer-rendering.ts'
import { toExtension } from '../../chat/extension.ts'
import { createNativeParts, toTypedObject } from '../../chat/native-parts.ts'
import { type StreamWording, streamInWords } from '../../chat/streamed-answer.ts'
import type { Surface } from '../../chat/surface.ts'
import { toAnnotations, toChatAnnotation } from '../annotations.ts'
import { createCallChunks } from './call-chunks.ts'
import type { CallStyle } from './tools.ts'

/** How the answer to a request is rendered. */
type Shown = {
  /** Whether a stream ends with a usage chunk. */
  includeUsage: boolean
  /** Undefined: calls are calls of functions. */
  style?: CallStyle | undefined
}

/** Renders answers in OpenAI's format. */
export const openAiSurface = ({ includeUsage, style }: Shown): Surface => ({
  path: OPENAI_CHAT_PATH,
  errors: 'openai',
  isCompatible: true,
  whole: (envelope) => wholeAnswer(envelope, style),
  streamed: (envelope, stream) => streamInWords(openAiWording(envelope, { includeUsage, style }), stream),
  keepAlive: { frame: SSE_KEEP_ALIVE, opens: true },
})

function wholeAnswer(envelope: Envelope, style: CallStyle | undefined): Answer {
  const { id, created, model } = envelope
  const items = createAnswerItems()
  const json = new JsonBody()
  return {
    add(parts) {
      for (const part of parts) items.add(part)
      return true
    },
    drained: () => Promise.resolve(),
    close(finish, usage, isLarge) {
      const message = toMessage(items.all, style)
      const value = {
        id: toCompletionId(id),
        object: 'chat.completion',
        created,
        model,
        choices: [
          {
            index: 0,
            message,
            logprobs: toLogprobs(items.all),
            finish_reason: toFinishReason(finish, calledIn(message)),
          },
        ],
        usage: toUsage(usage),
        gateway: toExtension(envelope),
      } satisfies OpenAiChatResponse
      return isLarge ? json.renderParts(writingJson(value)) : json.render(JSON.stringify(value))
    },
    // No byte has been sent yet, so the error itself becomes the response.
    fail: () => undefined,
    abandon: () => null,
    send: () => json.send(),
  }
}

type Message = OpenAiChatResponse['choices'][number]['message']

const calledIn = ({ tool_calls: calls, function_call: called }: Message): CallReason | undefined =>
  calls ? 'tool_calls' : called && 'function_call'

function toMessage(all: readonly AnswerItem[], style: CallStyle | undefined): Message {
  const texts = all.flatMap((items) => (items.type === 'text' ? items.text : []))
  const steps = all.flatMap((items) => (items.type === 'reasoning' ? items.step : []))
  const calls = all.flatMap((items) => (items.type === 'tool_call' ? items.call : []))
  const annotations = all.flatMap((items) => (items.type === 'text' ? toAnnotations(items.annotations) : []))
  const reasoning = steps.map(({ text }) => text).join('')
  const sealed = steps.filter(isSealed)
  return {
    role: 'assistant',
    content: texts.length === 0 && calls.length > 0 ? null : texts.join(''),
    refusal: null,
    ...(annotations.length > 0 && { annotations: annotations.map(toChatAnnotation) }),
    ...(calls.length > 0 && toCalls(calls, style)),
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(sealed.length > 0 && { reasoning_details: sealed.map(toDetail) }),
  }
}

/** The older form has room for one call. Clients send its result, and the model then calls the next function. */
function toCalls(calls: readonly ToolCall[], style: CallStyle | undefined): Partial<Message> {
  const [first] = calls
  if (style?.isOld) return first ? { function_call: { name: first.name, arguments: first.arguments } } : {}
  return {
    tool_calls: calls.map((call) => {
      const { id, name, arguments: text } = call
      return style?.custom.has(name)
        ? { id, type: 'custom', custom: { name, input: toCustomInput(call) } }
        : { id, type: 'function', function: { name, arguments: text } }
    }),
  }
}

/** Joins the logprobs of all pieces. The token lists with the same name (`content` or `refusal`) are concatenated. */
function toLogprobs(all: readonly AnswerItem[]): Record<string, unknown> | null {
  const pieces = all.flatMap((items) => (items.type === 'text' ? items.logprobs : []))
  if (pieces.length === 0) return null
  const merged: Record<string, unknown> = {}
  for (const piece of pieces) {
    for (const [name, value] of Object.entries(piece as object)) {
      const known = merged[name]
      merged[name] = Array.isArray(known) && Array.isArray(value) ? [...known, ...value] : (value ?? known)
    }
  }
  return merged
}

/** Renders parts as chunks with one delta each. Only the first chunk has the field `gateway`. */
function openAiWording(envelope: Envelope, { includeUsage, style }: Shown): StreamWording {
  const { id, created, model } = envelope
  // Only the choice of a chunk varies, so the constant part is rendered once.
  const before =
    `data: {"id":"${toCompletionId(id)}","object":"chat.completion.chunk","created":${created},` +
    `"model":${JSON.stringify(model)},"choices":`
  const after = includeUsage ? ',"usage":null}\n\n' : '}\n\n'
  const firstAfter = `,"gateway":${JSON.stringify(toExtension(envelope))}${after}`
  const calls = style && createCallChunks(style)
  let begun = false
  let called: CallReason | undefined
  let step: Reasoning | undefined
  const natives = createNativeParts()

  function chunk(delta: string, more = '', finish: OpenAiFinishReason | null = null): string {
    const isFirst = !begun
    begun = true
    const reason = finish === null ? 'null' : `"${finish}"`
    const role = isFirst ? `"role":"assistant"${delta === '' ? '' : ','}` : ''
    return `${before}[{"index":0,"delta":{${role}${delta}}${more},"finish_reason":${reason}}]${isFirst ? firstAfter : after}`
  }

  function framesOf(part: ChatPart): string {
    if (part.type !== 'reasoning' && part.type !== 'usage') step = undefined
    switch (part.type) {
      case 'text': {
        const logprobs = part.logprobs === undefined ? '' : `,"logprobs":${JSON.stringify(part.logprobs)}`
        return chunk(`"content":${toJsonString(part.text)}`, logprobs)
      }
      case 'reasoning': {
        step = withPart(step, part)
        const details = isSealed(step) ? { reasoning_details: [toDetail(step)] } : {}
        return chunk(membersOf({ ...(part.text !== '' && { reasoning_content: part.text }), ...details }))
      }
      case 'tool_call': {
        const native = natives.add(part)
        if (native === 'partial') return ''
        if (native) {
          if (native.kind !== 'annotation') return ''
          return chunk(membersOf({ annotations: [toChatAnnotation(toTypedObject(native.value))] }))
        }
        called = style?.isOld ? 'function_call' : 'tool_calls'
        if (calls)
          return calls
            .add(part)
            .map((delta) => chunk(membersOf(delta)))
            .join('')
        const { index, id: callId, name, arguments: text } = part
        const start = callId === undefined ? {} : { id: callId, type: 'function' as const }
        return chunk(membersOf({ tool_calls: [{ index, ...start, function: { name, arguments: text } }] }))
      }
      case 'usage':
      case 'end':
        return ''
      default:
        return part satisfies never
    }
  }

  return {
    say(parts) {
      let frames = ''
      for (const part of parts) frames += framesOf(part)
      return frames
    },
    end(finish, usage) {
      const inputs = calls ? calls.end().map((delta) => chunk(membersOf(delta))) : []
      const last = inputs.join('') + chunk('', '', toFinishReason(finish, called))
      const counted = includeUsage ? `${before}[],"usage":${JSON.stringify(toUsage(usage))}}\n\n` : ''
      return last + counted + SSE_DONE
    },
    fail: ({ message, reason, retryable, verdict, attempts }) =>
      sseFrame({
        success: false,
        error: { message, type: 'server_error', code: reason },
        retryable,
        request_id: id,
        ...verdict,
        ...(attempts && { attempts }),
      } satisfies OpenAiError),
  }
}

/** Returns a delta as JSON without its braces. */
const membersOf = (delta: OpenAiDelta): string => JSON.stringify(delta).slice(1, -1)

const toCompletionId = (requestId: string) => `chatcmpl-${requestId.replace(/^req-/, '')}`

type CallReason = 'tool_calls' | 'function_call'

const toFinishReason = (finish: Finish, called: CallReason | undefined): OpenAiFinishReason =>
  finish === 'stop' && called ? called : finish

const toDetail = ({ origin, text, signature, data }: Reasoning) => ({
  origin,
  ...(text !== '' && { text }),
  ...(signature !== undefined && { signature }),
  ...(data !== undefined && { data }),
})

export const toUsage = ({ inputTokens, outputTokens, cacheReadTokens, reasoningTokens }: TokenUsage): OpenAiUsage => ({
  prompt_tokens: inputTokens,
  completion_tokens: outputTokens,
  total_tokens: inputTokens + outputTokens,
  prompt_tokens_details: { cached_tokens: cacheReadTokens },
  completion_tokens_details: { reasoning_tokens: reasoningTokens },
})
