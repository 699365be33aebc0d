import { type SqlBool, sql } from 'kysely'
import type { Db } from '../../../platform/db/db.ts'
import { engineOf } from '../../../platform/db/engine.ts'
import type { IndexKey } from '../../indexes/document-types.ts'
import type { Run } from '../../indexes/segment.ts'
import type { VectorColumns } from './stored-vector.ts'

/**
 * A document that the model has not fully embedded. `passages` is the range of its passage ids. `policyId`: see
 * `documents.policy_id`.
 */
export type PendingDocument = { id: string; policyId: string | null; passages: Run }
export type PassageText = { id: number; headings: string; body: string }
/** A vector in stored form. See `toColumns`. */
export type PassageVector = { passageId: number } & VectorColumns

/** Rows deleted per statement. The number is small so that other writers can run between the statements. */
const ROWS_PER_STATEMENT = 500

/**
 * Returns the next index that has documents for the model to embed. Indexes are ordered by tenant and id, and the
 * search starts after `after`. Ignores the documents `except`.
 */
export async function findPendingIndex(
  db: Db,
  modelId: number,
  after: IndexKey = { tenantId: '', indexId: '' },
  except: readonly string[] = [],
): Promise<IndexKey | undefined> {
  const found: IndexKey[] = []
  // One query per model is cheaper than one query for all: each reads only one row of a database index.
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

/** Returns the policies of the documents of an index that are not embedded by the model yet, with their passages. */
export async function findPendingPolicies(
  db: Db,
  { tenantId, indexId }: IndexKey,
  modelId: number,
): Promise<{ policyId: string | null; passages: number }[]> {
  const rows = await pendingDocuments(db, await otherModels(db, modelId))
    .select((the) => ['policy_id', the.fn.sum<number>('passage_count').as('passages')])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .groupBy('policy_id')
    .execute()
  return rows.map(({ policy_id, passages }) => ({ policyId: policy_id ?? null, passages: Number(passages) }))
}

/** `policyIds`: only documents with one of these policies. By default, all documents. */
type PendingLimits = { limit: number; policyIds?: readonly (string | null)[]; except?: readonly string[] }

/** Returns documents of an index that are not embedded by the model yet. Ignores the documents `except`. */
export async function findPendingDocuments(
  db: Db,
  { tenantId, indexId }: IndexKey,
  modelId: number,
  { limit, policyIds, except = [] }: PendingLimits,
): Promise<PendingDocument[]> {
  const rows = await pendingDocuments(db, await otherModels(db, modelId), except)
    .select(['id', 'policy_id', 'first_passage_id', 'passage_count'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .$if(policyIds !== undefined, (query) =>
      query.where((the) => {
        const named = (policyIds ?? []).filter((id) => id !== null)
        return the.or([
          ...(named.length > 0 ? [the('policy_id', 'in', named)] : []),
          ...(policyIds?.includes(null) ? [the('policy_id', 'is', null)] : []),
        ])
      }),
    )
    .limit(limit)
    .execute()
  return rows.map(({ id, policy_id, first_passage_id, passage_count }) => ({
    id,
    policyId: policy_id ?? null,
    passages: { first: Number(first_passage_id), count: passage_count },
  }))
}

/** Returns the number of documents in all indexes that are not embedded by the model yet. */
export async function countPending(db: Db, modelId: number): Promise<number> {
  const { count } = await pendingDocuments(db, await otherModels(db, modelId))
    .select((the) => the.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/**
 * Returns all values that `documents.embedded_by` may have, except this model's id: 0 (no model) and the ids of all
 * other models.
 */
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

/** Returns the given passages that exist and have no vector of the model. */
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

/** Stores vectors of passages. Skips passages that were deleted in the meantime. Requires a transaction. */
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
  // The passages must still exist when their vectors are inserted. SQLite has only one writer. On PostgreSQL, the lock
  // prevents their deletion.
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
  // The first vectors of an index are used immediately. The vectors of a later model are used once that model has
  // embedded all documents.
  await tx
    .insertInto('index_vectors')
    .values({ tenant_id: tenantId, index_id: indexId, model_id: modelId, is_clean: 1 })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** Marks documents as embedded, so that they are no longer pending. */
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

/**
 * Returns an index whose searches use vectors of another model, or that may still contain such vectors. The index may
 * also have documents that are not embedded yet.
 */
export async function findUnfinished(db: Db, modelId: number): Promise<IndexKey | undefined> {
  return db
    .selectFrom('index_vectors')
    .select(['tenant_id as tenantId', 'index_id as indexId'])
    .where((the) => the.or([the('model_id', '<>', modelId), the('is_clean', '=', 0)]))
    .limit(1)
    .executeTakeFirst()
}

/**
 * Switches an index that the model has fully embedded to this model's vectors, and deletes all other vectors. Safe to
 * interrupt.
 */
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

/** Returns the number of passages of an index, and how many of them have a vector of the model. */
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
  // The count of vectors is capped at the count of passages: if a document is being removed, its vectors may exist
  // longer than its passages.
  return { passages: Number(passages), embedded: Math.min(Number(vectors), Number(passages)) }
}
