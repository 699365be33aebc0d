import { type SelectQueryBuilder, sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import type { Tables } from '../../platform/db/tables.ts'
import type { IndexKey } from './document-types.ts'

/** Rows deleted per transaction. The number is small so that other writers can run between the transactions. */
const ROWS_PER_TRANSACTION = 200

/**
 * Removes the data of deleted indexes: passages, then segments, then documents. Requests can no longer read this data.
 * This work can be interrupted safely, and several daemons can run it simultaneously.
 */
export async function purgeDeletedIndexes(db: Db): Promise<void> {
  const indexes = await db
    .selectFrom('indexes')
    .select(['tenant_id', 'id'])
    .where('deleted_at', 'is not', null)
    .where((the) =>
      the.or(
        (['documents', 'segments'] as const).map((table) =>
          the.exists(
            sql`(select 1 from ${sql.table(table)} t where t.tenant_id = indexes.tenant_id and t.index_id = indexes.id)`,
          ),
        ),
      ),
    )
    .execute()
  for (const { tenant_id, id } of indexes) await emptyIndex(db, { tenantId: tenant_id, indexId: id })
}

/** Whether the index is deleted. A write that fails because of the deletion is not an internal error. */
export async function isDeleted(db: Db, { tenantId, indexId }: IndexKey): Promise<boolean> {
  const row = await db
    .selectFrom('indexes')
    .select('deleted_at')
    .where('tenant_id', '=', tenantId)
    .where('id', '=', indexId)
    .executeTakeFirst()
  return row?.deleted_at !== null
}

async function emptyIndex(db: Db, { tenantId, indexId }: IndexKey): Promise<void> {
  // Discard the drafts first. Otherwise a training that is still writing a document would add new segments after the
  // index's segments were deleted.
  await db
    .updateTable('documents')
    .set({ state: 'discarded' })
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('state', '=', 'draft')
    .execute()
  const ofIndex = <Table extends 'passages' | 'segments' | 'documents', T>(
    query: SelectQueryBuilder<Tables, Table, T>,
  ) => query.where(sql<boolean>`tenant_id = ${tenantId} and index_id = ${indexId}`).limit(ROWS_PER_TRANSACTION)
  await inSteps(() =>
    db
      .deleteFrom('passages')
      .where('id', 'in', ofIndex(db.selectFrom('passages').select('id')))
      .executeTakeFirst(),
  )
  const segments = db
    .selectFrom('segments')
    .select('id')
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
  await inSteps(() =>
    db
      .deleteFrom('postings')
      .where(
        'page',
        'in',
        db
          .selectFrom('postings')
          .select('page')
          .where('tenant_id', '=', tenantId)
          .where('segment_id', 'in', segments)
          .limit(ROWS_PER_TRANSACTION),
      )
      .executeTakeFirst(),
  )
  await inSteps(() =>
    db
      .deleteFrom('segments')
      .where('id', 'in', ofIndex(db.selectFrom('segments').select('id')))
      .executeTakeFirst(),
  )
  await inSteps(() =>
    db
      .deleteFrom('documents')
      .where('id', 'in', ofIndex(db.selectFrom('documents').select('id')))
      .executeTakeFirst(),
  )
}

async function inSteps(step: () => Promise<{ numDeletedRows: bigint } | undefined>): Promise<void> {
  while (Number((await step())?.numDeletedRows ?? 0n) === ROWS_PER_TRANSACTION) {}
}
