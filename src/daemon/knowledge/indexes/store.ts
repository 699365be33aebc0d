// SQL queries on indexes.
import type { Insertable } from 'kysely'
import { GatewayError } from '../../../shared/errors.ts'
import type { INDEX_SORTS } from '../../../shared/wire/indexes.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { contains, type Page, pageOf } from '../../platform/db/list-page.ts'
import type { Tables } from '../../platform/db/tables.ts'

export type IndexRow = Tables['indexes']

/**
 * An index, its number of documents, and the names of the assigned user and group. A name is null if that user or group
 * is deleted.
 */
export type IndexDetails = IndexRow & {
  documentCount: number
  user_name: string | null
  user_email: string | null
  group_name: string | null
}

export type IndexFilter = Page & {
  search?: string | undefined
  type?: 'personal' | 'general' | 'group' | undefined
  status?: 'active' | 'deleted' | 'all'
  sortBy?: (typeof INDEX_SORTS)[number]
  sortOrder?: 'asc' | 'desc'
}

/**
 * Inserts an index. If concurrent requests insert the same name, the unique key lets only one succeed.
 * @throws INDEX_NAME_EXISTS
 */
export async function insertIndex(db: Db, index: Insertable<IndexRow>): Promise<void> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('indexes')
    .values(index)
    .onConflict((conflict) => conflict.columns(['tenant_id', 'name']).doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 0n) throw nameExists(index.name)
}

/** Changes an index that is not deleted. @throws INDEX_NAME_EXISTS */
export async function updateIndex(
  tx: Db,
  { tenant_id, id, ...columns }: Pick<IndexRow, 'tenant_id' | 'id'> & Partial<IndexRow>,
): Promise<void> {
  try {
    await tx
      .updateTable('indexes')
      .set(columns)
      .where('tenant_id', '=', tenant_id)
      .where('id', '=', id)
      .where('deleted_at', 'is', null)
      .execute()
  } catch (cause) {
    // A violated unique key always means a duplicate name, because no other column is unique.
    if (engineOf(tx).uniqueKeyOf(cause) === undefined) throw cause
    throw nameExists(columns.name ?? '', cause)
  }
}

const nameExists = (name: string, cause?: unknown) =>
  new GatewayError('INDEX_NAME_EXISTS', `An index named "${name}" already exists; choose another name.`, {
    details: { field: 'name', value: name },
    cause,
  })

/** Returns the tenant's index with this id, deleted or not. */
export function findIndexDetails(db: Db, tenantId: string, id: string): Promise<IndexDetails | undefined> {
  return indexDetails(db, tenantId).where('indexes.id', '=', id).executeTakeFirst()
}

/** Returns the number of the tenant's indexes that are assigned to this user. */
export async function countPersonalIndexes(db: Db, tenantId: string, userId: string): Promise<number> {
  const { count } = await db
    .selectFrom('indexes')
    .select((the) => the.fn.countAll<number>().as('count'))
    .where('tenant_id', '=', tenantId)
    .where('assigned_user_id', '=', userId)
    .where('deleted_at', 'is', null)
    .executeTakeFirstOrThrow()
  return Number(count)
}

const SORT_COLUMNS = { createdAt: 'created_at', updatedAt: 'updated_at', name: 'name' } as const

/**
 * Returns one page of a tenant's indexes, newest first by default, and their total number. `search` matches any part of
 * the name.
 */
export async function listIndexes(
  db: Db,
  tenantId: string,
  { search, type, status = 'active', sortBy = 'createdAt', sortOrder = 'desc', ...page }: IndexFilter,
): Promise<{ indexes: IndexDetails[]; total: number }> {
  let matching = db.selectFrom('indexes').select('id').where('tenant_id', '=', tenantId)
  if (status !== 'all') matching = matching.where('deleted_at', status === 'active' ? 'is' : 'is not', null)
  if (type === 'personal') matching = matching.where('assigned_user_id', 'is not', null)
  if (type === 'group') matching = matching.where('assigned_group_id', 'is not', null)
  if (type === 'general') {
    matching = matching.where('assigned_user_id', 'is', null).where('assigned_group_id', 'is', null)
  }
  if (search !== undefined) {
    matching = matching.where((the) => the.or([contains('name', search), contains('deleted_name', search)]))
  }
  const { rows, total } = await pageOf(matching, {
    ...page,
    sortKeys: [SORT_COLUMNS[sortBy], 'id'],
    sortOrder,
    isSearch: search !== undefined,
    find: (ids) => indexDetails(db, tenantId).where('indexes.id', 'in', ids).execute(),
  })
  return { indexes: rows, total }
}

const indexDetails = (db: Db, tenantId: string) =>
  db
    .selectFrom('indexes')
    .leftJoin('users', (join) =>
      join.onRef('users.tenant_id', '=', 'indexes.tenant_id').onRef('users.id', '=', 'indexes.assigned_user_id'),
    )
    .leftJoin('groups', (join) =>
      join.onRef('groups.tenant_id', '=', 'indexes.tenant_id').onRef('groups.id', '=', 'indexes.assigned_group_id'),
    )
    .selectAll('indexes')
    .select(['users.name as user_name', 'users.email as user_email', 'groups.name as group_name'])
    .select((the) =>
      the
        .selectFrom('documents')
        .whereRef('documents.tenant_id', '=', 'indexes.tenant_id')
        .whereRef('documents.index_id', '=', 'indexes.id')
        .where('documents.state', '=', 'published')
        .select((inner) => inner.fn.countAll<number>().as('count'))
        .as('documentCount'),
    )
    // TypeScript types the subquery as nullable, but a count is never null.
    .$narrowType<{ documentCount: number }>()
    .where('indexes.tenant_id', '=', tenantId)
