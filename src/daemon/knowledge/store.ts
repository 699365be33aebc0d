import { sql } from 'kysely'
import { GatewayError } from '../../shared/errors.ts'
import { newId } from '../../shared/ids.ts'
import type { Db } from '../db/database.ts'
import { engineOf } from '../db/engine.ts'
import { insertRows } from '../db/insert-rows.ts'
import type { Tables } from '../db/tables.ts'
import { withWordBorders } from '../text/words.ts'
import type { Passage } from './chunking.ts'

export type IndexRow = Tables['indexes']
export type CountedIndex = IndexRow & { documentCount: number }

/** The unique key decides, so of two administrators at once only one succeeds. @throws INDEX_NAME_EXISTS */
export async function insertIndex(db: Db, index: IndexRow): Promise<void> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('indexes')
    .values(index)
    .onConflict((conflict) => conflict.columns(['tenant_id', 'name']).doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 0n) {
    throw new GatewayError('INDEX_NAME_EXISTS', `An index named "${index.name}" exists already; choose another name.`, {
      details: { field: 'name', value: index.name },
    })
  }
}

/** The index of this tenant with this very name. */
export function findIndexByName(db: Db, tenantId: string, name: string): Promise<IndexRow | undefined> {
  return db
    .selectFrom('indexes')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('name', '=', name)
    .executeTakeFirst()
}

/** One page of a tenant's indexes, newest first, with how many there are in all. `search`: a part of the name. */
export async function listIndexes(
  db: Db,
  tenantId: string,
  { page, limit, search = '' }: { page: number; limit: number; search?: string | undefined },
): Promise<{ indexes: CountedIndex[]; total: number }> {
  const pattern = `%${search.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`
  const matching = db
    .selectFrom('indexes')
    .where('indexes.tenant_id', '=', tenantId)
    .where(sql<boolean>`indexes.name like ${pattern} escape '\\'`)
  const { total } = await matching.select((the) => the.fn.countAll().as('total')).executeTakeFirstOrThrow()
  const rows = await matching
    .selectAll()
    .select((the) =>
      the
        .selectFrom('documents')
        .whereRef('documents.tenant_id', '=', 'indexes.tenant_id')
        .whereRef('documents.index_id', '=', 'indexes.id')
        .select((inner) => inner.fn.countAll().as('count'))
        .as('document_count'),
    )
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .offset((page - 1) * limit)
    .execute()
  const indexes = rows.map(({ document_count, ...index }) => ({ ...index, documentCount: Number(document_count) }))
  return { indexes, total: Number(total) }
}

/** The names a key may give as `index`, in alphabetical order. */
export function listIndexNames(db: Db, tenantId: string): Promise<Pick<IndexRow, 'name' | 'description'>[]> {
  return db
    .selectFrom('indexes')
    .select(['name', 'description'])
    .where('tenant_id', '=', tenantId)
    .orderBy('name')
    .execute()
}

/** A document as it is stored: `contentHash` is the SHA-256 of its text, hex; `now` is ISO 8601. */
export type NewDocument = { source: string; title: string; contentHash: string; now: string }
export type IndexKey = { tenantId: string; indexId: string }

/** What the index holds under this name: the hash of its content, and of how many passages it consists. */
export async function findDocument(
  db: Db,
  { tenantId, indexId }: IndexKey,
  source: string,
): Promise<{ contentHash: string; passages: number } | undefined> {
  const row = await db
    .selectFrom('documents')
    .where('documents.tenant_id', '=', tenantId)
    .where('documents.index_id', '=', indexId)
    .where('documents.source', '=', source)
    .select((the) => [
      'documents.content_hash',
      the
        .selectFrom('passages')
        .whereRef('passages.tenant_id', '=', 'documents.tenant_id')
        .whereRef('passages.index_id', '=', 'documents.index_id')
        .whereRef('passages.document_id', '=', 'documents.id')
        .select((inner) => inner.fn.countAll().as('count'))
        .as('passages'),
    ])
    .executeTakeFirst()
  return row && { contentHash: row.content_hash, passages: Number(row.passages) }
}

/**
 * Puts the document in the place of the one with the same `source`. Takes a transaction, so that a search sees all of
 * the old passages or all of the new ones.
 */
export async function replaceDocument(
  tx: Db,
  { tenantId, indexId }: IndexKey,
  document: NewDocument,
  passages: readonly Passage[],
): Promise<void> {
  await lockPassageIds(tx)
  const { id } = await tx
    .insertInto('documents')
    .values({
      id: newId(),
      tenant_id: tenantId,
      index_id: indexId,
      source: document.source,
      title: document.title,
      content_hash: document.contentHash,
      created_at: document.now,
      updated_at: document.now,
    })
    .onConflict((conflict) =>
      conflict.columns(['tenant_id', 'index_id', 'source']).doUpdateSet({
        title: document.title,
        content_hash: document.contentHash,
        updated_at: document.now,
      }),
    )
    .returning('id')
    .executeTakeFirstOrThrow()
  await tx
    .deleteFrom('passages')
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('document_id', '=', id)
    .execute()
  const { last } = await tx
    .selectFrom('passages')
    .select((the) => the.fn.coalesce(the.fn.max('id'), sql<number>`0`).as('last'))
    .executeTakeFirstOrThrow()
  for (let start = 0; start < passages.length; start += PASSAGES_PER_INSERT) {
    const rows = passages.slice(start, start + PASSAGES_PER_INSERT).map((passage, offset) => ({
      id: Number(last) + 1 + start + offset,
      tenant_id: tenantId,
      index_id: indexId,
      document_id: id,
      position: passage.position,
      headings: withWordBorders(passage.headings),
      body: withWordBorders(passage.body),
    }))
    await insertRows(tx, 'passages', rows)
  }
}

/** Small enough that preparing the rows never holds up other requests for long. */
const PASSAGES_PER_INSERT = 100

/** A number without meaning, the same in every daemon. */
const PASSAGE_IDS_LOCK = 0x61696777

/** Two daemons on one PostgreSQL would give out the same ids; SQLite has only one writer anyway. */
async function lockPassageIds(tx: Db): Promise<void> {
  if (engineOf(tx).name === 'postgres') await sql`select pg_advisory_xact_lock(${PASSAGE_IDS_LOCK})`.execute(tx)
}
