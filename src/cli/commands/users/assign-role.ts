import { Command } from 'commander'
import { SYSTEM_ROLES } from '../../../shared/permissions.ts'
import type { CliContext } from '../../context.ts'
import { getItem } from '../../resources/resolve.ts'
import { update } from '../../resources/update.ts'
import { ROLES } from '../roles/resource.ts'
import { USERS } from './resource.ts'

type AssignRoleInput = { user: string; role: string }

export function toCommand(context: CliContext): Command {
  return new Command('assign-role')
    .description(
      `Give a user a role. ${SYSTEM_ROLES.join(', ')} replace the system role; any other becomes the custom role.\n` +
        'The other of the two stays as it is (to remove a custom role:  aigw users update USER --no-custom-role).',
    )
    .argument('<user>', USERS.argument)
    .argument('<role>', 'name or id of a role')
    .action((user: string, role: string) => assignRole(context, { user, role }))
}

/** PUT /users/{id}. Throws exit 3 for a user or a role that there is not. */
async function assignRole(context: CliContext, { user, role }: AssignRoleInput): Promise<void> {
  await update(context, { resource: USERS, given: user, changes: await toChange(context, role), view: USERS.view })
}

async function toChange(context: CliContext, role: string): Promise<object> {
  if (SYSTEM_ROLES.some((name) => name === role)) return { role }
  const { item } = await getItem(context, ROLES, role)
  return item.isSystem ? { role: item.name } : { roleId: item.id }
}
