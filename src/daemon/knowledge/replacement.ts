import type { Db } from '../db/database.ts'
import type { Passage } from './chunking.ts'
import {
  type DocumentKey,
  type Draft,
  deleteDiscarded,
  deletePassages,
  discardDocument,
  findUnpublished,
  type IndexKey,
  insertDraft,
  insertPassages,
  type NewDocument,
  publishDraft,
} from './document-store.ts'
import { mergeSegments, removeAbandonedMerges } from './merge.ts'
import { segmentOf } from './segment.ts'

/** What one transaction writes or deletes. SQLite has one writer, and every chat's bill waits its turn behind it. */
const PASSAGES_PER_TRANSACTION = 200

/** Runs `publish` in a transaction and commits it: whoever has more to write with it does so there. */
export type InPublication = (publish: (tx: Db) => Promise<DocumentKey[]>) => Promise<DocumentKey[]>

/**
 * Puts a document in the place of the one with the same `source`. Its passages are written in short transactions that
 * others get in between, and all of them become visible in the last one, run by `inPublication`: a search sees the old
 * document or the new one, whole. When anything fails, or `signal` is aborted, the old one stays as it was.
 */
export async function replaceDocument(
  db: Db,
  index: IndexKey,
  document: Omit<NewDocument, 'passageCount'>,
  passages: readonly Passage[],
  { inPublication, signal }: { inPublication: InPublication; signal: AbortSignal },
): Promise<void> {
  const draft = await db
    .transaction()
    .execute((tx) => insertDraft(tx, index, { ...document, passageCount: passages.length }))
  // A file without a title of its own is titled by its name, which says less than it looks.
  const title = document.title === document.source ? '' : document.title
  let replaced: DocumentKey[]
  try {
    for (let start = 0; start < passages.length; start += PASSAGES_PER_TRANSACTION) {
      if (signal.aborted) throw signal.reason
      await writePassages(db, draft, passages.slice(start, start + PASSAGES_PER_TRANSACTION), {
        title,
        now: document.now,
      })
    }
    replaced = await inPublication((tx) => publishDraft(tx, draft, document.source))
  } catch (error) {
    // A store that fails now fails here as well; removeAbandoned comes back to it.
    await removeDocument(db, draft).catch(() => undefined)
    throw error
  }
  for (const old of replaced) await removeDocument(db, old)
  await mergeSegments(db, index, document.now)
}

/** Adds passages to a draft, whose positions follow each other. `title`: see `segmentOf`; `now` is ISO 8601. */
export async function writePassages(
  db: Db,
  draft: Draft,
  passages: readonly Passage[],
  { title, now }: { title: string; now: string },
): Promise<void> {
  const firstId = draft.firstPassageId + (passages[0]?.position ?? 0)
  // Outside of the transaction, because it takes more time than the rest of it.
  const segment = segmentOf(passages, { firstId, title })
  await db.transaction().execute((tx) => insertPassages(tx, draft, passages, segment, now))
}

/** Removes what broken trainings have left: everything that was written before `before` (ISO 8601) and is not published. */
export async function removeAbandoned(db: Db, tenantId: string, before: string): Promise<void> {
  for (const document of await findUnpublished(db, tenantId, before)) await removeDocument(db, document)
  await removeAbandonedMerges(db, tenantId, before)
}

/** Takes away what was written of a document that is not published. */
export async function removeDocument(db: Db, document: DocumentKey): Promise<void> {
  if (!(await discardDocument(db, document))) return
  let deleted: number
  do {
    deleted = await db.transaction().execute((tx) => deletePassages(tx, document, PASSAGES_PER_TRANSACTION))
  } while (deleted === PASSAGES_PER_TRANSACTION)
  await db.transaction().execute((tx) => deleteDiscarded(tx, document))
}
