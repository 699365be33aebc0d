import { Command } from 'commander'
import { SYSTEM_ROLES } from '../../../shared/permissions.ts'
import type { CliContext } from '../../context.ts'
import { update } from '../../resources/changes.ts'
import { getItem } from '../../resources/resolve.ts'
import { ROLES } from '../roles/resource.ts'
import { USERS } from './resource.ts'

/** PUT /users/{id}. Throws an error with exit code 3 for an unknown user or role. */
export const toCommand = (context: CliContext): Command =>
  new Command('assign-role')
    .description(
      `Give a user a role. ${SYSTEM_ROLES.join(', ')} replace the system role; any other becomes the custom role.\n` +
        'The other of the two roles stays. To remove a custom role:  aigw users update USER --no-custom-role',
    )
    .argument('<user>', USERS.argument)
    .argument('<role>', 'name or id of a role')
    .action(async (given: string, role: string) => {
      await update(context, USERS, { given, changes: await toChange(context, role) })
    })

async function toChange(context: CliContext, role: string): Promise<object> {
  if (SYSTEM_ROLES.some((name) => name === role)) return { role }
  const { item } = await getItem(context, ROLES, role)
  return item.isSystem ? { role: item.name } : { roleId: item.id }
}
