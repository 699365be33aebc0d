import { type SelectQueryBuilder, sql } from 'kysely'
import type { Db } from '../db/database.ts'
import type { Tables } from '../db/tables.ts'
import type { IndexKey } from './document-store.ts'

/** What one transaction deletes; others get in between. */
const ROWS_PER_TRANSACTION = 200

/**
 * Removes what deleted indexes still hold: passages, then segments, then documents. Nobody can read it any more. Safe to
 * interrupt, and to run in several daemons at once.
 */
export async function purgeDeletedIndexes(db: Db): Promise<void> {
  const indexes = await db
    .selectFrom('indexes')
    .select(['tenant_id', 'id'])
    .where('deleted_at', 'is not', null)
    .where((the) =>
      the.exists(
        the
          .selectFrom('documents')
          .select('documents.id')
          .whereRef('documents.tenant_id', '=', 'indexes.tenant_id')
          .whereRef('documents.index_id', '=', 'indexes.id'),
      ),
    )
    .execute()
  for (const { tenant_id, id } of indexes) await emptyIndex(db, { tenantId: tenant_id, indexId: id })
}

async function emptyIndex(db: Db, { tenantId, indexId }: IndexKey): Promise<void> {
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
