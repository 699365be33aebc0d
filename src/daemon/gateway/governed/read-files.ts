// Reads the text of the files in a request, so that guards can inspect it.
import { REQUEST_FILE_TEXT_CHARS } from '../../../shared/spec-limits.ts'
import {
  type ContentPart,
  EARLIER_AUDIO_BLOCK,
  type FilePart,
  type Message,
  type NativeBlock,
  type NativePart,
} from '../../models/conversation.ts'
import { INLINE_DATA } from '../../models/part-signature.ts'
import { isObject } from '../../platform/text/json.ts'
import type { GovernedDeps } from './deps.ts'

/** The files of a request: its messages with the texts of the files, and the kinds of files that could not be read. */
type ReadFiles = { messages: Message[]; unread: string[] }

type Reader = { readText: GovernedDeps['readText']; tenantId: string; signal: AbortSignal }

/** Whether a message has a file. Most requests have none, so this check is fast. */
const hasFile = ({ content }: Message): boolean => typeof content !== 'string' && content.some(isFile)

/** Whether a request has files. */
export const haveFiles = (messages: readonly Message[]): boolean => messages.some(hasFile)

const isFile = (part: ContentPart): boolean =>
  part.type === 'file' || part.type === 'file_url' || (part.type === 'native' && sourceOf(part.block) !== undefined)

/**
 * Reads the text of each file. Files by address and files that the provider stores cannot be read.
 * @throws the reason of the signal
 */
export async function readFiles(messages: readonly Message[], reader: Reader): Promise<ReadFiles> {
  const unread: string[] = []
  const read: Message[] = []
  for (const message of messages) {
    if (!hasFile(message)) {
      read.push(message)
      continue
    }
    const content: ContentPart[] = []
    for (const part of message.content as readonly ContentPart[]) content.push(await withText(part, unread, reader))
    read.push({ ...message, content } as Message)
  }
  return { messages: read, unread }
}

async function withText(part: ContentPart, unread: string[], reader: Reader): Promise<ContentPart> {
  if (!isFile(part)) return part
  const file = part.type === 'file' ? part : part.type === 'native' ? inlineOf(part) : undefined
  const text = file && (await textOf(file, reader))
  if (text !== undefined) return { ...(part as FilePart | NativePart), text }
  unread.push(file ? kindOf(file.mediaType) : part.type === 'file_url' ? 'address' : storedKind(part as NativePart))
  return part
}

type Inline = Pick<FilePart, 'mediaType' | 'data' | 'name'>

async function textOf(
  { mediaType, data, name = '' }: Inline,
  { readText, tenantId, signal }: Reader,
): Promise<string | undefined> {
  signal.throwIfAborted()
  const kind = kindOf(mediaType)
  if (!READABLE.has(kind)) return undefined
  const content = Buffer.from(data, 'base64')
  const file =
    kind === 'text' && !mediaType.startsWith('application/json')
      ? // The provider receives the file itself, so hidden text of HTML counts. Markdown is read as it is.
        { name: '', type: 'text/markdown', content }
      : // The name is a free text of the client, so only its extension may select a format.
        { name: EXTENSION.exec(name)?.[0] ?? '', type: mediaType, content }
  return readText(file, { tenantId, signal }, REQUEST_FILE_TEXT_CHARS)
}

const EXTENSION = /\.[a-z]{1,8}$/i

/** The kinds of files in receipts. Media types are texts of the client, so a receipt never contains them. */
const KINDS: readonly [RegExp, string][] = [
  [/^application\/pdf$/, 'pdf'],
  [/^application\/vnd\.openxmlformats-officedocument\.wordprocessingml/, 'docx'],
  [/^application\/vnd\.(openxmlformats-officedocument\.spreadsheetml|ms-excel)/, 'spreadsheet'],
  [/^(text\/|application\/(json|xhtml))/, 'text'],
  [/^audio\//, 'audio'],
]
const READABLE: ReadonlySet<string> = new Set(['pdf', 'docx', 'spreadsheet', 'text'])
const kindOf = (mediaType: string): string => KINDS.find(([pattern]) => pattern.test(mediaType))?.[1] ?? 'other'

/**
 * Returns the source of a document of Anthropic's API, or the file of OpenAI's or Gemini's API. Undefined for other
 * blocks.
 */
function sourceOf(block: NativeBlock): Record<string, unknown> | undefined {
  const { type, source, file, fileData } = block
  // The audio of an earlier answer.
  if (type === EARLIER_AUDIO_BLOCK) return block
  if (type === 'file') return isObject(file) ? file : undefined
  if (type === 'fileData') return isObject(fileData) ? fileData : undefined
  // Images are not files: no guard reads them.
  if (type === INLINE_DATA) return isObject(source) && !isImage(source.media_type) ? source : undefined
  // The texts in other sources of a document are inspected as texts of the block.
  return type === 'document' && isObject(source) && source.type !== 'text' && source.type !== 'content'
    ? source
    : undefined
}

const isImage = (mediaType: unknown): boolean => String(mediaType).startsWith('image/')

/** Returns the content of a document of Anthropic's or Gemini's API. Undefined if it is not part of the request. */
function inlineOf({ block }: NativePart): Inline | undefined {
  const { media_type: mediaType, data } = sourceOf(block) ?? {}
  return typeof mediaType === 'string' && typeof data === 'string' ? { mediaType, data } : undefined
}

const storedKind = ({ block }: NativePart): string =>
  block.type === 'fileData' || sourceOf(block)?.type === 'url' ? 'address' : 'stored'
