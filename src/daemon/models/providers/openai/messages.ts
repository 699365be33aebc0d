// Converts conversations to the messages of chat completions.
import { createHash } from 'node:crypto'
import { toJsonString } from '../../../platform/text/json-string.ts'
import {
  type Content,
  type ContentPart,
  citedText,
  EARLIER_AUDIO_BLOCK,
  type FilePart,
  type Message,
  type NativePart,
  OPENAI_ORIGIN,
  textOf,
} from '../../conversation.ts'
import { toCustomInput } from '../../custom-tools.ts'
import { type ProviderCall, ProviderError } from '../../provider.ts'
import type { Profile } from './profiles.ts'
import { toReasoningFields } from './reasoning.ts'

/** Converts messages. Text-only messages already have the right form. */
export function toMessages(
  { messages, model }: Pick<ProviderCall, 'messages' | 'model'>,
  own: Profile,
): readonly Turn[] {
  // Other models accept calls of custom tools only as calls of functions.
  const profile = own.customTools && !own.customTools.test(model) ? { ...own, customTools: undefined } : own
  const converted = messages.some(showsFiles)
    ? withFilesAfterResults(messages, profile)
    : messages.map((message) => convert(message, profile))
  return profile.alternates ? mergeTurns(converted) : converted
}

const convert = (message: Message, profile: Profile): Turn =>
  isPlain(message, profile) ? message : toMessage(message, profile)

/** Whether a message is a tool result with images or files. */
const showsFiles = ({ role, content }: Message) =>
  role === 'tool' && typeof content !== 'string' && !content.every(isText)

const isText = (part: ContentPart): boolean =>
  part.type === 'text' || (part.type === 'native' && citedText(part) !== undefined)

/** The text of a tool result that has no text itself. */
const IN_NEXT_MESSAGE = 'The next user message contains the result.'

/**
 * The API accepts only text in tool results. Their images and files follow the results of the turn, as a user message.
 */
function withFilesAfterResults(messages: readonly Message[], profile: Profile): Turn[] {
  const converted: Turn[] = []
  let files: ContentPart[] = []
  function endResults(): void {
    if (files.length > 0) converted.push({ role: 'user', content: files.map(toPart) })
    files = []
  }
  for (const message of messages) {
    if (message.role !== 'tool') endResults()
    if (!showsFiles(message)) {
      converted.push(convert(message, profile))
      continue
    }
    const parts = message.content as readonly ContentPart[]
    const text = textOf(parts)
    files.push(...parts.filter((part) => !isText(part)))
    converted.push(convert({ ...message, content: text === '' ? IN_NEXT_MESSAGE : text }, profile))
  }
  endResults()
  return converted
}

/** Serializes a message. A fast path: nearly every message is a text with one of our own roles. */
export function toJson(message: Turn): string {
  const { role, content } = message
  if (typeof content !== 'string' || Object.keys(message).length !== 2) return JSON.stringify(message)
  return `{"role":"${role}","content":${toJsonString(content)}}`
}

const isPlain = (message: Message, { refusesUser }: Profile) =>
  typeof message.content === 'string' &&
  !(refusesUser && 'name' in message) &&
  (message.role === 'user' || (message.role === 'assistant' && !message.toolCalls && !message.reasoning))

function toMessage(message: Message, profile: Profile): Turn & Record<string, unknown> {
  const toId = (id: string) => (profile.shortToolIds ? shortId(id) : id)
  const content = toContent(message.role === 'assistant' ? withoutAudio(message.content) : message.content)
  if (message.role === 'user') return { role: 'user', content, ...speakerOf(message, profile) }
  if (message.role === 'tool') {
    // The API has no field that marks a tool call as failed, so the text states the failure.
    return { role: 'tool', tool_call_id: toId(message.toolCallId), content }
  }
  const { toolCalls = [] } = message
  const audio = earlierAudio(message.content)
  return {
    role: 'assistant',
    content: (toolCalls.length > 0 || audio) && content.length === 0 ? null : content,
    ...(audio && { audio }),
    ...speakerOf(message, profile),
    ...toReasoningFields(message, profile),
    ...(toolCalls.length > 0 && {
      tool_calls: toolCalls.map((call) => {
        const { name, arguments: text } = call
        const id = toId(call.id)
        return call.isCustom && profile.customTools
          ? { id, type: 'custom', custom: { name, input: toCustomInput(call) } }
          : { id, type: 'function', function: { name, arguments: text } }
      }),
    }),
  }
}

const isEarlierAudio = (part: ContentPart): part is NativePart =>
  part.type === 'native' && part.origin === OPENAI_ORIGIN && part.block.type === EARLIER_AUDIO_BLOCK

/** The reference to the audio of an earlier answer, which the API expects beside the content. */
function earlierAudio(content: Content): { id: unknown } | undefined {
  const part = typeof content === 'string' ? undefined : content.find(isEarlierAudio)
  return part && { id: part.block.id }
}

const withoutAudio = (content: Content): Content =>
  typeof content === 'string' || !content.some(isEarlierAudio)
    ? content
    : content.filter((part) => !isEarlierAudio(part))

const speakerOf = ({ name }: { name?: string | undefined }, { refusesUser }: Profile): { name?: string } =>
  name === undefined || refusesUser ? {} : { name }

function toContent(content: Content): string | readonly object[] {
  if (typeof content === 'string') return content
  // Messages without images are sent as a plain string, because some servers and chat templates accept only this form.
  if (content.every(isText)) return textOf(content)
  return content.map(toPart)
}

function toPart(part: ContentPart): object {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text }
    case 'image':
      return { type: 'image_url', image_url: { url: toDataUrl(part), detail: part.detail } }
    case 'image_url':
      return { type: 'image_url', image_url: { url: part.url, detail: part.detail } }
    case 'file':
      return toFile(part)
    case 'file_url':
      throw new ProviderError('bad_request', 'The provider does not support files by address.')
    case 'native': {
      const text = citedText(part)
      if (text) return toPart(text)
      if (part.origin === OPENAI_ORIGIN) return part.block
      throw new ProviderError('bad_request', `The provider does not support blocks of type ${part.block.type}.`)
    }
    default:
      return part satisfies never
  }
}

export const toDataUrl = ({ mediaType, data }: { mediaType: string; data: string }): string =>
  `data:${mediaType};base64,${data}`

/** The API requires a name for a file. */
export const fileName = ({ name, mediaType }: Pick<FilePart, 'name' | 'mediaType'>): string =>
  name ?? `file.${mediaType === 'text/plain' ? 'txt' : mediaType.slice(mediaType.indexOf('/') + 1)}`

function toFile(part: FilePart): object {
  const { mediaType, data } = part
  if (mediaType.startsWith(AUDIO)) {
    return { type: 'input_audio', input_audio: { data, format: mediaType.slice(AUDIO.length) } }
  }
  return { type: 'file', file: { filename: fileName(part), file_data: toDataUrl(part) } }
}

const AUDIO = 'audio/'

export type Turn = { role: string; content?: unknown }

/**
 * Merges consecutive messages of one role. Messages have only role and content here, because this function is used only
 * for servers that do not support tools.
 */
function mergeTurns(messages: readonly Turn[]): Turn[] {
  const merged: Turn[] = []
  for (const message of messages) {
    const last = merged.at(-1)
    if (last?.role !== message.role) merged.push(message)
    else merged[merged.length - 1] = { role: message.role, content: joinContent(last?.content, message.content) }
  }
  return merged
}

function joinContent(first: unknown, second: unknown): unknown {
  if (typeof first === 'string' && typeof second === 'string') return `${first}\n\n${second}`
  const parts = (content: unknown) => (typeof content === 'string' ? [{ type: 'text', text: content }] : content)
  return [parts(first), parts(second)].flat()
}

const NINE = /^[a-zA-Z0-9]{9}$/

/** Converts an id to nine letters and digits, deterministically. An id that already has this form is unchanged. */
function shortId(id: string): string {
  return NINE.test(id) ? id : createHash('sha256').update(id).digest('hex').slice(0, 9)
}
