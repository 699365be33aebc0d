import { type SqlBool, sql } from 'kysely'
import { isoTime } from '../../../../shared/time.ts'
import type { Db } from '../../../platform/db/db.ts'
import { engineOf } from '../../../platform/db/engine.ts'
import type { IndexKey } from '../../indexes/document-types.ts'
import type { EmbeddingConfig } from './config.ts'

/**
 * The duration of the lease that the embedding daemon takes. This duration is longer than two embedding attempts. When
 * the lease expires, another daemon takes over.
 */
export const EMBEDDING_LEASE_MS = 150_000

/** A model that this installation has used. Vectors of different models are never compared. */
export type EmbeddingModel = { id: number; model: string; requestedDimensions: number; dimensions: number }

/**
 * Chooses the model that embeds passages, and returns its row. If daemons with different configurations share a store,
 * the most recently started daemon decides.
 */
export async function chooseModel(db: Db, { model, dimensions = 0 }: EmbeddingConfig): Promise<EmbeddingModel> {
  for (;;) {
    const found = await selectModels(db)
      .where('model', '=', model)
      .where('asked_dimensions', '=', dimensions)
      .executeTakeFirst()
    if (found) {
      await db.transaction().execute((tx) => chooseForWork(tx, found.id))
      return found
    }
    // If another daemon concurrently adds the model or uses the number, the insert does nothing, and the lookup is
    // repeated.
    await sql`
      insert into embedding_models (id, model, asked_dimensions, dimensions)
      select coalesce(max(id), 0) + 1, ${model}, cast(${dimensions} as integer), 0 from embedding_models where true
      on conflict do nothing
    `.execute(db)
  }
}

const selectModels = (db: Db) =>
  db.selectFrom('embedding_models').select(['id', 'model', 'asked_dimensions as requestedDimensions', 'dimensions'])

async function chooseForWork(tx: Db, modelId: number): Promise<void> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('embedding_work')
    .values({ id: 1, model_id: modelId, lease_owner: null, lease_until: null })
    .onConflict((conflict) =>
      conflict.column('id').doUpdateSet({ model_id: modelId }).where('embedding_work.model_id', '<>', modelId),
    )
    .executeTakeFirstOrThrow()
  // Mark all indexes as not clean. Any index may contain vectors of an earlier model, because that model may have been
  // replaced before it had embedded all documents.
  if (numInsertedOrUpdatedRows === 1n) await tx.updateTable('index_vectors').set({ is_clean: 0 }).execute()
  // Clear the lease on SQLite: only one daemon can open the file, so the previous daemon has ended.
  if (engineOf(tx).name === 'sqlite') await tx.updateTable('embedding_work').set({ lease_owner: null }).execute()
}

/** Returns the model whose vectors serve searches of this index. Returns undefined if the index has no such vectors. */
export function findServingModel(db: Db, { tenantId, indexId }: IndexKey): Promise<EmbeddingModel | undefined> {
  return selectModels(db)
    .innerJoin('index_vectors', 'index_vectors.model_id', 'embedding_models.id')
    .where('index_vectors.tenant_id', '=', tenantId)
    .where('index_vectors.index_id', '=', indexId)
    .executeTakeFirst()
}

/** Returns the length of this model's vectors. The first vector sets the length. */
export async function learnDimensions(db: Db, modelId: number, dimensions: number): Promise<number> {
  await db
    .updateTable('embedding_models')
    .set({ dimensions })
    .where('id', '=', modelId)
    .where('dimensions', '=', 0)
    .execute()
  const learned = await selectModels(db).where('id', '=', modelId).executeTakeFirstOrThrow()
  return learned.dimensions
}

/**
 * Claims the embedding work for this daemon, or renews the claim. Returns false if another daemon has the claim, or if
 * another model has been chosen.
 */
export async function claimWork(
  db: Db,
  { modelId, owner, now }: { modelId: number; owner: string; now: number },
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('embedding_work')
    .set({ lease_owner: owner, lease_until: isoTime(now + EMBEDDING_LEASE_MS) })
    .where('model_id', '=', modelId)
    .where((the) =>
      the.or([
        the('lease_owner', 'is', null),
        the('lease_owner', '=', owner),
        sql<SqlBool>`lease_until < ${isoTime(now)}`,
      ]),
    )
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

/** Releases the claim, so that another daemon can claim the work immediately. */
export async function releaseWork(db: Db, owner: string): Promise<void> {
  await db.updateTable('embedding_work').set({ lease_owner: null }).where('lease_owner', '=', owner).execute()
}
