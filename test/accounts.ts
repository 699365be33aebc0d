import { hash } from 'node:crypto'
import { insertSystemRoles } from '../src/daemon/identity/roles/system-roles.ts'
import type { Db } from '../src/daemon/platform/db/db.ts'
import { toSearchText } from '../src/daemon/platform/db/list-page.ts'
import type { Tables } from '../src/daemon/platform/db/tables.ts'
import { skeletonOf } from '../src/daemon/platform/text/skeleton.ts'
import { newApiKey, newId } from '../src/shared/ids.ts'
import type { KeySettings } from '../src/shared/wire/keys.ts'
import { secretWatch } from './secret-watch.ts'

const CREATED = '2026-01-01T00:00:00.000Z'

/** Complete rows with defaults. A test passes only the fields that matter to it. */
export const tenantRow = (given: Partial<Tables['tenants']> = {}): Tables['tenants'] => {
  const id = given.id ?? newId()
  const name = given.name ?? `tenant-${id}`
  const search_text = toSearchText(name)
  return {
    id,
    status: 'Active',
    created_at: CREATED,
    updated_at: CREATED,
    search_text,
    name_skeleton: skeletonOf(name),
    ...given,
    name,
  }
}

export function userRow(given: Partial<Tables['users']> & { tenant_id: string }): Tables['users'] {
  const id = given.id ?? newId()
  const name = given.name ?? `User ${id}`
  const email = given.email ?? `user-${id}@example.com`
  const username = given.username ?? `user-${id}`
  return {
    id,
    role: 'user',
    status: 1,
    created_at: CREATED,
    updated_at: CREATED,
    license: 'Essential',
    auth_type: 'basic',
    is_verified: 1,
    setup_completed: 1,
    search_text: toSearchText(name, email, username),
    name_skeleton: skeletonOf(name),
    usage_by_model: 0,
    dollar_limit_nanos: null,
    ...given,
    name,
    email,
    username,
  }
}

export function apiKeyRow(
  given: Partial<Tables['api_keys']> & { tenant_id: string; user_id: string },
): Tables['api_keys'] {
  const id = given.id ?? newId()
  const name = given.name ?? `key ${id}`
  return {
    id,
    name,
    search_text: toSearchText(name),
    name_skeleton: skeletonOf(name),
    secret_hash: hash('sha256', newApiKey(), 'hex'),
    is_operator: 0,
    created_at: CREATED,
    updated_at: CREATED,
    expires_at: null,
    revoked_at: null,
    settings: '{}',
    ...given,
  }
}

/** Adds a tenant with its system roles. */
export async function addTenant(db: Db, given: Partial<Tables['tenants']> = {}): Promise<Tables['tenants']> {
  const tenant = tenantRow(given)
  await db.insertInto('tenants').values(tenant).execute()
  await insertSystemRoles(db, tenant.id, CREATED)
  return tenant
}

export async function addUser(
  db: Db,
  given: Partial<Tables['users']> & { tenant_id: string },
): Promise<Tables['users']> {
  const user = userRow(given)
  await db.insertInto('users').values(user).execute()
  return user
}

/** No limits, so that rate limits do not affect tests that do not set any. */
const UNLIMITED: Partial<KeySettings> = {
  dailyLimit: null,
  monthlyLimit: null,
  rateLimit: { requestsPerMinute: null, requestsPerHour: null },
}

/** Adds a key of this user. Returns the row and the secret. */
export async function addKey(
  db: Db,
  user: { tenant_id: string; id: string },
  { settings = {}, ...given }: Partial<Omit<Tables['api_keys'], 'settings'>> & { settings?: Partial<KeySettings> } = {},
): Promise<{ row: Tables['api_keys']; secret: string }> {
  const secret = newApiKey()
  secretWatch.addSecret('an API key', secret)
  const row = apiKeyRow({
    tenant_id: user.tenant_id,
    user_id: user.id,
    secret_hash: hash('sha256', secret, 'hex'),
    settings: JSON.stringify({ ...UNLIMITED, ...settings }),
    ...given,
  })
  await db.insertInto('api_keys').values(row).execute()
  return { row, secret }
}

/** Adds a custom role with the sections that it grants. */
export async function addRole(
  db: Db,
  given: Partial<Omit<Tables['roles'], 'permissions'>> & {
    tenant_id: string
    permissions?: { section: string; level: string }[]
  },
): Promise<Tables['roles']> {
  const id = given.id ?? newId()
  const name = given.name ?? `role-${id}`
  const displayName = given.display_name ?? 'A role'
  const role: Tables['roles'] = {
    id,
    description: '',
    is_system: 0,
    has_admin_panel_access: 1,
    can_interact_with_ai: 1,
    can_use_chat: 1,
    created_by: null,
    created_at: CREATED,
    updated_at: CREATED,
    search_text: toSearchText(name, displayName, given.description ?? ''),
    name_skeleton: skeletonOf(displayName),
    ...given,
    name,
    display_name: displayName,
    permissions: JSON.stringify(given.permissions ?? []),
  }
  await db.insertInto('roles').values(role).execute()
  return role
}
