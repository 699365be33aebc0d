// Renders streams of chat completions.
import type { OpenAiDelta, OpenAiError, OpenAiFinishReason } from '../../../../shared/wire/openai.ts'
import type { Reasoning } from '../../../models/conversation.ts'
import type { ChatPart } from '../../../models/provider.ts'
import { SSE_DONE, sseFrame } from '../../../platform/http/sse.ts'
import { toJsonString } from '../../../platform/text/json-string.ts'
import { type Envelope, type Finish, finishOfChoice } from '../../chat/answer-contract.ts'
import { isSealed, withPart } from '../../chat/answer-items.ts'
import { toExtension } from '../../chat/extension.ts'
import { createNativeParts, toTypedObject } from '../../chat/native-parts.ts'
import type { StreamWording } from '../../chat/streamed-answer.ts'
import { toChatAnnotation } from '../annotations.ts'
import { type CallReason, toCompletionId, toDetail, toFinishReason, toUsage } from './answer-members.ts'
import { createCallChunks } from './call-chunks.ts'
import type { CallStyle } from './tools.ts'

/** How the answer to a request is rendered. */
export type Shown = {
  /** Whether a stream ends with a usage chunk. */
  includeUsage: boolean
  /** Undefined: calls are calls of functions. */
  style?: CallStyle | undefined
  /** The number of answers. Undefined: one. */
  choices?: number | undefined
}

/** The constant parts of all chunks of a stream. Only the first chunk has the field `gateway`. */
type Frame = { before: string; after: string; firstAfter: string; isBegun: boolean }

/** Renders parts as chunks with one delta each. */
export function openAiWording(envelope: Envelope, { includeUsage, style, choices: count = 1 }: Shown): StreamWording {
  const { id, created, model } = envelope
  // Only the choice of a chunk varies, so the constant part is rendered once.
  const before =
    `data: {"id":"${toCompletionId(id)}","object":"chat.completion.chunk","created":${created},` +
    `"model":${JSON.stringify(model)},"choices":`
  const after = includeUsage ? ',"usage":null}\n\n' : '}\n\n'
  const firstAfter = `,"gateway":${JSON.stringify(toExtension(envelope))}${after}`
  const frame: Frame = { before, after, firstAfter, isBegun: false }
  const first = createChoice(0, frame, style)
  const choices = [first]
  for (let index = 1; index < count; index++) choices.push(createChoice(index, frame, style))

  return {
    say(parts) {
      let frames = ''
      for (const part of parts) {
        if (part.type === 'choice') for (const own of part.parts) frames += choices[part.index]?.say(own) ?? ''
        else frames += first.say(part)
      }
      return frames
    },
    end(finish, usage) {
      const last = choices.map((choice) => choice.end(finish)).join('')
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

/** Renders one of the answers of a stream. */
type ChoiceWording = {
  say(part: ChatPart): string
  /** Renders the last chunk. @param finish applies if the answer has no end of its own */
  end(finish: Finish): string
}

function createChoice(index: number, frame: Frame, style: CallStyle | undefined): ChoiceWording {
  const before = `${frame.before}[{"index":${index},"delta":{`
  const calls = style && createCallChunks(style)
  let begun = false
  let called: CallReason | undefined
  let step: Reasoning | undefined
  let isSpoken = false
  let ownFinish: Finish | undefined
  const natives = createNativeParts()

  function chunk(delta: string, more = '', finish: OpenAiFinishReason | null = null): string {
    const reason = finish === null ? 'null' : `"${finish}"`
    const role = begun ? '' : `"role":"assistant"${delta === '' ? '' : ','}`
    const after = frame.isBegun ? frame.after : frame.firstAfter
    begun = true
    frame.isBegun = true
    return `${before}${role}${delta}}${more},"finish_reason":${reason}}]${after}`
  }

  function say(part: ChatPart): string {
    if (part.type !== 'reasoning' && part.type !== 'usage') step = undefined
    switch (part.type) {
      case 'text': {
        // The text of a spoken answer is its transcript.
        if (isSpoken) return chunk(membersOf({ audio: { transcript: part.text } }))
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
      case 'audio': {
        isSpoken = true
        return chunk(membersOf({ audio: toAudio(part) }))
      }
      case 'end':
        // With several answers, the end of the whole response follows the end of this answer.
        ownFinish ??= finishOfChoice(part)
        return ''
      case 'usage':
      case 'choice':
        return ''
      default:
        return part satisfies never
    }
  }

  return {
    say,
    end(finish) {
      const inputs = calls ? calls.end().map((delta) => chunk(membersOf(delta))) : []
      return inputs.join('') + chunk('', '', toFinishReason(ownFinish ?? finish, called))
    },
  }
}

const toAudio = ({ id, data, expiresAt }: Extract<ChatPart, { type: 'audio' }>): OpenAiDelta['audio'] => ({
  ...(id !== undefined && { id }),
  ...(data !== undefined && { data }),
  ...(expiresAt !== undefined && { expires_at: expiresAt }),
})

/** Returns a delta as JSON without its braces. */
const membersOf = (delta: OpenAiDelta): string => JSON.stringify(delta).slice(1, -1)
