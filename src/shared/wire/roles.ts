import { z } from 'zod'
import { LEVELS, SECTIONS } from '../permissions.ts'
import { NAME_CHARS, ROLE_NAME } from '../spec-limits.ts'
import {
  closedObject,
  description,
  flag,
  listQuery,
  oneOf,
  optional,
  Pagination,
  readableName,
  readOnlyMembers,
  requestBody,
  storableText,
} from './common.ts'
import { UserReference } from './groups.ts'

const permission = { section: oneOf('section', SECTIONS), level: oneOf('level', LEVELS) }

/** A role. `createdBy` is null for system roles. */
export const Role = z
  .object({
    id: z.string(),
    name: z.string(),
    displayName: z.string(),
    description: z.string(),
    isSystem: z.boolean(),
    hasAdminPanelAccess: z.boolean(),
    permissions: z.array(z.object(permission)),
    canInteractWithAI: z.boolean(),
    canUseChat: z.boolean(),
    userCount: z.int(),
    createdBy: UserReference.nullable().meta({ description: 'Null for system roles, and if that user was deleted' }),
    createdAt: z.string(),
    updatedAt: z.string(),
  })
  .meta({ id: 'Role' })
export type Role = z.infer<typeof Role>

const displayName = readableName('displayName', NAME_CHARS)
const permissions = z
  .array(closedObject(permission, 'each permission must be an object {section, level}'), {
    error: 'permissions must be an array of {section, level}',
  })
  .max(SECTIONS.length, { error: `permissions may name each of the ${SECTIONS.length} sections once` })
  .refine((list) => new Set(list.map(({ section }) => section)).size === list.length, {
    error: 'permissions may name each section only once',
  })
const rights = {
  hasAdminPanelAccess: optional(flag('hasAdminPanelAccess')),
  permissions: optional(permissions),
  canInteractWithAI: optional(flag('canInteractWithAI')),
  canUseChat: optional(flag('canUseChat')),
}

/** The body of POST /roles. */
export const CreateRoleRequest = requestBody('CreateRoleRequest', {
  name: storableText('name').regex(ROLE_NAME, {
    error: 'name must have 2 to 64 of a-z, 0-9, "_" and "-", and begin with a letter',
  }),
  displayName,
  description,
  ...rights,
})

/** The members of a role that requests cannot change. The name is fixed, because scripts refer to it. */
export const ROLE_READ_ONLY = [
  'id',
  'name',
  'isSystem',
  'userCount',
  'createdBy',
  'createdAt',
  'updatedAt',
] as const satisfies (keyof Role)[]

/** The body of PUT /roles/{roleId}. Only the members in the body are changed. */
export const UpdateRoleRequest = requestBody('UpdateRoleRequest', {
  displayName: optional(displayName),
  description: optional(description),
  ...rights,
  ...readOnlyMembers(ROLE_READ_ONLY),
})

export const ROLE_SORTS = ['createdAt', 'updatedAt', 'name', 'displayName', 'userCount'] as const

export const ListRolesQuery = listQuery(ROLE_SORTS).extend({
  isSystem: oneOf('isSystem', ['true', 'false']).optional(),
})

/** The response of create and update. */
export const RoleResponse = z.object({ success: z.literal(true), message: z.string(), role: Role })
export const ShowRoleResponse = z.object({ success: z.literal(true), role: Role })
export const ListRolesResponse = z.object({ success: z.literal(true), roles: z.array(Role), pagination: Pagination })
