import type { z } from 'zod'
import { GatewayError } from '../../../shared/errors.ts'
import { newId } from '../../../shared/ids.ts'
import { isoTime } from '../../../shared/time.ts'
import { StructuredError } from '../../../shared/wire/common.ts'
import { KeySecretResponse } from '../../../shared/wire/keys.ts'
import {
  CreateAdminKeyRequest,
  CreateTenantRequest,
  CreateTenantResponse,
  ListTenantsQuery,
  ListTenantsResponse,
  ShowTenantResponse,
  TENANT_READ_ONLY,
  type Tenant,
  TenantResponse,
  UpdateTenantRequest,
} from '../../../shared/wire/tenants.ts'
import type { Db } from '../../platform/db/db.ts'
import { toPagination, toSearchText } from '../../platform/db/list-page.ts'
import { lockTenant } from '../../platform/db/tenant-lock.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { changesIn } from '../../platform/http/read-only.ts'
import { idOf, type Route, reply, route } from '../../platform/http/route.ts'
import { type Activity, type Change, type ChangeDeps, change } from '../../records/audit/change.ts'
import { toApiKey } from '../keys/view.ts'
import { insertSystemRoles } from '../roles/system-roles.ts'
import { insertUser, type UserRow } from '../users/store.ts'
import { NO_USAGE_BY_MODEL } from '../users/usage-by-model.ts'
import { freeUsername } from '../users/username.ts'
import { toCreatedUser } from '../users/view.ts'
import { getAdministrator, insertAdminKey } from './admin-key.ts'
import { type CountedTenant, findTenant, insertTenant, listTenants, updateTenant } from './store.ts'

const nameExists = { description: 'A tenant with this name exists', schema: StructuredError }
const notFound = { 404: { description: 'No tenant has this id', schema: StructuredError } }

/** Returns the routes that manage tenants. Only the operator may call these routes. */
export function tenantRoutes(deps: ChangeDeps): Route[] {
  const { db, clock } = deps
  return [
    route({
      method: 'GET',
      path: '/api/admin/tenants',
      access: 'operator',
      errors: 'structured',
      summary: 'List tenants',
      tags: ['Tenants'],
      query: ListTenantsQuery,
      responses: {
        200: { description: 'One page', schema: ListTenantsResponse },
      },
      async handle({ query }) {
        const { tenants, total } = await listTenants(db, query)
        return reply(200, {
          success: true,
          tenants: tenants.map(toTenant),
          pagination: toPagination(query, total),
        } satisfies z.input<typeof ListTenantsResponse>)
      },
    }),
    route({
      method: 'POST',
      path: '/api/admin/tenants',
      access: 'operator',
      errors: 'structured',
      summary: 'Create a tenant with its first administrator and an administrator key',
      tags: ['Tenants'],
      body: CreateTenantRequest,
      responses: {
        409: nameExists,
        201: {
          description: 'The tenant and the secret of its key, which is returned only once',
          schema: CreateTenantResponse,
        },
      },
      async handle(context) {
        const { name, admin } = context.body
        const nowMs = clock.now()
        const now = isoTime(nowMs)
        const tenant = { id: newId(nowMs), name, status: 'Active', created_at: now, updated_at: now } as const
        const { user, key, secret } = await change(deps, context, async ({ tx, record }) => {
          await insertTenant(tx, tenant)
          await insertSystemRoles(tx, tenant.id, now)
          const username = admin.username ?? (await freeUsername(tx, tenant.id, admin.email))
          const user: UserRow = {
            id: newId(nowMs),
            tenant_id: tenant.id,
            name: admin.name,
            email: admin.email,
            username,
            role: 'admin',
            status: 1,
            license: 'Essential',
            auth_type: 'basic',
            is_verified: 0,
            setup_completed: 0,
            search_text: toSearchText(admin.name, admin.email, username),
            ...NO_USAGE_BY_MODEL,
            created_at: now,
            updated_at: now,
          }
          await insertUser(tx, user)
          const { key, secret } = await insertAdminKey(tx, { tenantId: tenant.id, userId: user.id, now: nowMs })
          await recordInBoth(record, context.caller, {
            type: 'tenant_management',
            operation: 'create',
            resourceType: 'tenant',
            resourceId: tenant.id,
            description: `created tenant "${name}"`,
            metadata: { administrator: user.id, apiKey: key.row.id },
          })
          return { user, key, secret }
        })
        const body: z.input<typeof CreateTenantResponse> = {
          success: true,
          message: 'Tenant created',
          tenant: toTenant({ ...tenant, user_count: 1 }),
          admin: toCreatedUser(user),
          apiKey: toApiKey(key, now),
          secret,
        }
        return reply(201, body, SECRET_HEADERS)
      },
    }),
    route({
      method: 'GET',
      path: '/api/admin/tenants/{tenantId}',
      access: 'operator',
      errors: 'structured',
      summary: 'Show a tenant',
      tags: ['Tenants'],
      responses: { ...notFound, 200: { description: 'The tenant', schema: ShowTenantResponse } },
      async handle({ params }) {
        const tenant = await getTenant(db, idOf(params.tenantId, unknownTenant))
        return reply(200, { success: true, tenant: toTenant(tenant) } satisfies z.input<typeof ShowTenantResponse>)
      },
    }),
    route({
      method: 'PUT',
      path: '/api/admin/tenants/{tenantId}',
      access: 'operator',
      errors: 'structured',
      summary: 'Rename, disable or enable a tenant; the keys of a disabled tenant are rejected',
      tags: ['Tenants'],
      body: UpdateTenantRequest,
      responses: {
        409: nameExists,
        ...notFound,
        200: { description: 'The updated tenant', schema: TenantResponse },
      },
      async handle(context) {
        const { caller, body } = context
        const tenantId = idOf(context.params.tenantId, unknownTenant)
        if (body.status === 'Disabled' && tenantId === caller.tenantId) {
          throw new GatewayError(
            'INSUFFICIENT_PERMISSIONS',
            'The tenant of the operator key cannot be disabled, because only that key could enable it again.',
          )
        }
        const tenant = await change(deps, context, async ({ tx, record }) => {
          await lockTenant(tx, tenantId)
          const before = await getTenant(tx, tenantId)
          const { name = before.name, status = before.status } = changesIn(body, TENANT_READ_ONLY, toTenant(before))
          const after = { ...before, name, status, updated_at: isoTime(clock.now()) }
          await updateTenant(tx, after)
          await recordInBoth(record, caller, {
            type: 'tenant_management',
            operation: 'update',
            resourceType: 'tenant',
            resourceId: tenantId,
            description: `${wordFor(before, after)} tenant "${before.name}"`,
            ...(status === 'Disabled' && { severity: 'warning' }),
            metadata: { changes: changesBetween(before, after) },
          })
          return after
        })
        return reply(200, {
          success: true,
          message: 'Tenant updated',
          tenant: toTenant(tenant),
        } satisfies z.input<typeof TenantResponse>)
      },
    }),
    route({
      method: 'POST',
      path: '/api/admin/tenants/{tenantId}/admin-key',
      access: 'operator',
      errors: 'structured',
      summary: 'Create a new key for an administrator of a tenant whose administrator key is lost',
      tags: ['Tenants'],
      body: CreateAdminKeyRequest,
      responses: {
        ...notFound,
        201: { description: 'The key and its secret, which is returned only once', schema: KeySecretResponse },
        409: { description: 'The tenant has no active administrator', schema: StructuredError },
      },
      async handle(context) {
        const tenantId = idOf(context.params.tenantId, unknownTenant)
        const now = clock.now()
        const { key, secret } = await change(deps, context, async ({ tx, record }) => {
          await lockTenant(tx, tenantId)
          const { name } = await getTenant(tx, tenantId)
          const userId = await getAdministrator(tx, tenantId, context.body.userId)
          const made = await insertAdminKey(tx, { tenantId, userId, now })
          await recordInBoth(record, context.caller, {
            type: 'tenant_management',
            operation: 'create_admin_key',
            resourceType: 'tenant',
            resourceId: tenantId,
            description: `created a key for the administrator of tenant "${name}"`,
            severity: 'warning',
            metadata: { administrator: userId, apiKey: made.key.row.id },
          })
          return made
        })
        const body: z.input<typeof KeySecretResponse> = {
          success: true,
          message: 'API key created',
          apiKey: toApiKey(key, isoTime(now)),
          secret,
        }
        return reply(201, body, SECRET_HEADERS)
      },
    }),
  ]
}

/** Responses with a secret must not be cached. */
const SECRET_HEADERS = { 'cache-control': 'no-store' }

/**
 * Records the activity in the logs of the operator and of the tenant, so that the tenant's administrators also see it.
 */
async function recordInBoth(record: Change['record'], caller: Caller, activity: Activity): Promise<void> {
  await record(activity)
  if (activity.resourceId !== caller.tenantId) await record({ ...activity, tenantId: activity.resourceId })
}

/** @throws TENANT_NOT_FOUND */
async function getTenant(db: Db, id: string): Promise<CountedTenant> {
  const tenant = await findTenant(db, id)
  if (!tenant) throw unknownTenant(id)
  return tenant
}

const unknownTenant = (id: string): GatewayError =>
  new GatewayError('TENANT_NOT_FOUND', `There is no tenant "${id}". GET /api/admin/tenants lists all tenants.`)

type Changeable = Pick<CountedTenant, 'name' | 'status'>

function wordFor(before: Changeable, after: Changeable): string {
  if (before.status === after.status) return 'updated'
  return after.status === 'Disabled' ? 'disabled' : 'enabled'
}

/** Returns the changed properties, for the audit entry. */
const changesBetween = (before: Changeable, after: Changeable): Partial<Changeable> => ({
  ...(after.name !== before.name && { name: after.name }),
  ...(after.status !== before.status && { status: after.status }),
})

const toTenant = (row: CountedTenant): Tenant => ({
  id: row.id,
  name: row.name,
  status: row.status,
  userCount: row.user_count,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
})
