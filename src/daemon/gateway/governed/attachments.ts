// The attachments of a request: everything that a model reads beyond text. Guards do not see the text in images.
import type { ContentPart, GenerationOptions, Message } from '../../models/conversation.ts'
import { isObject } from '../../platform/text/json.ts'
import { kindOf } from './read-files.ts'

type Attached = { messages: readonly Message[]; options: GenerationOptions | undefined }

/**
 * Returns the kinds of the attachments, such as `image` and `pdf`. A file whose text the gateway has read counts only if
 * `withRead`.
 */
export function attachmentsIn({ messages, options }: Attached, { withRead }: { withRead: boolean }): string[] {
  const kinds = new Set<string>()
  for (const { content } of messages) {
    if (typeof content === 'string') continue
    for (const part of content) if (withRead || !isRead(part)) addKinds(part, kinds)
  }
  addNested(options?.native?.fields, kinds)
  return [...kinds]
}

/** Replaces files by their texts, so that the model reads only inspected text. */
export function withTextsOnly(messages: readonly Message[]): Message[] {
  return messages.map((message) => {
    const { content } = message
    if (typeof content === 'string' || !content.some(isRead)) return message
    return { ...message, content: content.map(toTextOnly) } as Message
  })
}

const isRead = (part: ContentPart): boolean => (part.type === 'file' || part.type === 'native') && Boolean(part.text)

const toTextOnly = (part: ContentPart): ContentPart =>
  (part.type === 'file' || part.type === 'native') && part.text
    ? { type: 'text', text: part.text, ...(part.cache && { cache: part.cache }) }
    : part

function addKinds(part: ContentPart, kinds: Set<string>): void {
  if (part.type === 'image' || part.type === 'image_url') kinds.add('image')
  else if (part.type === 'file') kinds.add(kindOf(part.mediaType))
  else if (part.type === 'file_url') kinds.add('address')
  else if (part.type === 'native') addNested(part.block, kinds)
}

/** The types of blocks that contain or name an attachment, in all supported APIs. */
const KINDS: ReadonlyMap<unknown, string> = new Map([
  ...['image', 'image_url', 'input_image', 'computer_screenshot'].map((type) => [type, 'image'] as const),
  ...['audio', 'input_audio'].map((type) => [type, 'audio'] as const),
  ...['file', 'input_file', 'fileData', 'file_data', 'container_upload'].map((type) => [type, 'stored'] as const),
  ...['inline_data', 'inlineData', 'video', 'video_url', 'input_video'].map((type) => [type, 'other'] as const),
])
/** Types of the source of a block whose content is not text. */
const SOURCES: ReadonlySet<unknown> = new Set(['base64', 'url', 'file'])

/** Searches at any depth. The JSON depth limit of the body bounds the recursion. */
function addNested(value: unknown, kinds: Set<string>): void {
  if (Array.isArray(value)) for (const item of value) addNested(item, kinds)
  if (!isObject(value)) return
  const { type, source } = value
  const kind = KINDS.get(type)
  if (isObject(source) && SOURCES.has(source.type)) {
    const { type: origin, media_type: mediaType } = source
    kinds.add(origin === 'url' ? 'address' : typeof mediaType === 'string' ? kindOf(mediaType) : (kind ?? 'stored'))
  } else if (kind !== undefined) kinds.add(kind)
  for (const [name, member] of Object.entries(value)) {
    // Gemini marks a part by the name of its member, not by a type.
    if (isObject(member) && type === undefined && KINDS.has(name)) kinds.add(KINDS.get(name) as string)
    addNested(member, kinds)
  }
}
