// Queries on documents and their passages. This file is long, because it contains all queries on documents.
import { type Expression, type SelectQueryBuilder, type SqlBool, sql } from 'kysely'
import { newId } from '../../../shared/ids.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import type { Tables } from '../../platform/db/tables.ts'
import type { Passage } from '../ingest/chunking.ts'
import type { DocumentKey, Draft, IndexKey, NewDocument } from './document-types.ts'
import type { Run } from './segment.ts'
import { deleteSegments, publishSegments } from './segment-store.ts'

/**
 * Finds the published documents with these names. Returns each document's content hash and number of passages, by name.
 */
export async function findDocuments(
  db: Db,
  { tenantId, indexId }: IndexKey,
  sources: readonly string[],
): Promise<Map<string, { contentHash: string; passageCount: number }>> {
  if (sources.length === 0) return new Map()
  const rows = await db
    .selectFrom('documents')
    .select(['source', 'content_hash', 'passage_count'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where(isNamed(db, sources))
    .where('state', '=', 'published')
    .execute()
  return new Map(
    rows.map(({ source, content_hash, passage_count }) => [
      source,
      { contentHash: content_hash, passageCount: passage_count },
    ]),
  )
}

/**
 * On PostgreSQL, all names are one array parameter. PostgreSQL plans each execution separately, and planning with a
 * hundred parameters would take twice as long (measured: 1 ms).
 */
const isNamed = (db: Db, sources: readonly string[]): Expression<SqlBool> =>
  engineOf(db).name === 'sqlite'
    ? sql<boolean>`source in (${sql.join(sources)})`
    : sql<boolean>`source = any(${sources}::text[])`

/** Inserts a draft. Searches do not find drafts. Requires a transaction. */
export async function insertDraft(tx: Db, index: IndexKey, document: NewDocument): Promise<Draft> {
  await lockPassageIds(tx)
  const [draft] = await insertDocuments(tx, index, [document], 'draft')
  return draft as Draft
}

/**
 * Inserts published documents. Each document replaces the published document of the same name. After this call, the
 * caller must write the passages (one contiguous range of ids) and the segment. Requires a transaction.
 * @returns the new documents, and the documents that they replaced
 */
export async function insertPublished(
  tx: Db,
  index: IndexKey,
  documents: readonly NewDocument[],
): Promise<{ drafts: Draft[]; replaced: { source: string; documentId: string }[] }> {
  await lockPassageIds(tx)
  const sources = documents.map(({ source }) => source)
  const replaced = await discardPublished(tx, index, sources)
  return { drafts: await insertDocuments(tx, index, documents, 'published'), replaced }
}

async function insertDocuments(
  tx: Db,
  { tenantId, indexId }: IndexKey,
  documents: readonly NewDocument[],
  state: 'draft' | 'published',
): Promise<Draft[]> {
  let next = await nextPassageId(tx)
  const drafts = documents.map(({ passageCount }) => {
    const firstPassageId = next
    // A document without passages reserves one id as well, so that the next document gets a different first id.
    next += Math.max(passageCount, 1)
    return { tenantId, indexId, documentId: newId(), firstPassageId }
  })
  const rows = documents.map(({ source, title, contentHash, policyId, passageCount, now }, at) => ({
    id: drafts[at]?.documentId as string,
    tenant_id: tenantId,
    index_id: indexId,
    source,
    title,
    content_hash: contentHash,
    passage_count: passageCount,
    state,
    created_at: now,
    first_passage_id: drafts[at]?.firstPassageId as number,
    in_shared_segment: documents.length > 1 ? 1 : 0,
    policy_id: policyId ?? null,
  }))
  await insertRows(tx, 'documents', rows)
  return drafts
}

/** Returns the next free passage id: after all stored passages and all ids that drafts have reserved. */
async function nextPassageId(tx: Db): Promise<number> {
  // Documents without passages reserve one id.
  const reserved = tx
    .selectFrom('documents')
    .select(sql<number>`first_passage_id + case when passage_count > 0 then passage_count else 1 end`.as('next'))
    .where('first_passage_id', 'is not', null)
    .orderBy('first_passage_id', 'desc')
    .limit(1)
  const { last, next } = await tx
    .selectFrom('passages')
    .select((the) => [the.fn.max('id').as('last'), reserved.as('next')])
    .executeTakeFirstOrThrow()
  return Math.max(Number(last ?? 0) + 1, Number(next ?? 1))
}

/** Adds passages to documents in one statement. Requires a transaction. */
export async function insertPassages(
  tx: Db,
  documents: readonly { draft: Draft; passages: readonly Passage[] }[],
): Promise<void> {
  const rows = documents.flatMap(({ draft, passages }) => passagesToRows(draft, passages))
  await insertRows(tx, 'passages', rows)
}

function passagesToRows(draft: Draft, passages: readonly Passage[]): Tables['passages'][] {
  return passages.map(({ position, headings, body, page = null }) => ({
    id: draft.firstPassageId + position,
    tenant_id: draft.tenantId,
    index_id: draft.indexId,
    document_id: draft.documentId,
    position,
    headings,
    body,
    page,
  }))
}

/**
 * Publishes a draft. Searches then find the draft instead of the published document of the same name. Requires a
 * transaction.
 * @returns the replaced document, if there is one
 * @throws Error if the draft was discarded in the meantime
 */
export async function publishDraft(tx: Db, draft: DocumentKey, source: string): Promise<DocumentKey[]> {
  const { tenantId, indexId, documentId } = draft
  await lockPassageIds(tx)
  const replaced = await discardPublished(tx, draft, [source])
  const { numUpdatedRows } = await tx
    .updateTable('documents')
    .set({ state: 'published' })
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '=', 'draft')
    .executeTakeFirstOrThrow()
  if (numUpdatedRows !== 1n) throw new Error(`the draft of "${source}" was discarded before it was complete`)
  await publishSegments(tx, tenantId, documentId)
  return replaced.map(({ documentId }) => ({ tenantId, indexId, documentId }))
}

function discardPublished(
  tx: Db,
  { tenantId, indexId }: IndexKey,
  sources: readonly string[],
): Promise<{ source: string; documentId: string }[]> {
  return tx
    .updateTable('documents')
    .set({ state: 'discarded' })
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where(isNamed(tx, sources))
    .where('state', '=', 'published')
    .returning(['source', 'id as documentId'])
    .execute()
}

/** Returns the tenant's documents that were written before `before` (ISO 8601) and are neither published nor buried. */
export async function findUnpublished(db: Db, tenantId: string, before: string): Promise<DocumentKey[]> {
  const rows = await db
    .selectFrom('documents')
    .select(['id', 'index_id'])
    .where('tenant_id', '=', tenantId)
    .where('state', '<>', 'published')
    .where('state', '<>', 'buried')
    .where('created_at', '<', before)
    .execute()
  return rows.map(({ id, index_id }) => ({ tenantId, indexId: index_id, documentId: id }))
}

/**
 * Returns the tenants that have drafts older than `before` (ISO 8601). Drafts are draft documents, and draft segments
 * of a merge or rebuild.
 */
export async function findTenantsWithDrafts(db: Db, before: string): Promise<string[]> {
  const ofDocuments = db
    .selectFrom('documents')
    .select('tenant_id')
    .where('state', '<>', 'published')
    .where('state', '<>', 'buried')
    .where('created_at', '<', before)
  const ofSegments = db
    .selectFrom('indexes')
    .innerJoin('segments', (join) =>
      join
        .onRef('segments.tenant_id', '=', 'indexes.tenant_id')
        .onRef('segments.index_id', '=', 'indexes.id')
        .on('segments.state', '=', 'draft'),
    )
    .select('segments.tenant_id')
    .where('segments.document_id', 'is', null)
    .where('segments.created_at', '<', before)
  const rows = await ofDocuments.union(ofSegments).execute()
  return rows.map(({ tenant_id }) => tenant_id)
}

/** Locks a draft until the transaction ends. @throws Error if the draft was discarded in the meantime */
export async function lockDraft(tx: Db, { tenantId, indexId, documentId }: DocumentKey): Promise<void> {
  const { numUpdatedRows } = await tx
    .updateTable('documents')
    .set({ state: 'draft' })
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '=', 'draft')
    .executeTakeFirstOrThrow()
  if (numUpdatedRows !== 1n) throw new Error('the draft was discarded before it was complete')
}

/** Discards a document, so that it can no longer be published. Returns false if it is already published. */
export async function discardDocument(db: Db, { tenantId, indexId, documentId }: DocumentKey): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('documents')
    .set({ state: 'discarded' })
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '<>', 'published')
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

/** Deletes up to `limit` passages of a document. Requires a transaction. @returns the number of deleted passages */
export async function deletePassages(
  tx: Db,
  { tenantId, indexId, documentId }: DocumentKey,
  limit: number,
): Promise<number> {
  const ofDocument = <T>(query: SelectQueryBuilder<Tables, 'passages', T>) =>
    query.where('tenant_id', '=', tenantId).where('index_id', '=', indexId).where('document_id', '=', documentId)
  const { numDeletedRows } = await tx
    .deleteFrom('passages')
    .where('id', 'in', ofDocument(tx.selectFrom('passages').select('id')).orderBy('position').limit(limit))
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/**
 * Deletes a discarded document whose passages are already deleted. If a shared segment still contains its terms, the
 * row is kept as `buried`, so that searches skip these terms. Requires a transaction.
 */
export async function deleteDiscarded(tx: Db, { tenantId, indexId, documentId }: DocumentKey): Promise<void> {
  await deleteSegments(tx, tenantId, documentId)
  await tx
    .deleteFrom('documents')
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '=', 'discarded')
    .where('in_shared_segment', '=', 0)
    .execute()
  await tx
    .updateTable('documents')
    .set({ state: 'buried' })
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '=', 'discarded')
    .execute()
}

/**
 * Returns the buried documents of an index and the ids of their passages. The passages are deleted, but shared segments
 * still contain their terms.
 */
export async function findBuried(
  db: Db,
  { tenantId, indexId }: IndexKey,
): Promise<{ documentId: string; passages: Run }[]> {
  const rows = await db
    .selectFrom('documents')
    .select(['id', 'first_passage_id', 'passage_count'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('state', '=', 'buried')
    .execute()
  return rows.map(({ id, first_passage_id, passage_count }) => ({
    documentId: id,
    passages: { first: Number(first_passage_id), count: passage_count },
  }))
}

/** Deletes the row of a buried document. Call this once segments no longer contain the document's terms. */
export async function deleteBuried(db: Db, { tenantId, indexId, documentId }: DocumentKey): Promise<void> {
  await db
    .deleteFrom('documents')
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '=', 'buried')
    .execute()
}

/**
 * Returns a published document of any tenant that is not in any segment yet. Returns undefined if there is no such
 * document.
 */
export async function findUnindexed(
  db: Db,
): Promise<{ index: IndexKey; documentId: string; document: Omit<NewDocument, 'passageCount' | 'now'> } | undefined> {
  const row = await db
    .selectFrom('documents')
    .selectAll()
    .where('state', '=', 'published')
    .where('first_passage_id', 'is', null)
    .limit(1)
    .executeTakeFirst()
  return (
    row && {
      index: { tenantId: row.tenant_id, indexId: row.index_id },
      documentId: row.id,
      document: { source: row.source, title: row.title, contentHash: row.content_hash },
    }
  )
}

/**
 * A published document of an index, with the ids of its passages. Lists of published documents are ordered by passage
 * id.
 */
export type DocumentRun = Run & { documentId: string; source: string; title: string }

export async function findRuns(db: Db, { tenantId, indexId }: IndexKey): Promise<DocumentRun[]> {
  const rows = await db
    .selectFrom('documents')
    .select(['id', 'source', 'title', 'first_passage_id', 'passage_count'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('state', '=', 'published')
    .where('first_passage_id', 'is not', null)
    .orderBy('first_passage_id')
    .execute()
  return rows.map(({ id, source, title, first_passage_id, passage_count }) => ({
    documentId: id,
    source,
    title,
    first: Number(first_passage_id),
    count: passage_count,
  }))
}

const MARKED_AT_ONCE = 500

/** Marks documents as shared: their terms are in a segment that also contains other documents, or will be soon. */
export async function markShared(db: Db, { tenantId, indexId }: IndexKey, ids: readonly string[]): Promise<void> {
  for (let start = 0; start < ids.length; start += MARKED_AT_ONCE) {
    await db
      .updateTable('documents')
      .set({ in_shared_segment: 1 })
      .where('tenant_id', '=', tenantId)
      .where('index_id', '=', indexId)
      .where('id', 'in', ids.slice(start, start + MARKED_AT_ONCE))
      .where('in_shared_segment', '=', 0)
      .execute()
  }
}

/** Returns the passages of a document in order, starting at a position (inclusive). */
export function readPassages(
  db: Db,
  { tenantId, indexId, documentId }: DocumentKey,
  { from, limit }: { from: number; limit: number },
): Promise<Passage[]> {
  return db
    .selectFrom('passages')
    .select(['position', 'headings', 'body', 'page'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('document_id', '=', documentId)
    .where('position', '>=', from)
    .where('position', '<', from + limit)
    .orderBy('position')
    .execute()
}

/** The id of the advisory lock for passage ids. The id is an arbitrary number, but must be the same in every daemon. */
const PASSAGE_IDS_LOCK = 0x61696777

/**
 * Serializes the allocation of passage ids between daemons on one PostgreSQL. SQLite needs no lock, because it has only
 * one writer.
 */
async function lockPassageIds(tx: Db): Promise<void> {
  if (engineOf(tx).name === 'postgres') await sql`select pg_advisory_xact_lock(${PASSAGE_IDS_LOCK})`.execute(tx)
}
