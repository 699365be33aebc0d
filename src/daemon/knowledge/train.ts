import { hash } from 'node:crypto'
import type { z } from 'zod'
import { DOCUMENT_NAME_CHARS, TRAIN_FILE_BYTES, UPLOAD_TIMEOUT_MS } from '../../shared/spec-limits.ts'
import { isoTime } from '../../shared/time.ts'
import type { TrainResponse } from '../../shared/wire/indexes.ts'
import { type Actor, type ChangeDeps, change } from '../audit/change.ts'
import { findDocument } from './document-store.ts'
import type { Extractor } from './extract/pool.ts'
import { UnreadableDocument } from './extract/unreadable.ts'
import { EXTRACTION_VERSION } from './extract/version.ts'
import { removeAbandoned, replaceDocument } from './replacement.ts'
import type { IndexRow } from './store.ts'
import type { Upload } from './upload.ts'
import { requireStillUsable } from './usable-index.ts'

/** Whose training it is, and until when it goes on. */
type Training = Actor & { signal: AbortSignal }

export type TrainDeps = ChangeDeps & { extractor: Extractor }

export type TrainedDocument = z.infer<typeof TrainResponse>['results']['documents'][number]

/**
 * Puts each document into the index, in the place of an older one of the same name, and says what became of it. One that
 * cannot be read is `failed` and leaves the others, and its own older version, as they are. Each that becomes visible has
 * its audit entry.
 *
 * When the daemon is killed in the middle, what was indexed until then stays, and what was not is not seen; to send the same
 * again goes on from there, because what is stored already is `unchanged`.
 */
export async function trainIndex(
  uploads: readonly Upload[],
  index: IndexRow,
  deps: TrainDeps,
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

async function trainDocument(upload: Upload, index: IndexRow, deps: TrainDeps, by: Training): Promise<TrainedDocument> {
  const { db, clock, extractor } = deps
  const { name, type, content } = upload
  checkName(name)
  if (upload.isTooLarge) throw new UnreadableDocument(`The file has more than ${TRAIN_FILE_BYTES} bytes; split it.`)
  const contentHash = hashOf(upload)
  const key = { tenantId: index.tenant_id, indexId: index.id }
  const stored = await findDocument(db, key, name)
  if (stored?.contentHash === contentHash) return { name, status: 'unchanged', chunks: stored.passageCount }

  const { title, passages } = await extractor.read(
    { name, type, content },
    { lane: index.tenant_id, signal: by.signal },
  )
  const document = { source: name, title: title || name, contentHash, now: isoTime(clock.now()) }
  await replaceDocument(db, key, document, passages, {
    signal: by.signal,
    inPublication: (publish) =>
      change(deps, by, async ({ tx, caller, record }) => {
        await requireStillUsable(tx, caller, index)
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

/** The same bytes under another ending are read in another way. */
const hashOf = ({ name, type, contentHash }: Upload): string =>
  hash('sha256', `${EXTRACTION_VERSION} ${/\.[^./]+$/.exec(name)?.[0].toLowerCase() ?? type} ${contentHash}`)

/** @throws UnreadableDocument for a name that cannot be stored or shown */
function checkName(name: string): void {
  if (name === '') throw new UnreadableDocument('The file has no name.')
  if (name.length > DOCUMENT_NAME_CHARS) {
    throw new UnreadableDocument(`A name may have at most ${DOCUMENT_NAME_CHARS} characters.`)
  }
  if (/[\p{Cc}\p{Surrogate}]/u.test(name)) throw new UnreadableDocument('The name holds control characters.')
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
