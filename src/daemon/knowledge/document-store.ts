import { type SelectQueryBuilder, sql } from 'kysely'
import { newId } from '../../shared/ids.ts'
import type { Db } from '../db/database.ts'
import { engineOf } from '../db/engine.ts'
import { insertRows } from '../db/insert-rows.ts'
import type { Tables } from '../db/tables.ts'
import { withWordBorders } from '../text/words.ts'
import type { Passage } from './chunking.ts'

export type IndexKey = { tenantId: string; indexId: string }
/** A document as it is stored: `contentHash` is the SHA-256 of its text, hex; `now` is ISO 8601. */
export type NewDocument = { source: string; title: string; contentHash: string; passageCount: number; now: string }
/** One document of an index, published or not. */
export type DocumentKey = IndexKey & { documentId: string }

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

/** Makes room for a document that no search sees yet. */
export async function insertDraft(
  db: Db,
  { tenantId, indexId }: IndexKey,
  { source, title, contentHash, passageCount, now }: NewDocument,
): Promise<DocumentKey> {
  const documentId = newId()
  await db
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
    })
    .execute()
  return { tenantId, indexId, documentId }
}

/** Adds passages to a draft. Takes a transaction. */
export async function insertPassages(
  tx: Db,
  { tenantId, indexId, documentId }: DocumentKey,
  passages: readonly Passage[],
): Promise<void> {
  await lockPassages(tx)
  const { last } = await tx
    .selectFrom('passages')
    .select((the) => the.fn.coalesce(the.fn.max('id'), sql<number>`0`).as('last'))
    .executeTakeFirstOrThrow()
  const rows = passages.map(({ position, headings, body }, offset) => ({
    id: Number(last) + 1 + offset,
    tenant_id: tenantId,
    index_id: indexId,
    document_id: documentId,
    position,
    headings: withWordBorders(headings),
    body: withWordBorders(body),
  }))
  await insertRows(tx, 'passages', rows)
}

/**
 * From here on a search finds the draft, and no longer what was published under its name. Takes a transaction.
 * @returns the documents it took the place of: one, or none.
 * @throws Error when the draft was discarded meanwhile.
 */
export async function publishDraft(tx: Db, draft: DocumentKey, source: string): Promise<DocumentKey[]> {
  const { tenantId, indexId, documentId } = draft
  await lockPassages(tx)
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
  return replaced.map(({ id }) => ({ tenantId, indexId, documentId: id }))
}

/** What is not published and was written before `before` (ISO 8601), in any index of the tenant. */
export async function findUnpublished(db: Db, tenantId: string, before: string): Promise<DocumentKey[]> {
  const rows = await db
    .selectFrom('documents')
    .select(['id', 'index_id'])
    .where('tenant_id', '=', tenantId)
    .where('state', '<>', 'published')
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
  await lockPassages(tx)
  const ofDocument = <T>(query: SelectQueryBuilder<Tables, 'passages', T>) =>
    query.where('tenant_id', '=', tenantId).where('index_id', '=', indexId).where('document_id', '=', documentId)
  const { numDeletedRows } = await tx
    .deleteFrom('passages')
    .where('id', 'in', ofDocument(tx.selectFrom('passages').select('id')).orderBy('position').limit(limit))
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/** Deletes a discarded document. */
export async function deleteDiscarded(db: Db, { tenantId, indexId, documentId }: DocumentKey): Promise<void> {
  await db
    .deleteFrom('documents')
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '=', 'discarded')
    .execute()
}

/** A number without meaning, the same in every daemon. */
const PASSAGES_LOCK = 0x61696777

/** Two daemons on one PostgreSQL would give out the same ids; SQLite has only one writer anyway. */
async function lockPassages(tx: Db): Promise<void> {
  if (engineOf(tx).name === 'postgres') await sql`select pg_advisory_xact_lock(${PASSAGES_LOCK})`.execute(tx)
}
