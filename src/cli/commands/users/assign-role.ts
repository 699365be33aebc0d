import { Command } from 'commander'
import { SYSTEM_ROLES } from '../../../shared/permissions.ts'
import type { CliContext } from '../../context.ts'
import { getItem } from '../../resources/resolve.ts'
import { ROLES, USERS } from '../../resources/resources.ts'
import { update } from '../../resources/update.ts'
import { USER_ARGUMENT } from './show.ts'
import { USER_VIEW } from './view.ts'

export type AssignRoleInput = { user: string; role: string }

export function assignRoleCommand(context: CliContext, run = assignRole): Command {
  return new Command('assign-role')
    .description(
      `Give a user a role. ${SYSTEM_ROLES.join(', ')} replace the system role; any other becomes the custom role.\n` +
        'The other of the two stays as it is (to take a custom role away:  aigw users update USER --no-custom-role).',
    )
    .argument('<user>', USER_ARGUMENT)
    .argument('<role>', 'name or id of a role')
    .action((user: string, role: string) => run(context, { user, role }))
}

/** PUT /users/{id}. Throws exit 3 for a user or a role that there is not. */
export async function assignRole(context: CliContext, { user, role }: AssignRoleInput): Promise<void> {
  await update(context, { resource: USERS, given: user, changes: await toChange(context, role), view: USER_VIEW })
}

async function toChange(context: CliContext, role: string): Promise<object> {
  if (SYSTEM_ROLES.some((name) => name === role)) return { role }
  const { item } = await getItem(context, ROLES, role)
  return item.isSystem ? { role: item.name } : { roleId: item.id }
}
