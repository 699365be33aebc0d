import { sql } from 'kysely'
import { GatewayError } from '../../shared/errors.ts'
import type { Db } from '../db/database.ts'
import type { Tables } from '../db/tables.ts'

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
        .where('documents.state', '=', 'published')
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
