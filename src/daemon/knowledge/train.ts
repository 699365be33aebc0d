import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { z } from 'zod'
import { DOCUMENT_NAME_CHARS, DOCUMENT_PASSAGES, UPLOAD_TIMEOUT_MS } from '../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../shared/time.ts'
import type { TrainResponse } from '../../shared/wire/indexes.ts'
import type { Db } from '../db/database.ts'
import { chunkText, type Passage } from './chunking.ts'
import { findDocument, type IndexKey } from './document-store.ts'
import { type DocumentText, readDocument, UnreadableDocument } from './document-text.ts'
import { removeAbandoned, replaceDocument } from './replacement.ts'
import type { Upload } from './upload.ts'

export type TrainedDocument = z.infer<typeof TrainResponse>['results']['documents'][number]

/**
 * Puts each document into the index, in the place of an older one of the same name, and says what became of it. One that
 * cannot be read is `failed` and leaves the others, and its own older version, as they are.
 */
export async function trainIndex(
  uploads: readonly Upload[],
  index: IndexKey,
  { db, clock }: { db: Db; clock: Clock },
  signal: AbortSignal,
): Promise<TrainedDocument[]> {
  await removeAbandoned(db, index.tenantId, isoTime(clock.now() - ABANDONED_MS))
  const documents: TrainedDocument[] = []
  const names = new Set<string>()
  for (const upload of uploads) {
    if (signal.aborted) throw signal.reason
    const name = documentName(upload.name)
    try {
      if (names.has(name)) throw new UnreadableDocument('Another document of this request has the same name.')
      names.add(name)
      documents.push(await trainDocument({ ...upload, name }, index, { db, clock }, signal))
    } catch (error) {
      if (!(error instanceof UnreadableDocument)) throw error
      documents.push({ name, status: 'failed', chunks: 0, error: error.message })
    }
  }
  return documents
}

async function trainDocument(
  upload: Upload,
  index: IndexKey,
  { db, clock }: { db: Db; clock: Clock },
  signal: AbortSignal,
): Promise<TrainedDocument> {
  const { name } = upload
  if (name === '') throw new UnreadableDocument('The file has no name.')
  if (name.length > DOCUMENT_NAME_CHARS) {
    throw new UnreadableDocument(`A name may have at most ${DOCUMENT_NAME_CHARS} characters.`)
  }
  if (/[\p{Cc}\p{Surrogate}]/u.test(name)) throw new UnreadableDocument('The name holds control characters.')
  const content = readDocument({ ...upload, bytes: await upload.read() })
  const contentHash = hashOf(content)
  const stored = await findDocument(db, index, name)
  if (stored?.contentHash === contentHash) return { name, status: 'unchanged', chunks: stored.passageCount }

  const { title, passages } = await passagesOf(content)
  const document = { source: name, title: title || name, contentHash, now: isoTime(clock.now()) }
  await replaceDocument(db, index, document, passages, signal)
  return { name, status: 'indexed', chunks: passages.length }
}

/** No document takes so long to be written; what is older and not published was left behind by a crash. */
const ABANDONED_MS = UPLOAD_TIMEOUT_MS

/** Raised when documents are cut in another way, so that the next training replaces what was cut the old way. */
const CUT_VERSION = 1

const hashOf = ({ text, format }: DocumentText): string =>
  createHash('sha256').update(`${CUT_VERSION} ${format}\n`).update(text).digest('hex')

const PASSAGES_PER_TURN = 200

/**
 * Cutting a large file takes seconds of CPU; other requests get their turn in between.
 * @throws UnreadableDocument above DOCUMENT_PASSAGES
 */
async function passagesOf({ text, format }: DocumentText): Promise<{ title: string; passages: Passage[] }> {
  const { title, passages } = chunkText(text, format)
  const all: Passage[] = []
  for (const passage of passages) {
    if (all.length === DOCUMENT_PASSAGES) {
      throw new UnreadableDocument(`The file has more than ${DOCUMENT_PASSAGES} passages; split it.`)
    }
    all.push(passage)
    if (all.length % PASSAGES_PER_TURN === 0) await nextTurn()
  }
  return { title, passages: all }
}

/** A name is a label, never a path we would open; folders stay in it so that two README.md can live side by side. */
function documentName(name: string): string {
  return name
    .replaceAll('\\', '/')
    .replace(/^[A-Za-z]:/, '')
    .split('/')
    .filter((part) => part !== '' && part !== '.' && part !== '..')
    .join('/')
    .trim()
}
