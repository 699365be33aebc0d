import { type SelectQueryBuilder, sql } from 'kysely'
import { newId } from '../../shared/ids.ts'
import type { Db } from '../db/database.ts'
import { engineOf } from '../db/engine.ts'
import { insertRows } from '../db/insert-rows.ts'
import type { Tables } from '../db/tables.ts'
import type { Passage } from './chunking.ts'
import type { NewSegment, Run } from './segment.ts'
import { deleteSegments, insertSegment, publishSegments } from './segment-store.ts'

export type IndexKey = { tenantId: string; indexId: string }
/** A document as it is stored: `contentHash` is the SHA-256 of its text, hex; `now` is ISO 8601. */
export type NewDocument = { source: string; title: string; contentHash: string; passageCount: number; now: string }
/** One document of an index, published or not. */
export type DocumentKey = IndexKey & { documentId: string }
/** A document that is being written. Its passages have ids that follow each other, from this one on. */
export type Draft = DocumentKey & { firstPassageId: number }

/** What the index holds under this name: the hash of its content, and of how many passages it consists. */
export async function findDocument(
  db: Db,
  { tenantId, indexId }: IndexKey,
  source: string,
): Promise<{ contentHash: string; passageCount: number } | undefined> {
  const row = await db
    .selectFrom('documents')
    .select(['content_hash', 'passage_count'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('source', '=', source)
    .where('state', '=', 'published')
    .executeTakeFirst()
  return row && { contentHash: row.content_hash, passageCount: row.passage_count }
}

/** Makes room for a document that no search sees yet. Takes a transaction. */
export async function insertDraft(
  tx: Db,
  { tenantId, indexId }: IndexKey,
  { source, title, contentHash, passageCount, now }: NewDocument,
): Promise<Draft> {
  await lockPassageIds(tx)
  const documentId = newId()
  const firstPassageId = await nextPassageId(tx)
  await tx
    .insertInto('documents')
    .values({
      id: documentId,
      tenant_id: tenantId,
      index_id: indexId,
      source,
      title,
      content_hash: contentHash,
      passage_count: passageCount,
      state: 'draft',
      created_at: now,
      first_passage_id: firstPassageId,
      in_shared_segment: 0,
    })
    .execute()
  return { tenantId, indexId, documentId, firstPassageId }
}

/** Behind all passages that there are, and behind those that drafts have still to write. */
async function nextPassageId(tx: Db): Promise<number> {
  const { last } = await tx
    .selectFrom('passages')
    .select((the) => the.fn.coalesce(the.fn.max('id'), sql<number>`0`).as('last'))
    .executeTakeFirstOrThrow()
  const document = await tx
    .selectFrom('documents')
    .select(['first_passage_id', 'passage_count'])
    .where('first_passage_id', 'is not', null)
    .orderBy('first_passage_id', 'desc')
    .limit(1)
    .executeTakeFirst()
  // A document without passages takes an id as well, or the next one would have the same.
  const reserved = document ? Number(document.first_passage_id) + Math.max(document.passage_count, 1) : 1
  return Math.max(Number(last) + 1, reserved)
}

/** Adds passages to a draft, with the segment that `segmentOf` made of them. Takes a transaction. */
export async function insertPassages(
  tx: Db,
  { tenantId, indexId, documentId, firstPassageId }: Draft,
  passages: readonly Passage[],
  segment: NewSegment,
  now: string,
): Promise<void> {
  const rows = passages.map(({ position, headings, body, page = null }) => ({
    id: firstPassageId + position,
    tenant_id: tenantId,
    index_id: indexId,
    document_id: documentId,
    position,
    headings,
    body,
    page,
  }))
  await insertRows(tx, 'passages', rows)
  await insertSegment(tx, { tenantId, indexId }, documentId, segment, now)
}

/**
 * From here on a search finds the draft, and no longer what was published under its name. Takes a transaction.
 * @returns the documents it took the place of: one, or none.
 * @throws Error when the draft was discarded meanwhile.
 */
export async function publishDraft(tx: Db, draft: DocumentKey, source: string): Promise<DocumentKey[]> {
  const { tenantId, indexId, documentId } = draft
  await lockPassageIds(tx)
  const replaced = await tx
    .updateTable('documents')
    .set({ state: 'discarded' })
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('source', '=', source)
    .where('state', '=', 'published')
    .returning('id')
    .execute()
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
  return replaced.map(({ id }) => ({ tenantId, indexId, documentId: id }))
}

/** What is not published, nor buried, and was written before `before` (ISO 8601), in any index of the tenant. */
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

/** From here on nobody can publish the document. False when somebody has. */
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

/** Deletes up to `limit` passages of a document and returns how many it were. Takes a transaction. */
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
 * Deletes a discarded document whose passages are deleted. Where a segment that it shares with others still holds its
 * words, the row stays, `buried`, and tells searches to leave them out. Takes a transaction.
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

/** The documents of an index of which only words in shared segments are left, with the ids of their passages. */
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

/** Forgets a buried document, once no segment holds words of it. */
export async function deleteBuried(db: Db, { tenantId, indexId, documentId }: DocumentKey): Promise<void> {
  await db
    .deleteFrom('documents')
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '=', 'buried')
    .execute()
}

/** A published document that is in no segment yet, of any tenant; undefined when there is none. */
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

/** All passages of a document, in order. */
export function readPassages(db: Db, { tenantId, indexId, documentId }: DocumentKey): Promise<Passage[]> {
  return db
    .selectFrom('passages')
    .select(['position', 'headings', 'body', 'page'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('document_id', '=', documentId)
    .orderBy('position')
    .execute()
}

/** A number without meaning, the same in every daemon. */
const PASSAGE_IDS_LOCK = 0x61696777

/** Two daemons on one PostgreSQL would give out the same ids; SQLite has only one writer anyway. */
async function lockPassageIds(tx: Db): Promise<void> {
  if (engineOf(tx).name === 'postgres') await sql`select pg_advisory_xact_lock(${PASSAGE_IDS_LOCK})`.execute(tx)
}
