import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { z } from 'zod'
import { DOCUMENT_NAME_CHARS, DOCUMENT_PASSAGES, UPLOAD_TIMEOUT_MS } from '../../shared/spec-limits.ts'
import { isoTime } from '../../shared/time.ts'
import type { TrainResponse } from '../../shared/wire/indexes.ts'
import { type Actor, type ChangeDeps, change } from '../audit/change.ts'
import { requireAllowedIndex } from './allowed-index.ts'
import { chunkText, type Passage } from './chunking.ts'
import { findDocument } from './document-store.ts'
import { type DocumentText, readDocument, UnreadableDocument } from './document-text.ts'
import { removeAbandoned, replaceDocument } from './replacement.ts'
import type { IndexRow } from './store.ts'
import type { Upload } from './upload.ts'

/** Whose training it is, and until when it goes on. */
type Training = Actor & { signal: AbortSignal }

export type TrainedDocument = z.infer<typeof TrainResponse>['results']['documents'][number]

/**
 * Puts each document into the index, in the place of an older one of the same name, and says what became of it. One that
 * cannot be read is `failed` and leaves the others, and its own older version, as they are. Each that becomes visible has
 * its audit entry.
 */
export async function trainIndex(
  uploads: readonly Upload[],
  index: IndexRow,
  deps: ChangeDeps,
  by: Training,
): Promise<TrainedDocument[]> {
  await removeAbandoned(deps.db, index.tenant_id, isoTime(deps.clock.now() - ABANDONED_MS))
  const documents: TrainedDocument[] = []
  const names = new Set<string>()
  for (const upload of uploads) {
    if (by.signal.aborted) throw by.signal.reason
    const name = documentName(upload.name)
    try {
      if (names.has(name)) throw new UnreadableDocument('Another document of this request has the same name.')
      names.add(name)
      documents.push(await trainDocument({ ...upload, name }, index, deps, by))
    } catch (error) {
      if (!(error instanceof UnreadableDocument)) throw error
      documents.push({ name, status: 'failed', chunks: 0, error: error.message })
    }
  }
  return documents
}

async function trainDocument(
  upload: Upload,
  index: IndexRow,
  deps: ChangeDeps,
  by: Training,
): Promise<TrainedDocument> {
  const { db, clock } = deps
  const { name } = upload
  if (name === '') throw new UnreadableDocument('The file has no name.')
  if (name.length > DOCUMENT_NAME_CHARS) {
    throw new UnreadableDocument(`A name may have at most ${DOCUMENT_NAME_CHARS} characters.`)
  }
  if (/[\p{Cc}\p{Surrogate}]/u.test(name)) throw new UnreadableDocument('The name holds control characters.')
  const content = readDocument({ ...upload, bytes: await upload.read() })
  const contentHash = hashOf(content)
  const key = { tenantId: index.tenant_id, indexId: index.id }
  const stored = await findDocument(db, key, name)
  if (stored?.contentHash === contentHash) return { name, status: 'unchanged', chunks: stored.passageCount }

  const { title, passages } = await passagesOf(content)
  const document = { source: name, title: title || name, contentHash, now: isoTime(clock.now()) }
  await replaceDocument(db, key, document, passages, {
    signal: by.signal,
    inPublication: (publish) =>
      change(deps, by, async ({ tx, caller, record }) => {
        requireAllowedIndex(caller, index.name)
        const replaced = await publish(tx)
        await record({
          type: 'index_management',
          operation: 'train',
          resourceType: 'index',
          resourceId: index.id,
          description: `trained index "${index.name}" with "${name}"`,
          metadata: { document: name, contentHash, passages: passages.length, replaced: replaced.length > 0 },
        })
        return replaced
      }),
  })
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
