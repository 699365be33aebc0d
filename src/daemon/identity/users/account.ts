import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { excessOf, type Rights, reachOf, rightsOf } from '../../../shared/permissions.ts'
import type { Db } from '../../platform/db/db.ts'
import { requireCovered } from '../../platform/http/access.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { findRole, type RoleRow, roleRightsOf } from '../roles/store.ts'
import { findUserDetails, hasOtherAdministrator, ownsOperatorKey, type UserRow, unknownRole } from './store.ts'

/** A user and the user's custom role. Together, they determine the user's rights. */
export type Account = { user: UserRow; customRole: RoleRow | undefined }

const rightsOfAccount = ({ user, customRole }: Account): Rights =>
  rightsOf(user.role, customRole && roleRightsOf(customRole))

const isActiveAdministrator = ({ user }: Account): boolean => user.role === 'admin' && user.status === 1

/** @throws USER_NOT_FOUND */
export async function getAccount(tx: Db, tenantId: string, userId: string): Promise<Account> {
  const found = await findUserDetails(tx, tenantId, userId)
  if (!found) throw unknownUser(userId)
  const { role_id, role_name: _name, role_display_name: _displayName, last_active: _active, ...user } = found
  return { user, customRole: role_id === null ? undefined : await findRole(tx, tenantId, role_id) }
}

export const unknownUser = (userId: string): GatewayError =>
  new GatewayError('USER_NOT_FOUND', `There is no user "${userId}". GET /users lists all users.`)

/**
 * Returns the custom role that a request names as `roleId`. @throws VALIDATION_ERROR unless `roleId` is a custom role
 * of the tenant
 */
export async function getCustomRole(tx: Db, tenantId: string, roleId: string): Promise<RoleRow> {
  const role = await findRole(tx, tenantId, roleId)
  if (!role) throw unknownRole(roleId)
  if (role.is_system === 0) return role
  throw invalidField('roleId', `"${role.name}" is a system role. Send it as "role", and omit roleId.`, roleId)
}

/**
 * Checks that the caller has all rights of this account. Callers can grant only rights that they have. They can change
 * only users whose rights are all covered by their own. @throws INSUFFICIENT_PERMISSIONS
 */
export function requireWithinRights(caller: Caller, account: Account): void {
  const { user, customRole } = account
  const reach = reachOf(user.role, customRole && roleRightsOf(customRole))
  requireCovered(caller.rights, reach, `The role of "${user.username}"`)
}

/**
 * Checks that the caller is allowed to make this change. `after` is undefined for a deletion. Call this in a `change`,
 * so that the accounts cannot change in the meantime.
 * @throws INSUFFICIENT_PERMISSIONS if the user has, or would get, rights that the caller lacks.
 * INSUFFICIENT_PERMISSIONS if the owner of the operator key would lose rights. LAST_ADMINISTRATOR if the tenant would
 * have no active administrator left.
 */
export async function requireMayChange(
  tx: Db,
  caller: Caller,
  before: Account,
  after: Account | undefined,
): Promise<void> {
  requireWithinRights(caller, before)
  if (after) requireWithinRights(caller, after)
  const { tenant_id: tenantId, id, username } = before.user
  const isWeakened =
    !after ||
    after.user.status < before.user.status ||
    excessOf(rightsOfAccount(after), rightsOfAccount(before)).length > 0
  if (isWeakened && (await ownsOperatorKey(tx, tenantId, id))) {
    throw new GatewayError(
      'INSUFFICIENT_PERMISSIONS',
      `"${username}" owns the operator key. This user cannot be deleted or deactivated, nor lose rights.`,
    )
  }
  const resigns = isActiveAdministrator(before) && !(after && isActiveAdministrator(after))
  if (resigns && !(await hasOtherAdministrator(tx, tenantId, id))) {
    throw new GatewayError(
      'LAST_ADMINISTRATOR',
      `"${username}" is the last active administrator of this tenant. Make another user an administrator first.`,
    )
  }
}
