import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { addRemoveOptions, type RemoveFlags, remove } from '../../resources/removal.ts'
import { ROLES } from '../../resources/resources.ts'

export type DeleteRoleInput = RemoveFlags & { role: string }

export function deleteCommand(context: CliContext, run = deleteRole): Command {
  const command = new Command('delete').description('Delete a role that no user has.').argument('<role>', 'name or id')
  return addRemoveOptions(command, ROLES.noun).action((role: string, flags: RemoveFlags) =>
    run(context, { role, ...flags }),
  )
}

/** Asks first. Throws exit 3 for a role that does not exist, unless `ignoreNotFound`; exit 6 for one in use. */
export const deleteRole = (context: CliContext, { role, ignoreNotFound }: DeleteRoleInput): Promise<void> =>
  remove(context, {
    resource: ROLES,
    given: role,
    ignoreNotFound,
    question: `Delete role '${role}'?`,
  })
