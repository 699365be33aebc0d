import { OPENAI_CHAT_PATH, type OpenAiChatResponse } from '../../../../shared/wire/openai.ts'
import type { ToolCall } from '../../../models/conversation.ts'
import { toCustomInput } from '../../../models/custom-tools.ts'
import type { ChatPart } from '../../../models/provider.ts'
import { SSE_KEEP_ALIVE } from '../../../platform/http/sse.ts'
import { writingJson } from '../../../platform/text/json-writer.ts'
import { type Answer, type Envelope, type Finish, finishOfChoice } from '../../chat/answer-contract.ts'
import { type AnswerItem, createAnswerItems, isSealed } from '../../chat/answer-items.ts'
import { JsonBody } from '../../chat/answer-rendering.ts'
import { toExtension } from '../../chat/extension.ts'
import { streamInWords } from '../../chat/streamed-answer.ts'
import type { Surface } from '../../chat/surface.ts'
import { toAnnotations, toChatAnnotation } from '../annotations.ts'
import { type CallReason, toCompletionId, toDetail, toFinishReason, toUsage } from './answer-members.ts'
import { openAiWording, type Shown } from './chunks.ts'
import type { CallStyle } from './tools.ts'

/** Renders answers in OpenAI's format. */
export const openAiSurface = (shown: Shown): Surface => ({
  path: OPENAI_CHAT_PATH,
  errors: 'openai',
  isCompatible: true,
  whole: (envelope) => wholeAnswer(envelope, shown),
  streamed: (envelope, stream) => streamInWords(openAiWording(envelope, shown), stream),
  keepAlive: { frame: SSE_KEEP_ALIVE, opens: true },
})

function wholeAnswer(envelope: Envelope, { style, choices: count = 1 }: Shown): Answer {
  const { id, created, model } = envelope
  const choices = Array.from({ length: count }, () => new WholeChoice())
  const json = new JsonBody()
  return {
    add(parts) {
      for (const part of parts) {
        if (part.type === 'choice') for (const own of part.parts) choices[part.index]?.add(own)
        else choices[0]?.add(part)
      }
      return true
    },
    drained: () => Promise.resolve(),
    close(finish, usage, isLarge) {
      const value = {
        id: toCompletionId(id),
        object: 'chat.completion',
        created,
        model,
        choices: choices.map((choice, index) => ({ index, ...choice.render(finish, style) })),
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

/** One of the answers of a response. */
class WholeChoice {
  readonly #items = createAnswerItems()
  #audio: Audio[] | undefined
  #finish: Finish | undefined

  add(part: ChatPart): void {
    if (part.type === 'end') this.#finish ??= finishOfChoice(part)
    else if (part.type === 'audio') {
      this.#audio ??= []
      this.#audio.push(part)
    } else this.#items.add(part)
  }

  /** @param finish applies if the answer has no end of its own */
  render(finish: Finish, style: CallStyle | undefined): Omit<Choice, 'index'> {
    const { all } = this.#items
    const message = toMessage(all, style)
    return {
      message: this.#audio ? { ...message, content: null, audio: toAudio(this.#audio, message.content) } : message,
      logprobs: toLogprobs(all),
      finish_reason: toFinishReason(this.#finish ?? finish, calledIn(message)),
    }
  }
}

type Audio = Extract<ChatPart, { type: 'audio' }>

/** The text of a spoken answer is its transcript. */
function toAudio(pieces: readonly Audio[], transcript: string | null): NonNullable<Message['audio']> {
  const data = pieces.flatMap((piece) => piece.data ?? [])
  const expiresAt = pieces.findLast((piece) => piece.expiresAt !== undefined)?.expiresAt
  return {
    id: pieces.find(({ id }) => id !== undefined)?.id ?? '',
    data: data.length === 1 ? (data[0] as string) : joined(data),
    transcript: transcript ?? '',
    ...(expiresAt !== undefined && { expires_at: expiresAt }),
  }
}

/** Joins pieces of base64, each of which may end with padding. */
const joined = (pieces: readonly string[]): string =>
  Buffer.concat(pieces.map((piece) => Buffer.from(piece, 'base64'))).toString('base64')

type Choice = OpenAiChatResponse['choices'][number]
type Message = Choice['message']

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
