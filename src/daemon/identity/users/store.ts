// SQL of users.
import { type ErrorCode, GatewayError, invalidField } from '../../../shared/errors.ts'
import type { Db } from '../../platform/db/db.ts'
import { requireDistinctName } from '../../platform/db/distinct-name.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { contains, type Page, pageOf } from '../../platform/db/list-page.ts'
import type { Tables } from '../../platform/db/tables.ts'
import { skeletonOf } from '../../platform/text/skeleton.ts'

export type UserRow = Omit<Tables['users'], 'name_skeleton'>

/** A user with related data from other tables. */
export type UserDetails = UserRow & {
  role_id: string | null
  role_name: string | null
  role_display_name: string | null
  /** When any of the user's keys was last used, in ISO 8601. */
  last_active: string | null
}

export type UserFilter = {
  search?: string | undefined
  role?: UserRow['role'] | undefined
  license?: UserRow['license'] | undefined
  status?: number | undefined
}

const SORT_COLUMNS = {
  createdAt: 'created_at',
  updatedAt: 'updated_at',
  name: 'name',
  email: 'email',
  username: 'username',
} as const

/** Fields that are unique in a tenant. If several conflict, the first is reported. */
const UNIQUE_FIELDS = {
  email: 'EMAIL_ALREADY_EXISTS',
  username: 'USERNAME_ALREADY_EXISTS',
  name: 'NAME_ALREADY_EXISTS',
} as const satisfies Record<string, ErrorCode>
type UniqueField = keyof typeof UNIQUE_FIELDS
const uniqueFields = Object.keys(UNIQUE_FIELDS) as UniqueField[]

/** Returns the billing columns of the tenant's user with this id. Returns undefined if the user is not active. */
export function findPayer(
  db: Db,
  tenantId: string,
  id: string,
): Promise<Pick<UserRow, 'id' | 'license' | 'usage_by_model' | 'dollar_limit_nanos'> | undefined> {
  return db
    .selectFrom('users')
    .select(['id', 'license', 'usage_by_model', 'dollar_limit_nanos'])
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .where('status', '=', 1)
    .executeTakeFirst()
}

/** Returns the current names of users of this tenant, by id. Deleted users are omitted. */
export async function findUserNames(
  db: Db,
  tenantId: string,
  ids: readonly string[],
): Promise<Map<string, Pick<UserRow, 'id' | 'name' | 'email'>>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('users')
    .select(['id', 'name', 'email'])
    .where('tenant_id', '=', tenantId)
    .where('id', 'in', ids)
    .execute()
  return new Map(rows.map((row) => [row.id, row]))
}

/** Returns the tenant's user with this id, active or not. */
export function findUserDetails(db: Db, tenantId: string, id: string): Promise<UserDetails | undefined> {
  return userDetails(db, tenantId).where('u.id', '=', id).executeTakeFirst()
}

/** Returns one page of a tenant's users, and the total count. */
export async function listUsers(
  db: Db,
  tenantId: string,
  query: Page & UserFilter & { sortBy: keyof typeof SORT_COLUMNS; sortOrder: 'asc' | 'desc' },
): Promise<{ users: UserDetails[]; total: number }> {
  const { sortBy, search, role, license, status } = query
  let matching = db.selectFrom('users').select('id').where('tenant_id', '=', tenantId)
  if (role !== undefined) matching = matching.where('role', '=', role)
  if (license !== undefined) matching = matching.where('license', '=', license)
  if (status !== undefined) matching = matching.where('status', '=', status)
  if (search !== undefined) matching = matching.where(contains('search_text', search))
  const column = SORT_COLUMNS[sortBy]
  const { rows, total } = await pageOf(matching, {
    ...query,
    // Times need the id as a second sort key. The other sort columns do not: they are unique, and their indexes do not
    // contain the id.
    sortKeys: column === 'created_at' || column === 'updated_at' ? [column, 'id'] : [column],
    isSearch: search !== undefined,
    find: (ids) => userDetails(db, tenantId).where('u.id', 'in', ids).execute(),
  })
  return { users: rows, total }
}

function userDetails(db: Db, tenantId: string) {
  return db
    .selectFrom('users as u')
    .leftJoin('user_roles as ur', (join) =>
      join.onRef('ur.tenant_id', '=', 'u.tenant_id').onRef('ur.user_id', '=', 'u.id'),
    )
    .leftJoin('roles as r', (join) => join.onRef('r.tenant_id', '=', 'ur.tenant_id').onRef('r.id', '=', 'ur.role_id'))
    .selectAll('u')
    .select(['r.id as role_id', 'r.name as role_name', 'r.display_name as role_display_name'])
    .select((the) =>
      the
        .selectFrom('rate_counters as c')
        .whereRef('c.tenant_id', '=', 'u.tenant_id')
        // Uses a subquery instead of a join: with a join, SQLite would scan all counters of the tenant once per user.
        .where('c.api_key_id', 'in', (keys) =>
          keys
            .selectFrom('api_keys as k')
            .select('k.id')
            .whereRef('k.tenant_id', '=', 'u.tenant_id')
            .whereRef('k.user_id', '=', 'u.id'),
        )
        .select((of) => of.fn.max('c.last_used_at').as('at'))
        .as('last_active'),
    )
    .where('u.tenant_id', '=', tenantId)
}

/**
 * Inserts a user. Unique indexes detect conflicts.
 * @throws EMAIL_ALREADY_EXISTS, USERNAME_ALREADY_EXISTS, NAME_ALREADY_EXISTS
 */
export async function insertUser(db: Db, user: UserRow): Promise<void> {
  await requireDistinctName(db, 'users', { tenantId: user.tenant_id, ...user })
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('users')
    .values({ ...user, name_skeleton: skeletonOf(user.name) })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows !== 0n) return
  const others = await db
    .selectFrom('users')
    .select(uniqueFields)
    .where('tenant_id', '=', user.tenant_id)
    .where((the) => the.or(uniqueFields.map((field) => the(field, '=', user[field]))))
    .execute()
  throw taken(uniqueFields.find((field) => others.some((other) => other[field] === user[field])) ?? 'email', user)
}

/**
 * Writes the changeable columns of a user. On PostgreSQL, an error aborts the transaction.
 * @throws EMAIL_ALREADY_EXISTS, USERNAME_ALREADY_EXISTS, NAME_ALREADY_EXISTS
 */
export async function updateUser(db: Db, user: UserRow): Promise<void> {
  const { id, tenant_id, created_at: _, auth_type: __, ...rest } = user
  await requireDistinctName(db, 'users', { tenantId: tenant_id, ...user })
  const changes = { ...rest, name_skeleton: skeletonOf(user.name) }
  try {
    await db.updateTable('users').set(changes).where('tenant_id', '=', tenant_id).where('id', '=', id).execute()
  } catch (error) {
    const key = engineOf(db).uniqueKeyOf(error)
    const field = uniqueFields.find((name) => key?.includes(name))
    throw field === undefined ? error : taken(field, user)
  }
}

function taken(field: UniqueField, user: UserRow): GatewayError {
  const message = `A user with the ${field} "${user[field]}" already exists. Choose another ${field}.`
  return new GatewayError(UNIQUE_FIELDS[field], message, { details: { field, value: user[field] } })
}

/**
 * Deletes a user, their keys, the keys' counters, the assignment of a custom role and the user's stored answers. Before
 * calling it, remove the user's group memberships, so that the groups' user counts are updated.
 */
export async function deleteUser(db: Db, tenantId: string, id: string): Promise<void> {
  const keys = db.selectFrom('api_keys').select('id').where('tenant_id', '=', tenantId).where('user_id', '=', id)
  await db.deleteFrom('rate_counters').where('tenant_id', '=', tenantId).where('api_key_id', 'in', keys).execute()
  await db.deleteFrom('stored_responses').where('tenant_id', '=', tenantId).where('user_id', '=', id).execute()
  await db.deleteFrom('users').where('tenant_id', '=', tenantId).where('id', '=', id).execute()
}

/**
 * Assigns this custom role to the user, or removes the assignment. @throws VALIDATION_ERROR for `roleId` if the role
 * was just deleted.
 */
export async function setCustomRole(
  db: Db,
  tenantId: string,
  userId: string,
  roleId: string | undefined,
): Promise<void> {
  await db.deleteFrom('user_roles').where('tenant_id', '=', tenantId).where('user_id', '=', userId).execute()
  if (roleId === undefined) return
  try {
    await db.insertInto('user_roles').values({ tenant_id: tenantId, user_id: userId, role_id: roleId }).execute()
  } catch (error) {
    throw engineOf(db).failureOf(error) === 'row' ? unknownRole(roleId) : error
  }
}

export const unknownRole = (roleId: string): GatewayError =>
  invalidField('roleId', `There is no custom role "${roleId}". GET /roles lists all roles.`, roleId)

/** Whether the tenant has an active administrator other than this user. */
export async function hasOtherAdministrator(db: Db, tenantId: string, userId: string): Promise<boolean> {
  const other = await db
    .selectFrom('users')
    .select('id')
    .where('tenant_id', '=', tenantId)
    .where('role', '=', 'admin')
    .where('status', '=', 1)
    .where('id', '<>', userId)
    .limit(1)
    .executeTakeFirst()
  return other !== undefined
}

/** Whether the active operator key belongs to this user. */
export async function ownsOperatorKey(db: Db, tenantId: string, userId: string): Promise<boolean> {
  const key = await db
    .selectFrom('api_keys')
    .select('id')
    .where('tenant_id', '=', tenantId)
    .where('user_id', '=', userId)
    .where('is_operator', '=', 1)
    .where('revoked_at', 'is', null)
    .executeTakeFirst()
  return key !== undefined
}
