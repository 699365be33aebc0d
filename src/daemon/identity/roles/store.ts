// SQL of roles.
import { type RawBuilder, sql } from 'kysely'
import { GatewayError } from '../../../shared/errors.ts'
import type { Permission, RoleRights, SystemRole } from '../../../shared/permissions.ts'
import type { ROLE_SORTS } from '../../../shared/wire/roles.ts'
import type { Db } from '../../platform/db/db.ts'
import { requireDistinctName } from '../../platform/db/distinct-name.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { contains, type Page, pageOf } from '../../platform/db/list-page.ts'
import type { Tables } from '../../platform/db/tables.ts'
import { skeletonOf } from '../../platform/text/skeleton.ts'

export type RoleRow = Omit<Tables['roles'], 'name_skeleton'>

/** A role, the number of its users, and its creator. The creator is null if that user was deleted. */
export type RoleView = RoleRow & { user_count: number; creator_name: string | null; creator_email: string | null }

export type RoleFilter = Page & {
  search?: string | undefined
  isSystem?: 'true' | 'false' | undefined
  sortBy: (typeof ROLE_SORTS)[number]
  sortOrder: 'asc' | 'desc'
}

/** Returns the tenant's role with this id, system or custom. */
export function findRole(db: Db, tenantId: string, id: string): Promise<RoleRow | undefined> {
  return db.selectFrom('roles').selectAll().where('tenant_id', '=', tenantId).where('id', '=', id).executeTakeFirst()
}

/** Returns the rights that a custom role grants. `rightsOf` adds the rights of the user's system role. */
export function roleRightsOf(
  row: Pick<RoleRow, 'has_admin_panel_access' | 'permissions' | 'can_interact_with_ai' | 'can_use_chat'>,
): RoleRights {
  return {
    hasAdminPanelAccess: row.has_admin_panel_access === 1,
    permissions: JSON.parse(row.permissions) as Permission[],
    canInteractWithAI: row.can_interact_with_ai === 1,
    canUseChat: row.can_use_chat === 1,
  }
}

/** Converts the rights of a role to columns. */
export const toRightsColumns = (rights: RoleRights) => ({
  has_admin_panel_access: rights.hasAdminPanelAccess ? 1 : 0,
  permissions: JSON.stringify(rights.permissions),
  can_interact_with_ai: rights.canInteractWithAI ? 1 : 0,
  can_use_chat: rights.canUseChat ? 1 : 0,
})

/**
 * Inserts a role. The unique key rejects a duplicate name, even if two roles are inserted concurrently. @throws
 * ROLE_NAME_EXISTS
 */
export async function insertRole(db: Db, role: RoleRow): Promise<void> {
  await requireDistinctName(db, 'roles', { tenantId: role.tenant_id, id: role.id, name: role.display_name })
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('roles')
    .values({ ...role, name_skeleton: skeletonOf(role.display_name) })
    .onConflict((conflict) => conflict.columns(['tenant_id', 'name']).doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 0n) {
    throw new GatewayError('ROLE_NAME_EXISTS', `A role named "${role.name}" already exists. Choose another name.`, {
      details: { field: 'name', value: role.name },
    })
  }
}

/** Returns the distinct system roles of the users with this custom role. */
export async function systemRolesOfHolders(db: Db, tenantId: string, id: string): Promise<SystemRole[]> {
  const found = await holders(db, tenantId, id).select('u.role').distinct().execute()
  return found.map(({ role }) => role)
}

/** Returns the system role of the active operator key's owner, if that user has this custom role. */
export async function systemRoleOfOperator(db: Db, tenantId: string, id: string): Promise<SystemRole | undefined> {
  const found = await holders(db, tenantId, id)
    .innerJoin('api_keys as k', (join) => join.onRef('k.tenant_id', '=', 'u.tenant_id').onRef('k.user_id', '=', 'u.id'))
    .select('u.role')
    .where('k.is_operator', '=', 1)
    .where('k.revoked_at', 'is', null)
    .executeTakeFirst()
  return found?.role
}

const holders = (db: Db, tenantId: string, id: string) =>
  db
    .selectFrom('user_roles as ur')
    .innerJoin('users as u', (join) => join.onRef('u.tenant_id', '=', 'ur.tenant_id').onRef('u.id', '=', 'ur.user_id'))
    .where('ur.tenant_id', '=', tenantId)
    .where('ur.role_id', '=', id)

export async function updateRole(tx: Db, { tenant_id, id, ...rest }: RoleRow): Promise<void> {
  await requireDistinctName(tx, 'roles', { tenantId: tenant_id, id, name: rest.display_name })
  const columns = { ...rest, name_skeleton: skeletonOf(rest.display_name) }
  await tx.updateTable('roles').set(columns).where('tenant_id', '=', tenant_id).where('id', '=', id).execute()
}

/**
 * Deletes a role. While the role is assigned, the foreign key of user_roles prevents its deletion.
 * @throws ROLE_IN_USE
 */
export async function deleteRole(tx: Db, { tenant_id, id, name }: RoleRow): Promise<void> {
  try {
    await tx.deleteFrom('roles').where('tenant_id', '=', tenant_id).where('id', '=', id).execute()
  } catch (cause) {
    if (engineOf(tx).failureOf(cause) !== 'row') throw cause
    throw new GatewayError('ROLE_IN_USE', `The role "${name}" is assigned to users. Assign them another role first.`, {
      cause,
    })
  }
}

/** Returns a role of this tenant, including the number of its users and its creator. */
export async function findRoleView(db: Db, tenantId: string, id: string): Promise<RoleView | undefined> {
  const row = await selectWithCreators(db, tenantId).where('roles.id', '=', id).executeTakeFirst()
  if (!row) return undefined
  const [view] = await addUserCounts(db, tenantId, [row])
  return view
}

/**
 * Returns one page of a tenant's roles, and the total count. `search` matches a part of the name, display name or
 * description.
 */
export async function listRoles(
  db: Db,
  tenantId: string,
  { search, isSystem: ofSystem, sortBy, sortOrder, ...page }: RoleFilter,
): Promise<{ roles: RoleView[]; total: number }> {
  let matching = db.selectFrom('roles').select('id').where('tenant_id', '=', tenantId)
  if (ofSystem) matching = matching.where('is_system', '=', ofSystem === 'true' ? 1 : 0)
  if (search !== undefined) matching = matching.where(contains('search_text', search))
  const { rows, total } = await pageOf(matching, {
    ...page,
    sortKeys: [SORT_KEYS[sortBy], 'id'],
    sortOrder,
    isSearch: search !== undefined,
    async find(ids) {
      const found = await selectWithCreators(db, tenantId).where('roles.id', 'in', ids).execute()
      return addUserCounts(db, tenantId, found)
    },
  })
  return { roles: rows, total }
}

const SORT_KEYS: Record<RoleFilter['sortBy'], string | RawBuilder<unknown>> = {
  createdAt: 'created_at',
  updatedAt: 'updated_at',
  name: 'name',
  displayName: 'display_name',
  userCount: sql`case when roles.is_system = 1
    then (select count(*) from users where users.tenant_id = roles.tenant_id and users.role = roles.name)
    else (select count(*) from user_roles where user_roles.tenant_id = roles.tenant_id and user_roles.role_id = roles.id)
    end`,
}

const selectWithCreators = (db: Db, tenantId: string) =>
  db
    .selectFrom('roles')
    .leftJoin('users as creators', (join) =>
      join.onRef('creators.tenant_id', '=', 'roles.tenant_id').onRef('creators.id', '=', 'roles.created_by'),
    )
    .selectAll('roles')
    .select(['creators.name as creator_name', 'creators.email as creator_email'])
    .where('roles.tenant_id', '=', tenantId)

/**
 * Adds the number of users to each role. For a system role, counts users by their `role` column. For a custom role,
 * counts its assignments.
 */
async function addUserCounts(db: Db, tenantId: string, roles: Omit<RoleView, 'user_count'>[]): Promise<RoleView[]> {
  const counts = new Map<string, number>()
  // Runs one query per system role. Nearly all users have the same system role, so the queries for the other roles are
  // cheap.
  for (const { id, name } of roles.filter(isSystem)) {
    const { count } = await db
      .selectFrom('users')
      .select((the) => the.fn.countAll<number>().as('count'))
      .where('tenant_id', '=', tenantId)
      .where('role', '=', name as SystemRole)
      .executeTakeFirstOrThrow()
    counts.set(id, count)
  }
  const customIds = roles.filter((role) => !isSystem(role)).map(({ id }) => id)
  if (customIds.length > 0) {
    const rows = await db
      .selectFrom('user_roles')
      .select((the) => ['role_id', the.fn.countAll<number>().as('count')])
      .where('tenant_id', '=', tenantId)
      .where('role_id', 'in', customIds)
      .groupBy('role_id')
      .execute()
    for (const { role_id, count } of rows) counts.set(role_id, count)
  }
  return roles.map((role) => ({ ...role, user_count: counts.get(role.id) ?? 0 }))
}

const isSystem = ({ is_system }: Pick<RoleRow, 'is_system'>): boolean => is_system === 1
