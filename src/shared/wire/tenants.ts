import { z } from 'zod'
import { EMAIL_CHARS, NAME_CHARS, USERNAME } from '../spec-limits.ts'
import {
  closedObject,
  listQuery,
  objectId,
  oneOf,
  optional,
  Pagination,
  readableName,
  readOnlyMembers,
  requestBody,
  storableText,
} from './common.ts'
import { ApiKey } from './keys.ts'
import { CreateUserResponse } from './users.ts'

const TENANT_STATUSES = ['Active', 'Disabled'] as const

export const Tenant = z
  .object({
    id: z.string(),
    name: z.string(),
    status: z.enum(TENANT_STATUSES).meta({ description: 'While it is disabled, all its keys are rejected' }),
    userCount: z.int(),
    createdAt: z.string(),
    updatedAt: z.string(),
  })
  .meta({ id: 'Tenant' })
export type Tenant = z.infer<typeof Tenant>

/**
 * The body of POST /api/admin/tenants: the tenant and its first administrator. The gateway creates a key for this
 * administrator.
 */
export const CreateTenantRequest = requestBody('CreateTenantRequest', {
  name: readableName('name', NAME_CHARS),
  admin: closedObject(
    {
      name: readableName('admin.name', NAME_CHARS),
      email: storableText('admin.email')
        .trim()
        .toLowerCase()
        .max(EMAIL_CHARS, { error: `admin.email may have at most ${EMAIL_CHARS} characters` })
        .pipe(z.email({ error: 'admin.email must be an address such as ada@example.com' })),
      username: optional(
        storableText('admin.username')
          .trim()
          .toLowerCase()
          .regex(USERNAME, { error: 'admin.username must have 3 to 30 of a-z, 0-9, "." and "-"' }),
      ),
    },
    'admin must be an object {name, email}',
  ),
})

/** The members of a tenant that requests cannot change. */
export const TENANT_READ_ONLY = ['id', 'userCount', 'createdAt', 'updatedAt'] as const satisfies (keyof Tenant)[]

/** The body of PUT /api/admin/tenants/{tenantId}. Only the members in the body are changed. */
export const UpdateTenantRequest = requestBody('UpdateTenantRequest', {
  name: optional(readableName('name', NAME_CHARS)),
  status: optional(oneOf('status', TENANT_STATUSES)),
  ...readOnlyMembers(TENANT_READ_ONLY),
})

/** The body of POST /api/admin/tenants/{tenantId}/admin-key. */
export const CreateAdminKeyRequest = requestBody('CreateAdminKeyRequest', {
  userId: optional(objectId('userId')).meta({
    description: 'An active administrator of the tenant; by default the one created first',
  }),
})

export const TENANT_SORTS = ['createdAt', 'updatedAt', 'name'] as const

export const ListTenantsQuery = listQuery(TENANT_SORTS).extend({ status: oneOf('status', TENANT_STATUSES).optional() })

/** The response of create. Only this response contains the secret of the administrator's key. */
export const CreateTenantResponse = z.object({
  success: z.literal(true),
  message: z.string(),
  tenant: Tenant,
  admin: CreateUserResponse.shape.user,
  apiKey: ApiKey,
  secret: z.string(),
})
/** The response of an update. */
export const TenantResponse = z.object({ success: z.literal(true), message: z.string(), tenant: Tenant })
export const ShowTenantResponse = z.object({ success: z.literal(true), tenant: Tenant })
export const ListTenantsResponse = z.object({
  success: z.literal(true),
  tenants: z.array(Tenant),
  pagination: Pagination,
})
