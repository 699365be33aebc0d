// SQL of tenants.
import { GatewayError } from '../../../shared/errors.ts'
import type { TENANT_SORTS } from '../../../shared/wire/tenants.ts'
import type { Db } from '../../platform/db/db.ts'
import { requireDistinctTenantName } from '../../platform/db/distinct-name.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { contains, type Page, pageOf, toSearchText } from '../../platform/db/list-page.ts'
import type { Tables } from '../../platform/db/tables.ts'
import { skeletonOf } from '../../platform/text/skeleton.ts'

export type TenantRow = Omit<Tables['tenants'], 'search_text' | 'name_skeleton'>

/** A tenant and its number of users. */
export type CountedTenant = TenantRow & { user_count: number }

export type TenantFilter = Page & {
  search?: string | undefined
  status?: TenantRow['status'] | undefined
  sortBy: (typeof TENANT_SORTS)[number]
  sortOrder: 'asc' | 'desc'
}

const SORT_COLUMNS = { createdAt: 'created_at', updatedAt: 'updated_at', name: 'name' } as const

/**
 * Inserts a tenant. The unique key rejects a duplicate name, even if two tenants are inserted concurrently. @throws
 * TENANT_NAME_EXISTS
 */
export async function insertTenant(db: Db, tenant: TenantRow): Promise<void> {
  await requireDistinctTenantName(db, tenant)
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('tenants')
    .values({ ...tenant, search_text: toSearchText(tenant.name), name_skeleton: skeletonOf(tenant.name) })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 0n) throw nameExists(tenant.name)
}

/**
 * Writes the changeable columns of a tenant. @throws TENANT_NAME_EXISTS. On PostgreSQL, this error aborts the
 * transaction.
 */
export async function updateTenant(db: Db, { id, name, status, updated_at }: TenantRow): Promise<void> {
  await requireDistinctTenantName(db, { id, name })
  try {
    await db
      .updateTable('tenants')
      .set({ name, status, updated_at, search_text: toSearchText(name), name_skeleton: skeletonOf(name) })
      .where('id', '=', id)
      .execute()
  } catch (error) {
    throw engineOf(db).uniqueKeyOf(error) === undefined ? error : nameExists(name)
  }
}

const nameExists = (name: string): GatewayError =>
  new GatewayError('TENANT_NAME_EXISTS', `A tenant named "${name}" already exists. Choose another name.`, {
    details: { field: 'name', value: name },
  })

export function findTenant(db: Db, id: string): Promise<CountedTenant | undefined> {
  return countedTenants(db).where('t.id', '=', id).executeTakeFirst()
}

/** Returns one page of all tenants, and the total count. `search` matches a part of the name. */
export async function listTenants(
  db: Db,
  { search, status, sortBy, sortOrder, ...page }: TenantFilter,
): Promise<{ tenants: CountedTenant[]; total: number }> {
  let matching = db.selectFrom('tenants').select('id')
  if (status !== undefined) matching = matching.where('status', '=', status)
  if (search !== undefined) matching = matching.where(contains('search_text', search))
  const { rows, total } = await pageOf(matching, {
    ...page,
    sortKeys: [SORT_COLUMNS[sortBy], 'id'],
    sortOrder,
    isSearch: search !== undefined,
    find: (ids) => countedTenants(db).where('t.id', 'in', ids).execute(),
  })
  return { tenants: rows, total }
}

const countedTenants = (db: Db) =>
  db
    .selectFrom('tenants as t')
    .select(['t.id', 't.name', 't.status', 't.created_at', 't.updated_at'])
    .select((the) =>
      the
        .selectFrom('users as u')
        .whereRef('u.tenant_id', '=', 't.id')
        .select((of) => of.fn.countAll<number>().as('count'))
        .as('user_count'),
    )
    // The subquery's type includes null, although a count is never null.
    .$narrowType<{ user_count: number }>()
