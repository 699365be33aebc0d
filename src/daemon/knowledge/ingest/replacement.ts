import { GatewayError } from '../../../shared/errors.ts'
import { newId } from '../../../shared/ids.ts'
import type { Db } from '../../platform/db/db.ts'
import {
  deleteDiscarded,
  deletePassages,
  discardDocument,
  findUnpublished,
  insertDraft,
  insertPassages,
  insertPublished,
  lockDraft,
  publishDraft,
} from '../indexes/document-store.ts'
import type { DocumentKey, Draft, IndexKey, NewDocument } from '../indexes/document-types.ts'
import { isDeleted } from '../indexes/index-removal.ts'
import { mergeSegments, removeAbandonedMerges } from '../indexes/merge.ts'
import { insertPages, insertSegment } from '../indexes/segment-store.ts'
import { type PackedSegment, type PreparedDocument, pagesOf, unpackPassages } from './prepared-document.ts'

/**
 * Rows per deleting transaction. The number is small, because SQLite has a single writer: the billing of every chat
 * waits until the transaction ends.
 */
const DELETED_PER_TRANSACTION = 200
/** Pages per inserting transaction. A page has about 3 KB. */
const PAGES_PER_TRANSACTION = 32

/** Runs `publish` in a transaction and commits it together with the caller's own writes about this document. */
export type InPublication = (publish: (tx: Db) => Promise<DocumentKey[]>, documentId: string) => Promise<DocumentKey[]>

/** An uploaded document and its prepared content. */
export type DocumentToStore = Omit<NewDocument, 'passageCount' | 'title' | 'now'> & { prepared: PreparedDocument }

/**
 * Replaces the document with the same `source`. The content is written in short transactions, so that other writers can
 * run between them. `inPublication` runs the last transaction. This transaction makes all content visible. A search
 * finds either the old or the new document, never both. If a step fails or `signal` is aborted, the old document stays.
 * `now` is ISO 8601.
 * @throws INDEX_NOT_FOUND if the index is deleted in the meantime
 */
export async function replaceDocument(
  db: Db,
  index: IndexKey,
  document: DocumentToStore & { now: string },
  { inPublication, signal }: { inPublication: InPublication; signal: AbortSignal },
): Promise<void> {
  const { prepared, now } = document
  const draft = await db.transaction().execute((tx) => insertDraft(tx, index, toNew(document, now)))
  let replaced: DocumentKey[]
  try {
    await writePrepared(db, draft, prepared, { now, signal })
    replaced = await inPublication((tx) => publishDraft(tx, draft, document.source), draft.documentId)
  } catch (error) {
    await removeDocument(db, draft)
    if (await isDeleted(db, index)) {
      throw new GatewayError('INDEX_NOT_FOUND', 'The index was deleted while documents were being added.', {
        cause: error,
      })
    }
    throw error
  }
  for (const old of replaced) await removeDocument(db, old)
  await mergeSegments(db, index, now)
}

/** Writes all or some of a draft's content. */
export async function writePrepared(
  db: Db,
  draft: Draft,
  { batches, segments }: PreparedDocument,
  { now, signal }: { now: string; signal: AbortSignal },
): Promise<void> {
  for (const batch of batches) {
    signal.throwIfAborted()
    const passages = unpackPassages(batch)
    await db.transaction().execute((tx) => insertPassages(tx, [{ draft, passages }]))
  }
  for (const segment of segments) {
    const id = newId()
    const { documentId } = draft
    await db.transaction().execute(async (tx) => {
      // Lock the draft. Otherwise a segment could be added for a deleted document, and would never be removed.
      await lockDraft(tx, draft)
      await insertSegment(tx, draft, { id, documentId, state: 'draft', ...withPassageIds(segment, draft) }, now)
    })
    await writePages(db, draft.tenantId, id, segment, signal)
  }
}

/** Writes the pages of a draft segment in short transactions, so that other writers can run between them. */
export async function writePages(
  db: Db,
  tenantId: string,
  segmentId: string,
  segment: PackedSegment,
  signal: AbortSignal,
): Promise<void> {
  const pages = [...pagesOf(segment).entries()]
  for (let start = 0; start < pages.length; start += PAGES_PER_TRANSACTION) {
    signal.throwIfAborted()
    await insertPages(db, tenantId, segmentId, new Map(pages.slice(start, start + PAGES_PER_TRANSACTION)))
  }
}

/**
 * Replaces small documents in one transaction, unlike `replaceDocument`. After the commit, searches find these
 * documents instead of the old documents with the same `source`. `segment` contains all their passages.
 * @returns the ids of the new documents in order, and the replaced documents. The replaced documents are discarded.
 * Remove them after the commit (`removeDocument`). After this removal, the index may have segments to merge.
 */
export async function publishTogether(
  tx: Db,
  index: IndexKey,
  documents: readonly DocumentToStore[],
  { segment, now }: { segment: PackedSegment; now: string },
): Promise<{ documentIds: string[]; replaced: { source: string; documentId: string }[] }> {
  const { drafts, replaced } = await insertPublished(
    tx,
    index,
    documents.map((document) => toNew(document, now)),
  )
  const [first] = drafts
  if (first === undefined) return { documentIds: [], replaced }
  const passagesOf = documents.map(({ prepared }, at) => ({
    draft: drafts[at] as Draft,
    passages: prepared.batches.flatMap(unpackPassages),
  }))
  await insertPassages(tx, passagesOf)
  const id = newId()
  const documentId = documents.length > 1 ? null : first.documentId
  await insertSegment(tx, index, { id, documentId, state: 'published', ...withPassageIds(segment, first) }, now)
  await insertPages(tx, index.tenantId, id, new Map(pagesOf(segment).entries()))
  return { documentIds: drafts.map((draft) => draft.documentId), replaced }
}

const toNew = ({ source, contentHash, policyId, prepared }: DocumentToStore, now: string): NewDocument => ({
  source,
  contentHash,
  policyId,
  title: prepared.title,
  passageCount: prepared.passageCount,
  now,
})

/** Returns the segment with the passage ids of this draft. */
function withPassageIds({ first, lengths, ends }: PackedSegment, { firstPassageId }: Draft) {
  const ids = Float64Array.from(lengths, (_, ordinal) => firstPassageId + first + ordinal)
  return { ids, lengths, pageCount: ends.length }
}

/** Removes what failed trainings left behind: all unpublished data that was written before `before` (ISO 8601). */
export async function removeAbandoned(db: Db, tenantId: string, before: string): Promise<void> {
  const removeUnpublished = async () => {
    for (const document of await findUnpublished(db, tenantId, before)) await removeDocument(db, document)
  }
  await Promise.all([removeUnpublished(), removeAbandonedMerges(db, tenantId, before)])
}

/** Removes all data that was written for an unpublished document. */
export async function removeDocument(db: Db, document: DocumentKey): Promise<void> {
  if (!(await discardDocument(db, document))) return
  let deleted: number
  do {
    deleted = await db.transaction().execute((tx) => deletePassages(tx, document, DELETED_PER_TRANSACTION))
  } while (deleted === DELETED_PER_TRANSACTION)
  await db.transaction().execute((tx) => deleteDiscarded(tx, document))
}
