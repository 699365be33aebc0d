// SQL of API keys.
import type { Expression, ExpressionBuilder, SqlBool } from 'kysely'
import { type Rights, rightsOf, type SystemRole } from '../../../shared/permissions.ts'
import type { UsageByModel } from '../../../shared/wire/billing.ts'
import type { UserReference } from '../../../shared/wire/groups.ts'
import type { KEY_SORTS } from '../../../shared/wire/keys.ts'
import type { License } from '../../../shared/wire/users.ts'
import type { Db } from '../../platform/db/db.ts'
import { requireDistinctName } from '../../platform/db/distinct-name.ts'
import { contains, type Page, pageOf, toSearchText } from '../../platform/db/list-page.ts'
import type { Tables } from '../../platform/db/tables.ts'
import { skeletonOf } from '../../platform/text/skeleton.ts'
import { roleRightsOf } from '../roles/store.ts'
import { toUsageByModel } from '../users/usage-by-model.ts'

export type KeyRow = Tables['api_keys']

/** The columns of a key that responses may contain. */
export type KeyFacts = Omit<KeyRow, 'secret_hash' | 'search_text' | 'name_skeleton'>

/** A key and its owner. */
export type OwnedKey = {
  row: KeyFacts
  owner: UserReference
  /** The owner's current rights, as if the owner were active. */
  ownerRights: Rights
  /** ISO 8601; null if the key was never used. */
  lastUsedAt: string | null
}

/** A valid key and its caller, as found by the key's hash. */
export type PresentedKey = {
  row: KeyFacts
  owner: UserReference & { role: SystemRole; license: License; usageByModel: UsageByModel }
  ownerRights: Rights
  tenantName: string
}

/**
 * Inserts a key. `secret_hash` is the SHA-256 of the whole key, hex. `settings` is the output of `writeSettings`, or
 * `{}` for all defaults.
 */
export async function insertKey(db: Db, key: Omit<KeyRow, 'search_text' | 'name_skeleton'>): Promise<void> {
  await requireDistinctName(db, 'api_keys', { tenantId: key.tenant_id, ...key })
  await db
    .insertInto('api_keys')
    .values({ ...key, search_text: toSearchText(key.name), name_skeleton: skeletonOf(key.name) })
    .execute()
}

/**
 * Returns the valid key that has this SHA-256 (hex), and the key's caller. Undefined if the key is unknown or revoked,
 * or if its owner is inactive or its tenant disabled. The tenant is not a parameter, because the key determines it.
 */
export async function findPresentedKey(db: Db, secretHash: string): Promise<PresentedKey | undefined> {
  const found = await keysWithOwners(db)
    .innerJoin('tenants as t', 't.id', 'k.tenant_id')
    .select(['u.license', 'u.usage_by_model', 'u.dollar_limit_nanos', 't.name as tenant_name'])
    .where('k.secret_hash', '=', secretHash)
    .where('k.revoked_at', 'is', null)
    .where('u.status', '=', 1)
    .where('t.status', '=', 'Active')
    .executeTakeFirst()
  if (!found) return undefined
  return {
    row: toFacts(found),
    owner: {
      ...toOwner(found),
      role: found.role,
      license: found.license,
      usageByModel: toUsageByModel(found),
    },
    ownerRights: toRights(found),
    tenantName: found.tenant_name,
  }
}

/** Returns the tenant's key with this id, even if revoked. */
export async function findKey(db: Db, tenantId: string, id: string): Promise<OwnedKey | undefined> {
  const [key] = await findKeys(db, tenantId, [id])
  return key
}

/** Returns an active user of this tenant, and the user's rights. */
export async function findOwner(
  db: Db,
  tenantId: string,
  userId: string,
): Promise<{ owner: UserReference; rights: Rights } | undefined> {
  const found = await usersWithRoles(db)
    .where('u.tenant_id', '=', tenantId)
    .where('u.id', '=', userId)
    .where('u.status', '=', 1)
    .executeTakeFirst()
  return found && { owner: toOwner(found), rights: toRights(found) }
}

/**
 * Returns all other keys that are usable at `now` (ISO 8601) and whose owners are administrators. The result also
 * includes keys whose owners have a custom role, because this role may make them administrators.
 */
export async function findOtherKeysOfAdministrators(
  db: Db,
  tenantId: string,
  id: string,
  now: string,
): Promise<{ settings: string; ownerRights: Rights }[]> {
  const found = await keysWithOwners(db)
    .where('k.tenant_id', '=', tenantId)
    .where('k.id', '<>', id)
    .where((the) => hasStatus(the, 'active', now))
    .where('u.status', '=', 1)
    .where((the) => the.or([the('u.role', '=', 'admin'), the('r.id', 'is not', null)]))
    .execute()
  return found.map((key) => ({ settings: key.settings, ownerRights: toRights(key) }))
}

export async function updateKey(
  db: Db,
  tenantId: string,
  id: string,
  changes: Partial<Pick<KeyRow, 'name' | 'secret_hash' | 'settings' | 'expires_at' | 'revoked_at' | 'updated_at'>>,
): Promise<void> {
  const { name } = changes
  if (name !== undefined) await requireDistinctName(db, 'api_keys', { tenantId, id, name })
  await db
    .updateTable('api_keys')
    .set({
      ...changes,
      ...(name !== undefined && { search_text: toSearchText(name), name_skeleton: skeletonOf(name) }),
    })
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .execute()
}

const SORT_COLUMNS = { createdAt: 'created_at', updatedAt: 'updated_at', name: 'name' } as const

export type KeyFilter = Page & {
  search?: string | undefined
  userId?: string | undefined
  status?: KeyStatus | undefined
  sortBy: (typeof KEY_SORTS)[number]
  sortOrder: 'asc' | 'desc'
}

export type KeyStatus = 'active' | 'expired' | 'revoked'

/** Returns the status of a key at `now` (ISO 8601). */
export function statusOf(
  { revoked_at, expires_at }: Pick<KeyRow, 'revoked_at' | 'expires_at'>,
  now: string,
): KeyStatus {
  if (revoked_at !== null) return 'revoked'
  return expires_at !== null && expires_at <= now ? 'expired' : 'active'
}

/** Returns one page of a tenant's keys, and the total count. `search` matches a part of the name. */
export async function listKeys(
  db: Db,
  tenantId: string,
  { search, userId, status, sortBy, sortOrder, ...page }: KeyFilter,
  now: string,
): Promise<{ keys: OwnedKey[]; total: number }> {
  let matching = db.selectFrom('api_keys as k').select('k.id').where('k.tenant_id', '=', tenantId)
  if (userId !== undefined) matching = matching.where('k.user_id', '=', userId)
  if (status !== undefined) matching = matching.where((the) => hasStatus(the, status, now))
  if (search !== undefined) matching = matching.where(contains('k.search_text', search))
  const { rows, total } = await pageOf(matching, {
    ...page,
    sortKeys: [SORT_COLUMNS[sortBy], 'id'],
    sortOrder,
    isSearch: search !== undefined,
    find: async (ids) => (await findKeys(db, tenantId, ids)).map((key) => ({ id: key.row.id, key })),
  })
  return { keys: rows.map(({ key }) => key), total }
}

function hasStatus(the: ExpressionBuilder<{ k: KeyRow }, 'k'>, status: KeyStatus, now: string): Expression<SqlBool> {
  if (status === 'revoked') return the('k.revoked_at', 'is not', null)
  const alive = the('k.revoked_at', 'is', null)
  if (status === 'expired') return the.and([alive, the('k.expires_at', '<=', now)])
  return the.and([alive, the.or([the('k.expires_at', 'is', null), the('k.expires_at', '>', now)])])
}

/** Returns the keys with these ids, in any order. Unknown ids are omitted. */
async function findKeys(db: Db, tenantId: string, ids: readonly string[]): Promise<OwnedKey[]> {
  const found = await keysWithOwners(db)
    .select((the) =>
      the
        .selectFrom('rate_counters as c')
        .whereRef('c.tenant_id', '=', 'k.tenant_id')
        .whereRef('c.api_key_id', '=', 'k.id')
        .select((inner) => inner.fn.max('c.last_used_at').as('last'))
        .as('last_used_at'),
    )
    .where('k.tenant_id', '=', tenantId)
    .where('k.id', 'in', ids)
    .execute()
  return found.map((row) => ({
    row: toFacts(row),
    owner: toOwner(row),
    ownerRights: toRights(row),
    lastUsedAt: row.last_used_at,
  }))
}

const keysWithOwners = (db: Db) =>
  usersWithRoles(db)
    .innerJoin('api_keys as k', (join) => join.onRef('k.tenant_id', '=', 'u.tenant_id').onRef('k.user_id', '=', 'u.id'))
    .select(['k.id', 'k.tenant_id', 'k.user_id', 'k.name', 'k.is_operator', 'k.settings'])
    .select(['k.created_at', 'k.updated_at', 'k.expires_at', 'k.revoked_at'])

const usersWithRoles = (db: Db) =>
  db
    .selectFrom('users as u')
    .leftJoin('user_roles as ur', (join) =>
      join.onRef('ur.tenant_id', '=', 'u.tenant_id').onRef('ur.user_id', '=', 'u.id'),
    )
    .leftJoin('roles as r', (join) => join.onRef('r.tenant_id', '=', 'ur.tenant_id').onRef('r.id', '=', 'ur.role_id'))
    .select(['u.id as owner_id', 'u.name as owner_name', 'u.email', 'u.role'])
    .select(['r.has_admin_panel_access', 'r.permissions', 'r.can_interact_with_ai', 'r.can_use_chat'])

const toOwner = (found: { owner_id: string; owner_name: string; email: string }): UserReference => ({
  id: found.owner_id,
  name: found.owner_name,
  email: found.email,
})

const toFacts = ({
  id,
  tenant_id,
  user_id,
  name,
  is_operator,
  created_at,
  updated_at,
  expires_at,
  revoked_at,
  settings,
}: KeyFacts): KeyFacts => ({
  id,
  tenant_id,
  user_id,
  name,
  is_operator,
  created_at,
  updated_at,
  expires_at,
  revoked_at,
  settings,
})

/** Returns the rights of a user. The columns of the custom role are null if the user has no custom role. */
function toRights({ role, permissions, ...flags }: RightsFacts): Rights {
  if (permissions === null) return rightsOf(role)
  const custom = roleRightsOf({
    permissions,
    has_admin_panel_access: flags.has_admin_panel_access ?? 0,
    can_interact_with_ai: flags.can_interact_with_ai ?? 0,
    can_use_chat: flags.can_use_chat ?? 0,
  })
  return rightsOf(role, custom)
}

type RightsFacts = {
  role: SystemRole
  permissions: string | null
  has_admin_panel_access: number | null
  can_interact_with_ai: number | null
  can_use_chat: number | null
}
