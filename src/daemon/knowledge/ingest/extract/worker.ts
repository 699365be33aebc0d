import { readFile } from 'node:fs/promises'
import { parentPort, type TransferListItem } from 'node:worker_threads'
import type { GuardHit } from '../../../safety/guards/redaction.ts'
import type { Passage } from '../chunking.ts'
import {
  beginPreparation,
  buffersOf,
  DOCUMENT_PASSAGES,
  joinSegments,
  type PackedSegment,
  type Preparation,
  type PreparedDocument,
  prepareDocument,
} from '../prepared-document.ts'
import { type Extracted, extract } from './extract.ts'
import type { FileOutcome, FileToRead, PassagesToPrepare, TextToRead, WorkerMessage, WorkerTask } from './messages.ts'
import { cut } from './passages.ts'
import { UnreadableDocument } from './unreadable.ts'

// The worker thread that reads files, one task at a time. The thread may be terminated at any moment.

const port = parentPort
if (port === null) throw new Error('this file runs as a worker thread only')
const send = (message: WorkerMessage, buffers: ArrayBufferLike[]) =>
  port.postMessage(message, buffers as TransferListItem[])

port.on('message', async (task: WorkerTask) => {
  if (task.kind === 'text') {
    send({ kind: 'text', text: await textOf(task.file, task.limit) }, [])
    return
  }
  if (task.kind !== 'read') {
    const segment = joinSegments(task.kind === 'join' ? task.segments : task.documents.flatMap(prepared))
    send({ kind: 'joined', segment }, buffersOf([segment]))
    return
  }
  const preparation = beginPreparation()
  const outcomes: FileOutcome[] = []
  for (const [at, file] of task.files.entries()) {
    const outcome = await tryToRead(file, task.rules, preparation)
    outcomes.push(outcome)
    if ('document' in outcome && outcome.document.segments.length > 0) sendParts(outcome.document, at)
  }
  const small = outcomes.flatMap((outcome) => ('document' in outcome ? outcome.document.batches : []))
  const together = preparation.together()
  send({ kind: 'read', outcomes, together }, buffersOf(together === undefined ? [] : [together], small))
})

/** Returns the title and the text of a file. Undefined if it cannot be read or is longer than the limit. */
async function textOf({ name, type, content }: TextToRead, limit: number): Promise<string | undefined> {
  try {
    const bytes = Buffer.from(content.buffer, content.byteOffset, content.length)
    const { title, text } = await extract({ name, type, bytes })
    const whole = title === '' || text.includes(title) ? text : `${title}\n\n${text}`
    return whole.length > limit ? undefined : whole
  } catch (error) {
    if (error instanceof UnreadableDocument) return undefined
    throw error
  }
}

/** The maximum size of a part. A part that is a single segment may be larger, about 2 MB. */
const PART_BYTES = 262_144

/** Sends the contents of a large document to the daemon, and removes them from the document. */
function sendParts(document: PreparedDocument, file: number): void {
  let batches: Uint8Array[] = []
  let bytes = 0
  const end = () => {
    if (batches.length > 0) send({ kind: 'part', file, batches, segments: [] }, buffersOf([], batches))
    batches = []
    bytes = 0
  }
  for (const batch of document.batches) {
    if (bytes + batch.length > PART_BYTES) end()
    batches.push(batch)
    bytes += batch.length
  }
  end()
  for (const segment of document.segments) {
    send({ kind: 'part', file, batches: [], segments: [segment] }, buffersOf([segment]))
  }
  document.batches = []
  document.segments = []
}

const prepared = ({ title, source, passages }: PassagesToPrepare): PackedSegment[] =>
  prepareDocument(title, source, passages).segments

async function tryToRead(file: FileToRead, rules: string | undefined, preparation: Preparation): Promise<FileOutcome> {
  const hits: GuardHit[] = []
  try {
    return { document: await read(file, rules, hits, preparation), hits }
  } catch (error) {
    if (!(error instanceof UnreadableDocument)) throw error
    const { message, cause } = error
    return { unreadable: message, cause: cause === undefined ? undefined : String(cause), hits }
  }
}

/** Adds the matches of the rules to `hits`. @throws UnreadableDocument */
async function read(
  { name, source, type, content }: FileToRead,
  rules: string | undefined,
  hits: GuardHit[],
  preparation: Preparation,
): Promise<PreparedDocument> {
  const bytes =
    typeof content === 'string'
      ? await readFile(content)
      : Buffer.from(content.buffer, content.byteOffset, content.length)
  const { title, passages } = cut(await screened(await extract({ name, type, bytes }), rules, hits))
  return preparation.add(title, source, counted(passages))
}

/**
 * Applies the rules. The detectors are loaded when the first file with rules arrives.
 * @throws UnreadableDocument if a rule blocks the text
 */
async function screened(extracted: Extracted, rules: string | undefined, hits: GuardHit[]): Promise<Extracted> {
  if (rules === undefined) return extracted
  return (await import('./screen.ts')).screenExtracted(extracted, rules, hits)
}

/** @throws UnreadableDocument if there are more than DOCUMENT_PASSAGES passages */
function* counted(passages: Iterable<Passage>): Generator<Passage> {
  let count = 0
  for (const passage of passages) {
    if (count++ === DOCUMENT_PASSAGES) {
      throw new UnreadableDocument(`The file has more than ${DOCUMENT_PASSAGES} passages; split it.`)
    }
    yield passage
  }
}
