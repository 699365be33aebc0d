import type { z } from 'zod'
import { GatewayError } from '../../../shared/errors.ts'
import { newId } from '../../../shared/ids.ts'
import { type RoleRights, reachOf } from '../../../shared/permissions.ts'
import { isoTime } from '../../../shared/time.ts'
import { DoneResponse, StructuredError } from '../../../shared/wire/common.ts'
import {
  CreateRoleRequest,
  ListRolesQuery,
  ListRolesResponse,
  ROLE_READ_ONLY,
  type Role,
  RoleResponse,
  ShowRoleResponse,
  UpdateRoleRequest,
} from '../../../shared/wire/roles.ts'
import type { Db } from '../../platform/db/db.ts'
import { toPagination, toSearchText } from '../../platform/db/list-page.ts'
import { requireCovered } from '../../platform/http/access.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { changesIn } from '../../platform/http/read-only.ts'
import { idOf, type Route, reply, route } from '../../platform/http/route.ts'
import { type ChangeDeps, change } from '../../records/audit/change.ts'
import { requireMayAffectHolders } from './holders.ts'
import {
  deleteRole,
  findRole,
  findRoleView,
  insertRole,
  listRoles,
  type RoleRow,
  type RoleView,
  roleRightsOf,
  toRightsColumns,
  updateRole,
} from './store.ts'

const NOT_ALLOWED = { description: 'Not an administrator, or not allowed for this role', schema: StructuredError }
const NOT_FOUND = { description: 'No role of this tenant has this id', schema: StructuredError }

/** The rights of a new role if the request does not specify rights. */
const DEFAULT_RIGHTS: RoleRights = {
  hasAdminPanelAccess: false,
  permissions: [],
  canInteractWithAI: true,
  canUseChat: true,
}

/** Returns the routes that manage roles. */
export function roleRoutes(deps: ChangeDeps): Route[] {
  const { db, clock } = deps
  const common: Pick<Route, 'access' | 'errors' | 'tags'> = {
    access: 'user-management',
    errors: 'structured',
    tags: ['Roles'],
  }
  return [
    route({
      ...common,
      method: 'POST',
      path: '/api/external/roles',
      rate: 'write',
      summary: 'Create a custom role',
      body: CreateRoleRequest,
      responses: {
        403: NOT_ALLOWED,
        201: { description: 'The new role; it can be assigned to users at once', schema: RoleResponse },
        409: { description: 'A role with this name exists', schema: StructuredError },
      },
      async handle(context) {
        const { caller, body } = context
        const { name, displayName, description } = body
        const now = clock.now()
        const rights = withChanges(DEFAULT_RIGHTS, body)
        const row: RoleRow = {
          id: newId(now),
          tenant_id: caller.tenantId,
          name,
          display_name: displayName,
          description,
          is_system: 0,
          ...toRightsColumns(rights),
          search_text: toSearchText(name, displayName, description),
          created_by: caller.userId,
          created_at: isoTime(now),
          updated_at: isoTime(now),
        }
        const role = await change(deps, context, async ({ tx, caller, record }) => {
          requireCovered(caller.rights, reachOf('user', rights), `The role "${name}"`)
          await insertRole(tx, row)
          await record({ ...activityOn(row, 'create'), metadata: { displayName, description, ...rights } })
          return getRole(tx, caller.tenantId, row.id)
        })
        return reply(201, { success: true, message: 'Role created', role } satisfies z.input<typeof RoleResponse>)
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: '/api/external/roles',
      rate: 'read',
      summary: 'List roles',
      query: ListRolesQuery,
      responses: { 200: { description: 'One page, newest first', schema: ListRolesResponse } },
      async handle({ caller, query }) {
        const { roles, total } = await listRoles(db, caller.tenantId, query)
        return reply(200, {
          success: true,
          roles: roles.map(toRole),
          pagination: toPagination(query, total),
        } satisfies z.input<typeof ListRolesResponse>)
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: '/api/external/roles/{roleId}',
      rate: 'read',
      summary: 'Show a role',
      responses: { 200: { description: 'The role', schema: ShowRoleResponse }, 404: NOT_FOUND },
      async handle({ caller, params }) {
        const role = await getRole(db, caller.tenantId, idOf(params.roleId, notFound))
        return reply(200, { success: true, role } satisfies z.input<typeof ShowRoleResponse>)
      },
    }),
    route({
      ...common,
      method: 'PUT',
      path: '/api/external/roles/{roleId}',
      rate: 'write',
      summary: 'Update a role; the change applies to its users at once',
      body: UpdateRoleRequest,
      responses: {
        403: NOT_ALLOWED,
        200: { description: 'The updated role', schema: RoleResponse },
        404: NOT_FOUND,
      },
      async handle(context) {
        const { body, params } = context
        const id = idOf(params.roleId, notFound)
        const role = await change(deps, context, async ({ tx, caller, record }) => {
          const before = await getChangeableRole(tx, caller, id)
          const changes = changesIn(body, ROLE_READ_ONLY, await getRole(tx, caller.tenantId, id))
          const { displayName = before.display_name, description = before.description } = changes
          const rights = withChanges(roleRightsOf(before), changes)
          requireCovered(caller.rights, reachOf('user', rights), `The role "${before.name}" with these changes`)
          await requireMayAffectHolders(tx, caller, before, rights)
          await updateRole(tx, {
            ...before,
            display_name: displayName,
            description,
            ...toRightsColumns(rights),
            search_text: toSearchText(before.name, displayName, description),
            updated_at: isoTime(clock.now()),
          })
          // Properties that were not sent are undefined, so the JSON of the audit entry omits them.
          await record({ ...activityOn(before, 'update'), metadata: changes })
          return getRole(tx, caller.tenantId, id)
        })
        return reply(200, { success: true, message: 'Role updated', role } satisfies z.input<typeof RoleResponse>)
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: '/api/external/roles/{roleId}',
      rate: 'write',
      summary: 'Delete a custom role that no user has',
      responses: {
        403: NOT_ALLOWED,
        200: { description: 'The role was deleted', schema: DoneResponse },
        404: NOT_FOUND,
        409: { description: 'The role is assigned to users', schema: StructuredError },
      },
      async handle(context) {
        const id = idOf(context.params.roleId, notFound)
        await change(deps, context, async ({ tx, caller, record }) => {
          const role = await getChangeableRole(tx, caller, id)
          await deleteRole(tx, role)
          await record(activityOn(role, 'delete'))
        })
        return reply(200, { success: true, message: 'Role deleted' } satisfies z.input<typeof DoneResponse>)
      },
    }),
  ]
}

const notFound = () => new GatewayError('ROLE_NOT_FOUND', 'Role not found. GET /api/external/roles lists all roles.')

/** @throws ROLE_NOT_FOUND */
async function getRole(db: Db, tenantId: string, id: string): Promise<Role> {
  const view = await findRoleView(db, tenantId, id)
  if (!view) throw notFound()
  return toRole(view)
}

/**
 * Returns the role if the caller is allowed to change it.
 * @throws ROLE_NOT_FOUND, INSUFFICIENT_PERMISSIONS for a system role, or for a role with rights that the caller lacks.
 */
async function getChangeableRole(tx: Db, { tenantId, rights }: Caller, id: string): Promise<RoleRow> {
  const role = await findRole(tx, tenantId, id)
  if (!role) throw notFound()
  if (role.is_system === 1) {
    throw new GatewayError(
      'INSUFFICIENT_PERMISSIONS',
      `"${role.name}" is a system role and cannot be changed or deleted. Create a custom role instead.`,
    )
  }
  requireCovered(rights, reachOf('user', roleRightsOf(role)), `The role "${role.name}"`)
  return role
}

const withChanges = (
  before: RoleRights,
  changes: { [Right in keyof RoleRights]?: RoleRights[Right] | undefined },
): RoleRights => ({
  hasAdminPanelAccess: changes.hasAdminPanelAccess ?? before.hasAdminPanelAccess,
  permissions: changes.permissions ?? before.permissions,
  canInteractWithAI: changes.canInteractWithAI ?? before.canInteractWithAI,
  canUseChat: changes.canUseChat ?? before.canUseChat,
})

const activityOn = ({ id, name }: RoleRow, operation: 'create' | 'update' | 'delete') =>
  ({
    type: 'role_management',
    operation,
    resourceType: 'role',
    resourceId: id,
    description: `${operation}d role "${name}"`,
  }) as const

function toRole(view: RoleView): Role {
  const { hasAdminPanelAccess, permissions, canInteractWithAI, canUseChat } = roleRightsOf(view)
  const { created_by: creatorId, creator_name: creatorName, creator_email: creatorEmail } = view
  return {
    id: view.id,
    name: view.name,
    displayName: view.display_name,
    description: view.description,
    isSystem: view.is_system === 1,
    hasAdminPanelAccess,
    permissions: [...permissions],
    canInteractWithAI,
    canUseChat,
    userCount: view.user_count,
    createdBy:
      creatorId !== null && creatorName !== null && creatorEmail !== null
        ? { id: creatorId, name: creatorName, email: creatorEmail }
        : null,
    createdAt: view.created_at,
    updatedAt: view.updated_at,
  }
}
