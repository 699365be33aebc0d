import { GatewayError } from '../../../shared/errors.ts'
import { excessOf, type RoleRights, reachOf, rightsOf } from '../../../shared/permissions.ts'
import type { Db } from '../../platform/db/db.ts'
import { requireCovered } from '../../platform/http/access.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { type RoleRow, roleRightsOf, systemRoleOfOperator, systemRolesOfHolders } from './store.ts'

/**
 * Checks whether the caller is allowed to change a role. The change also affects the rights of the role's users.
 * Deletions are not checked, because a role with users cannot be deleted.
 * @throws INSUFFICIENT_PERMISSIONS if the change alters the rights of a user whom the caller is not allowed to change,
 * or removes rights of the operator key's owner.
 */
export async function requireMayAffectHolders(
  tx: Db,
  { tenantId, rights }: Caller,
  role: RoleRow,
  after: RoleRights,
): Promise<void> {
  const before = roleRightsOf(role)
  for (const systemRole of await systemRolesOfHolders(tx, tenantId, role.id)) {
    const had = rightsOf(systemRole, before)
    const has = rightsOf(systemRole, after)
    if (excessOf(had, has).length === 0 && excessOf(has, had).length === 0) continue
    const subject = `A user with the role "${role.name}"`
    requireCovered(
      rights,
      reachOf(systemRole, before),
      subject,
      'Use a key that has these rights, or assign these users another role first.',
    )
  }
  const operator = await systemRoleOfOperator(tx, tenantId, role.id)
  if (operator && excessOf(rightsOf(operator, after), rightsOf(operator, before)).length > 0) {
    throw new GatewayError(
      'INSUFFICIENT_PERMISSIONS',
      `The owner of the operator key has the role "${role.name}" and must not lose rights. Assign this user another role first.`,
    )
  }
}
