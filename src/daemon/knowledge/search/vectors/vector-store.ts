import { type SqlBool, sql } from 'kysely'
import type { Db } from '../../../platform/db/db.ts'
import { engineOf } from '../../../platform/db/engine.ts'
import type { IndexKey } from '../../indexes/document-types.ts'
import type { Run } from '../../indexes/segment.ts'
import type { VectorColumns } from './stored-vector.ts'

/** A document that the model has not embedded, or not all of it; `passages` are their ids. */
export type PendingDocument = { id: string; passages: Run }
export type PassageText = { id: number; headings: string; body: string }
/** A vector as it is stored: see `toColumns`. */
export type PassageVector = { passageId: number } & VectorColumns

/** What one statement deletes; others get in between. */
const ROWS_PER_STATEMENT = 500

/** The next index behind `after` that has documents for the model but `except`, in an order that gives every index its turn. */
export async function findPendingIndex(
  db: Db,
  modelId: number,
  after: IndexKey = { tenantId: '', indexId: '' },
  except: readonly string[] = [],
): Promise<IndexKey | undefined> {
  const found: IndexKey[] = []
  // One question for each, because each is answered by walking an index no further than one row.
  for (const other of await otherModels(db, modelId)) {
    const row = await pendingDocuments(db, [other], except)
      .select(['tenant_id as tenantId', 'index_id as indexId'])
      .where(sql<SqlBool>`(tenant_id, index_id) > (${after.tenantId}, ${after.indexId})`)
      .orderBy('tenant_id')
      .orderBy('index_id')
      .limit(1)
      .executeTakeFirst()
    if (row) found.push(row)
  }
  const [next] = found.sort(
    (one, other) => compare(one.tenantId, other.tenantId) || compare(one.indexId, other.indexId),
  )
  return next
}

const compare = (one: string, other: string): number => (one < other ? -1 : Number(one > other))

/** Some documents of an index that the model has still to embed, but `except`. */
export async function findPendingDocuments(
  db: Db,
  { tenantId, indexId }: IndexKey,
  modelId: number,
  limit: number,
  except: readonly string[] = [],
): Promise<PendingDocument[]> {
  const rows = await pendingDocuments(db, await otherModels(db, modelId), except)
    .select(['id', 'first_passage_id', 'passage_count'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .limit(limit)
    .execute()
  return rows.map(({ id, first_passage_id, passage_count }) => ({
    id,
    passages: { first: Number(first_passage_id), count: passage_count },
  }))
}

/** How many documents of all indexes the model has still to embed. */
export async function countPending(db: Db, modelId: number): Promise<number> {
  const { count } = await pendingDocuments(db, await otherModels(db, modelId))
    .select((the) => the.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** What `documents.embedded_by` may be that is not this model: none, or one that was used before. */
async function otherModels(db: Db, modelId: number): Promise<number[]> {
  const rows = await db.selectFrom('embedding_models').select('id').where('id', '<>', modelId).execute()
  return [0, ...rows.map(({ id }) => id)]
}

const pendingDocuments = (db: Db, embeddedBy: readonly number[], except: readonly string[] = []) =>
  db
    .selectFrom('documents')
    .$if(except.length > 0, (query) => query.where('id', 'not in', except))
    .where('state', '=', 'published')
    .where('embedded_by', 'in', embeddedBy)
    .where((the) =>
      the.exists(
        the
          .selectFrom('indexes')
          .select('indexes.id')
          .whereRef('indexes.tenant_id', '=', 'documents.tenant_id')
          .whereRef('indexes.id', '=', 'documents.index_id')
          .where('indexes.deleted_at', 'is', null),
      ),
    )

/** Those of these passages that are there and have no vector of the model. */
export function findUnembedded(
  db: Db,
  { tenantId, indexId }: IndexKey,
  modelId: number,
  ids: readonly number[],
): Promise<PassageText[]> {
  return db
    .selectFrom('passages')
    .select(['id', 'headings', 'body'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', 'in', ids)
    .where((the) =>
      the.not(
        the.exists(
          the
            .selectFrom('passage_vectors')
            .select('passage_id')
            .whereRef('passage_id', '=', 'passages.id')
            .where('model_id', '=', modelId),
        ),
      ),
    )
    .orderBy('id')
    .execute()
}

/** Stores vectors of passages; those whose passage was deleted meanwhile are left out. Takes a transaction. */
export async function insertVectors(
  tx: Db,
  { tenantId, indexId }: IndexKey,
  modelId: number,
  vectors: readonly PassageVector[],
): Promise<void> {
  const passages = tx
    .selectFrom('passages')
    .select('id')
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where(
      'id',
      'in',
      vectors.map(({ passageId }) => passageId),
    )
  // On SQLite nobody else writes now; on PostgreSQL nobody deletes what is locked.
  const rows = await (engineOf(tx).name === 'postgres' ? passages.forKeyShare() : passages).execute()
  const there = new Set(rows.map(({ id }) => id))
  const values = vectors
    .filter(({ passageId }) => there.has(passageId))
    .map(({ passageId, signature, vector }) => ({
      passage_id: passageId,
      model_id: modelId,
      tenant_id: tenantId,
      index_id: indexId,
      signature,
      vector,
    }))
  if (values.length === 0) return
  await tx
    .insertInto('passage_vectors')
    .values(values)
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  // The first vectors of an index are searched from here on; later models have to wait until they are complete.
  await tx
    .insertInto('index_vectors')
    .values({ tenant_id: tenantId, index_id: indexId, model_id: modelId, is_clean: 1 })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** From here on nobody looks for passages of these documents that the model has not embedded. */
export async function markEmbedded(
  db: Db,
  { tenantId, indexId }: IndexKey,
  modelId: number,
  documentIds: readonly string[],
): Promise<void> {
  await db
    .updateTable('documents')
    .set({ embedded_by: modelId })
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', 'in', documentIds)
    .execute()
}

/** An index that is searched with vectors of another model, or may hold some, whether or not documents are pending. */
export async function findUnfinished(db: Db, modelId: number): Promise<IndexKey | undefined> {
  return db
    .selectFrom('index_vectors')
    .select(['tenant_id as tenantId', 'index_id as indexId'])
    .where((the) => the.or([the('model_id', '<>', modelId), the('is_clean', '=', 0)]))
    .limit(1)
    .executeTakeFirst()
}

/** Has an index that the model has embedded as a whole searched with its vectors, and deletes all others. Safe to interrupt. */
export async function serveOnly(db: Db, { tenantId, indexId }: IndexKey, modelId: number): Promise<void> {
  const row = db.updateTable('index_vectors').where('tenant_id', '=', tenantId).where('index_id', '=', indexId)
  const { numUpdatedRows } = await row
    .set({ model_id: modelId, is_clean: 0 })
    .where((the) => the.or([the('model_id', '<>', modelId), the('is_clean', '=', 0)]))
    .executeTakeFirstOrThrow()
  if (numUpdatedRows === 0n) return
  for (const other of await otherModels(db, modelId)) {
    let deleted: number
    do deleted = await deleteSome(db, { tenantId, indexId }, other)
    while (deleted === ROWS_PER_STATEMENT)
  }
  await row.set({ is_clean: 1 }).where('model_id', '=', modelId).execute()
}

async function deleteSome(db: Db, { tenantId, indexId }: IndexKey, modelId: number): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('passage_vectors')
    .where('model_id', '=', modelId)
    .where('passage_id', 'in', (the) =>
      the
        .selectFrom('passage_vectors')
        .select('passage_id')
        .where('tenant_id', '=', tenantId)
        .where('index_id', '=', indexId)
        .where('model_id', '=', modelId)
        .limit(ROWS_PER_STATEMENT),
    )
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/** How many passages an index has, and how many of them have a vector of the model. */
export async function countEmbedded(
  db: Db,
  { tenantId, indexId }: IndexKey,
  modelId: number,
): Promise<{ passages: number; embedded: number }> {
  const { passages } = await db
    .selectFrom('documents')
    .select((the) => the.fn.coalesce(the.fn.sum<number>('passage_count'), sql<number>`0`).as('passages'))
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('state', '=', 'published')
    .executeTakeFirstOrThrow()
  const { vectors } = await db
    .selectFrom('passage_vectors')
    .select((the) => the.fn.countAll<number>().as('vectors'))
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('model_id', '=', modelId)
    .executeTakeFirstOrThrow()
  // Those of a document that is about to be removed are there a little longer than it counts.
  return { passages: Number(passages), embedded: Math.min(Number(vectors), Number(passages)) }
}
