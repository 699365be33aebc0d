import { isUtf8 } from 'node:buffer'
import { createHash, hash } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { open, readFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import {
  type BusboyFileStream,
  type BusboyHeaders,
  type BusboyInstance,
  Busboy as MultipartParser,
} from '@fastify/busboy'
import type { z } from 'zod'
import { findDoubledMember } from '../../../shared/doubled-member.ts'
import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { TRAIN_FILE_BYTES, TRAIN_FILES } from '../../../shared/spec-limits.ts'
import { TextInputs } from '../../../shared/wire/indexes.ts'
import type { Intake } from './intake.ts'
import { jsonShape } from './json-shape.ts'

/** The maximum total size of all `text_inputs`. Longer texts must be sent as files. */
export const TRAIN_TEXT_BYTES = 10_485_760
/**
 * The maximum depth and number of values of `text_inputs` before parsing. Both limits are higher than the schema's
 * limits, so that slightly invalid input still gets the schema's exact error.
 */
const TEXT_INPUTS_DEPTH = 4
const TEXT_INPUTS_VALUES = 10_000
/** The maximum size of a body part that is neither a file nor `text_inputs`. The content of this part is ignored. */
export const TRAIN_OTHER_PART_BYTES = 65_536
/** The maximum size of a training's body, including files that are skipped because they are too large. */
export const TRAIN_BODY_BYTES = 4_294_967_296

/**
 * A received document. `content` is the path of its file, or its text. `contentHash` is the SHA-256 of its bytes in
 * hex. If the document is too large, only the beginning is kept.
 */
export type Upload = {
  name: string
  type: string
  content: string | Uint8Array
  bytes: number
  contentHash: string
  isTooLarge: boolean
}

type Part = {
  field: string
  fileName: string | undefined
  type: string
  path: string
  bytes: number
  contentHash: string
  isTooLarge: boolean
}

/** The rate limit of uploads, and the signal that cancels them. */
type Receiving = { intake: Intake; signal: AbortSignal }

/**
 * Receives a multipart body into files in `directory`. Processing starts when the body is complete. A rejected or
 * broken upload therefore changes nothing. Bytes of a file beyond the first TRAIN_FILE_BYTES are skipped.
 * @throws UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE (the body as a whole, or `text_inputs`), VALIDATION_ERROR (malformed,
 * too many, nothing sent), and the reason of `signal` if the client disconnected
 */
export async function receiveUpload(
  request: IncomingMessage,
  directory: string,
  { intake, signal }: Receiving,
): Promise<Upload[]> {
  const parts = await receiveParts(request, directory, { intake, signal })
  const uploads: Upload[] = []
  for (const part of parts) {
    const { fileName, type, path, bytes, contentHash, isTooLarge } = part
    if (isTextInputs(part)) uploads.push(...(await readTextInputs(part)))
    // Skip empty file inputs: browsers send them as a file without name and content.
    else if (fileName !== undefined && (fileName !== '' || bytes > 0)) {
      uploads.push({ name: fileName, type: typeOf(fileName, type), content: path, bytes, contentHash, isTooLarge })
    }
  }
  if (uploads.length === 0) {
    throw new GatewayError('VALIDATION_ERROR', 'Send at least one file, or "text_inputs" as a JSON string.')
  }
  return uploads
}

async function receiveParts(
  request: IncomingMessage,
  directory: string,
  { intake, signal }: Receiving,
): Promise<Part[]> {
  const parser = openParser(request)
  const throttled = intake()
  const parts: Part[] = []
  const saves: Promise<void>[] = []
  const stop = new AbortController()
  setMaxListeners(PARTS + 1, stop.signal)
  const onAbort = () => stop.abort(signal.reason)
  signal.addEventListener('abort', onAbort)
  let received = 0
  const onData = (chunk: Buffer) => {
    received += chunk.length
    if (received > TRAIN_BODY_BYTES) stop.abort(bodyTooLarge())
  }
  try {
    if (signal.aborted) throw signal.reason
    await new Promise<void>((resolve, reject) => {
      stop.signal.addEventListener('abort', () => reject(stop.signal.reason))
      parser.on(
        'file',
        (field: string, stream: BusboyFileStream, fileName: string | undefined, _: string, type: string) => {
          const path = join(directory, String(parts.length))
          const part = { field, fileName, type, path, bytes: 0, contentHash: '', isTooLarge: false }
          if (isTextInputs(part) && parts.some(isTextInputs)) stop.abort(secondTextInputs())
          parts.push(part)
          if (parts.filter((sent) => sent.fileName !== undefined).length > TRAIN_FILES) stop.abort(tooManyFiles())
          stream.on('limit', () => {
            part.isTooLarge = true
          })
          // Ignore the error of a single part, because the parser itself also reports a malformed body.
          stream.on('error', () => {})
          saves.push(save(stream, part, stop.signal).catch((error) => stop.abort(error)))
        },
      )
      parser.on('partsLimit', () => stop.abort(tooManyFiles()))
      parser.on('finish', resolve)
      parser.on('error', (cause: unknown) => stop.abort(malformed(cause)))
      request.on('data', onData)
      request.pipe(throttled).pipe(parser)
    })
    await Promise.all(saves)
    if (stop.signal.aborted) throw stop.signal.reason
    return parts
  } catch (error) {
    request.unpipe(throttled)
    throttled.destroy()
    stop.abort(error)
    await Promise.all(saves)
    throw error
  } finally {
    request.off('data', onData)
    signal.removeEventListener('abort', onAbort)
  }
}

function openParser(request: IncomingMessage): BusboyInstance {
  const { 'content-type': contentType = '', 'content-length': length } = request.headers
  if (!/^multipart\/form-data\s*(;|$)/i.test(contentType)) {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'Send the documents as multipart/form-data.')
  }
  if (length !== undefined && Number(length) > TRAIN_BODY_BYTES) throw bodyTooLarge()
  try {
    return new MultipartParser({
      headers: request.headers as BusboyHeaders,
      // Read every part as bytes. In a text, the parser would replace invalid UTF-8 instead of rejecting it.
      isPartAFile: () => true,
      preservePath: true,
      limits: { fileSize: TRAIN_FILE_BYTES, parts: PARTS, headerSize: 16_384, headerPairs: 32 },
    })
  } catch (cause) {
    throw malformed(cause)
  }
}

/**
 * The maximum number of parts. A few other parts are allowed in addition to files and text_inputs. They are ignored.
 */
const PARTS = TRAIN_FILES + 20

const isTextInputs = ({ field, fileName }: Part): boolean => field === 'text_inputs' && fileName === undefined

/** The extension is more reliable than the type: if a type is missing, clients and the parser set a default type. */
const typeOf = (fileName: string, type: string): string =>
  /\.[^./\\]+$/.test(fileName) || type === 'application/octet-stream' ? '' : type

async function save(stream: BusboyFileStream, part: Part, signal: AbortSignal): Promise<void> {
  const sum = createHash('sha256')
  const file = await open(part.path, 'w', 0o600)
  const keep = async (chunk: Buffer): Promise<void> => {
    part.bytes += chunk.length
    if (part.fileName === undefined && part.bytes > fieldBytes(part)) throw fieldTooLarge(part)
    sum.update(chunk)
    await file.appendFile(chunk)
    giveBack(chunk)
  }
  // Pipe the data into a Writable, because an async iteration would concatenate the waiting chunks and thus copy them.
  const target = new Writable({ write: (chunk, _, done) => void keep(chunk).then(() => done(), done) })
  try {
    await pipeline(stream, target, { signal })
  } finally {
    await file.close()
  }
  part.contentHash = sum.digest('hex')
}

const nowhere = new MessageChannel().port1
nowhere.close()

/**
 * Frees the memory of a written chunk immediately: its buffer is transferred to a closed port, and the port drops the
 * buffer. Without this step, chunks would accumulate until the garbage collector scans the whole heap for 3 to 30 ms
 * (measured: after every 50 MB).
 */
function giveBack({ buffer, byteLength }: Buffer): void {
  // If the chunk is only a part of its buffer, the buffer is kept, because other data may use the rest.
  if (byteLength === buffer.byteLength) nowhere.postMessage(undefined, [buffer as ArrayBuffer])
}

async function readTextInputs(part: Part): Promise<Upload[]> {
  const bytes = await readFile(part.path)
  if (!isUtf8(bytes)) throw invalidField('text_inputs', 'text_inputs must be UTF-8.')
  const source = bytes.toString()
  const { depth, values } = jsonShape(source)
  // A valid list has at most a hundred objects. Without this check, parsing millions of nested or empty objects would
  // block all other requests.
  if (depth > TEXT_INPUTS_DEPTH || values > TEXT_INPUTS_VALUES) {
    throw invalidField('text_inputs', 'text_inputs must be a JSON array of {name, type, content, size}.')
  }
  let value: unknown
  try {
    value = JSON.parse(source)
  } catch (cause) {
    throw invalidField('text_inputs', `text_inputs must be JSON: ${(cause as Error).message.slice(0, 120)}`)
  }
  const twice = findDoubledMember(source)
  if (twice) throw invalidField('text_inputs', `text_inputs.${twice.where} has the member "${twice.name}" twice.`)
  const result = TextInputs.safeParse(value)
  if (!result.success) {
    const issue = result.error.issues[0] as z.core.$ZodIssue
    throw invalidField('text_inputs', `${['text_inputs', ...issue.path].join('.')}: ${issue.message}.`)
  }
  return result.data.map(({ name, type = 'text/*', content }) => {
    // A Buffer would encode an unpaired surrogate as U+FFFD. A text with an unpaired surrogate is therefore replaced by
    // the invalid byte 0xff, so that it is rejected later.
    const text = /\p{Surrogate}/u.test(content) ? Buffer.from([0xff]) : Buffer.from(content)
    const contentHash = hash('sha256', text)
    return { name, type: type.toLowerCase(), content: text, bytes: text.length, contentHash, isTooLarge: false }
  })
}

const malformed = (cause: unknown) =>
  new GatewayError('VALIDATION_ERROR', 'The body is not well-formed multipart/form-data.', { cause })
const secondTextInputs = () => invalidField('text_inputs', 'Send text_inputs only once; put all texts into one array.')
const fieldBytes = (part: Part): number => (isTextInputs(part) ? TRAIN_TEXT_BYTES : TRAIN_OTHER_PART_BYTES)
const fieldTooLarge = (part: Part) =>
  isTextInputs(part)
    ? new GatewayError(
        'FILE_TOO_LARGE',
        `text_inputs may have at most ${TRAIN_TEXT_BYTES} bytes; send longer texts as files.`,
      )
    : new GatewayError(
        'VALIDATION_ERROR',
        `A field that is not a file may have at most ${TRAIN_OTHER_PART_BYTES} bytes.`,
      )
const tooManyFiles = () => new GatewayError('VALIDATION_ERROR', `A request may contain at most ${TRAIN_FILES} files.`)
const bodyTooLarge = () =>
  new GatewayError(
    'FILE_TOO_LARGE',
    `A request may have at most ${TRAIN_BODY_BYTES} bytes; split the files over several requests.`,
  )
