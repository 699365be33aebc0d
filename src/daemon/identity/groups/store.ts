// SQL queries for groups and their members.
import { sql } from 'kysely'
import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { GROUP_LIST_USERS } from '../../../shared/spec-limits.ts'
import type { GROUP_SORTS, UserReference } from '../../../shared/wire/groups.ts'
import type { Db } from '../../platform/db/db.ts'
import { requireDistinctName } from '../../platform/db/distinct-name.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import { contains, type Page, pageOf } from '../../platform/db/list-page.ts'
import type { Tables } from '../../platform/db/tables.ts'
import { skeletonOf } from '../../platform/text/skeleton.ts'

// Changes to members and users run inside a `change`. `change` serialises all changes of a tenant. Otherwise a user
// could be added to a group while the user is being deleted. The membership would then be deleted, but still be counted
// in user_count.

export type GroupRow = Omit<Tables['groups'], 'name_skeleton'>
export type GroupWithMembers = GroupRow & { members: UserReference[] }

export type GroupFilter = Page & {
  search?: string | undefined
  status?: GroupRow['status'] | undefined
  sortBy: (typeof GROUP_SORTS)[number]
  sortOrder: 'asc' | 'desc'
}

/**
 * Inserts a group. The unique key rejects a duplicate name, even if two groups are inserted concurrently. @throws
 * GROUP_NAME_EXISTS
 */
export async function insertGroup(db: Db, group: GroupRow): Promise<void> {
  await requireDistinctName(db, 'groups', { tenantId: group.tenant_id, ...group })
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('groups')
    .values({ ...group, name_skeleton: skeletonOf(group.name) })
    .onConflict((conflict) => conflict.columns(['tenant_id', 'name']).doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 0n) throw nameExists(group.name)
}

/** @throws GROUP_NAME_EXISTS */
export async function updateGroup(tx: Db, { tenant_id, id, ...rest }: GroupRow): Promise<void> {
  const columns = { ...rest, name_skeleton: skeletonOf(rest.name) }
  await requireDistinctName(tx, 'groups', { tenantId: tenant_id, id, name: rest.name })
  try {
    await tx.updateTable('groups').set(columns).where('tenant_id', '=', tenant_id).where('id', '=', id).execute()
  } catch (cause) {
    // The violated constraint is always the unique key of the name, because only the name is unique.
    if (engineOf(tx).uniqueKeyOf(cause) === undefined) throw cause
    throw nameExists(columns.name, cause)
  }
}

const nameExists = (name: string, cause?: unknown) =>
  new GatewayError('GROUP_NAME_EXISTS', `A group named "${name}" already exists. Choose another name.`, {
    details: { field: 'name', value: name },
    cause,
  })

/** Deletes the group, its memberships and its budget, and returns the deleted row. */
export async function deleteGroup(tx: Db, tenantId: string, id: string): Promise<GroupRow | undefined> {
  await tx
    .deleteFrom('budgets')
    .where('tenant_id', '=', tenantId)
    .where('scope', '=', 'group')
    .where('subject', '=', id)
    .execute()
  return tx
    .deleteFrom('groups')
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()
}

/**
 * Adds users to a group. Users who are already members are skipped.
 * @throws VALIDATION_ERROR naming the first user who does not belong to this tenant.
 */
export async function addMembers(tx: Db, tenantId: string, groupId: string, userIds: readonly string[]): Promise<void> {
  if (userIds.length === 0) return
  const rows = await tx
    .selectFrom('users')
    .select('id')
    .where('tenant_id', '=', tenantId)
    .where('id', 'in', userIds)
    .execute()
  const known = new Set(rows.map(({ id }) => id))
  const unknown = userIds.filter((id) => !known.has(id))
  const [first, ...others] = unknown
  if (first !== undefined) {
    const more = others.length === 0 ? '' : ` (and ${others.length} more)`
    throw invalidField(
      'users',
      `users: there is no user with the id ${first}${more}. The group was not changed.`,
      first,
    )
  }
  await insertRows(
    tx,
    'group_members',
    userIds.map((user_id) => ({ tenant_id: tenantId, group_id: groupId, user_id })),
  )
}

/**
 * Replaces the members of a group with these users. Returns the added and the removed users.
 * @throws VALIDATION_ERROR naming the first user who does not belong to this tenant.
 */
export async function replaceMembers(
  tx: Db,
  tenantId: string,
  groupId: string,
  userIds: readonly string[],
): Promise<{ added: string[]; removed: string[] }> {
  const rows = await tx
    .selectFrom('group_members')
    .select('user_id')
    .where('tenant_id', '=', tenantId)
    .where('group_id', '=', groupId)
    .execute()
  const before = new Set(rows.map(({ user_id }) => user_id))
  const after = new Set(userIds)
  const added = userIds.filter((id) => !before.has(id))
  const removed = [...before].filter((id) => !after.has(id))
  await addMembers(tx, tenantId, groupId, added)
  if (removed.length > 0) {
    await tx
      .deleteFrom('group_members')
      .where('tenant_id', '=', tenantId)
      .where('group_id', '=', groupId)
      .where('user_id', 'in', removed)
      .execute()
  }
  return { added, removed }
}

/** Removes a user from every group, so that the user can be deleted. */
export async function removeUserFromGroups(tx: Db, tenantId: string, userId: string): Promise<void> {
  const ofUser = tx
    .selectFrom('group_members')
    .select('group_id')
    .where('tenant_id', '=', tenantId)
    .where('user_id', '=', userId)
  await tx
    .updateTable('groups')
    .set((the) => ({ user_count: the('user_count', '-', 1) }))
    .where('tenant_id', '=', tenantId)
    .where('id', 'in', ofUser)
    .execute()
  await tx.deleteFrom('group_members').where('tenant_id', '=', tenantId).where('user_id', '=', userId).execute()
}

/** Returns the tenant's group with this id, without its members. */
export const findGroupRow = (db: Db, tenantId: string, id: string): Promise<GroupRow | undefined> =>
  db.selectFrom('groups').selectAll().where('tenant_id', '=', tenantId).where('id', '=', id).executeTakeFirst()

/** Returns the tenant's group with this id, including its members. */
export async function findGroup(db: Db, tenantId: string, id: string): Promise<GroupWithMembers | undefined> {
  const group = await findGroupRow(db, tenantId, id)
  if (!group) return undefined
  const [withMembers] = await addMembersTo(db, tenantId, [group], 'all')
  return withMembers
}

/**
 * Returns one page of a tenant's groups, and the total count. `search` matches a part of the name or the description. A
 * large group includes only its first GROUP_LIST_USERS members.
 */
export async function listGroups(
  db: Db,
  tenantId: string,
  { search, status, sortBy, sortOrder, ...page }: GroupFilter,
): Promise<{ groups: GroupWithMembers[]; total: number }> {
  let matching = db.selectFrom('groups').select('id').where('tenant_id', '=', tenantId)
  if (status) matching = matching.where('status', '=', status)
  if (search !== undefined) matching = matching.where(contains('search_text', search))
  const { rows, total } = await pageOf(matching, {
    ...page,
    sortKeys: [SORT_COLUMNS[sortBy], 'id'],
    sortOrder,
    isSearch: search !== undefined,
    find: (ids) =>
      db.selectFrom('groups').selectAll().where('tenant_id', '=', tenantId).where('id', 'in', ids).execute(),
  })
  return { groups: await addMembersTo(db, tenantId, rows, 'first'), total }
}

const SORT_COLUMNS = {
  createdAt: 'created_at',
  updatedAt: 'updated_at',
  name: 'name',
  userCount: 'user_count',
} as const satisfies Record<GroupFilter['sortBy'], keyof GroupRow>

/**
 * Loads the members of all groups in one query, sorted by name. If `which` is `first`, loads only the first
 * GROUP_LIST_USERS members of each group. The first members have the lowest ids, so they are the oldest accounts.
 */
async function addMembersTo(
  db: Db,
  tenantId: string,
  groups: GroupRow[],
  which: 'first' | 'all',
): Promise<GroupWithMembers[]> {
  const members = new Map<string, UserReference[]>(groups.map(({ id }) => [id, []]))
  if (groups.some(({ user_count }) => user_count > 0)) {
    const rows = await db
      .selectFrom('groups as g')
      .innerJoin('group_members as m', (join) => {
        const ofGroup = join.onRef('m.tenant_id', '=', 'g.tenant_id').onRef('m.group_id', '=', 'g.id')
        return which === 'all' ? ofGroup : ofGroup.on('m.user_id', '<=', LAST_OF_FIRST)
      })
      .innerJoin('users as u', (join) => join.onRef('u.tenant_id', '=', 'm.tenant_id').onRef('u.id', '=', 'm.user_id'))
      .select(['m.group_id', 'u.id', 'u.name', 'u.email'])
      .where('g.tenant_id', '=', tenantId)
      .where('g.id', 'in', [...members.keys()])
      .orderBy('u.name')
      .execute()
    for (const { group_id, ...user } of rows) members.get(group_id)?.push(user)
  }
  return groups.map((group) => ({ ...group, members: members.get(group.id) ?? [] }))
}

/** The id of the last member to include. If the group has fewer members, this is a text that sorts after every id. */
const LAST_OF_FIRST = sql<string>`coalesce((
  select x.user_id from group_members as x where x.tenant_id = g.tenant_id and x.group_id = g.id
  order by x.user_id limit 1 offset ${sql.lit(GROUP_LIST_USERS - 1)}), '~')`
