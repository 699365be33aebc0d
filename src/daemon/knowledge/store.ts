import { GatewayError } from '../../shared/errors.ts'
import type { Db } from '../db/database.ts'
import { contains, type Page, pageOf } from '../db/list-page.ts'
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
  { search, ...page }: Page & { search?: string | undefined },
): Promise<{ indexes: CountedIndex[]; total: number }> {
  let matching = db.selectFrom('indexes').select('id').where('tenant_id', '=', tenantId)
  if (search !== undefined) matching = matching.where(contains('name', search))
  const { rows, total } = await pageOf(matching, {
    ...page,
    sortKeys: ['created_at', 'id'],
    sortOrder: 'desc',
    isSearch: search !== undefined,
    find: (ids) => countedIndexes(db, tenantId).where('id', 'in', ids).execute(),
  })
  return { indexes: rows, total }
}

const countedIndexes = (db: Db, tenantId: string) =>
  db
    .selectFrom('indexes')
    .selectAll()
    .select((the) =>
      the
        .selectFrom('documents')
        .whereRef('documents.tenant_id', '=', 'indexes.tenant_id')
        .whereRef('documents.index_id', '=', 'indexes.id')
        .where('documents.state', '=', 'published')
        .select((inner) => inner.fn.countAll<number>().as('count'))
        .as('documentCount'),
    )
    // A count is never null, whatever the type of a subquery says.
    .$narrowType<{ documentCount: number }>()
    .where('tenant_id', '=', tenantId)

/** The names that a key with these `allowedIndexes` may give as `index`, in alphabetical order; an empty list allows all. */
export function listIndexNames(
  db: Db,
  tenantId: string,
  allowedIndexes: readonly string[],
): Promise<Pick<IndexRow, 'name' | 'description'>[]> {
  const all = db.selectFrom('indexes').select(['name', 'description']).where('tenant_id', '=', tenantId)
  const usable = allowedIndexes.length === 0 ? all : all.where('name', 'in', allowedIndexes)
  return usable.orderBy('name').execute()
}
