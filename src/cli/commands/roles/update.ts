import { Command } from 'commander'
import type { Role } from '../../../shared/wire/roles.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { addFromFileOption, readChanges } from '../../input/from-file.ts'
import { ROLES } from '../../resources/resources.ts'
import { update } from '../../resources/update.ts'
import { addRoleOptions, noteClosedPanel, type RoleFlags, readRole } from './fields.ts'
import { withPermissions } from './permissions.ts'
import { ROLE_VIEW } from './view.ts'

export type UpdateRoleInput = RoleFlags & { role: string }

export function updateCommand(context: CliContext, run = updateRole): Command {
  const command = new Command('update')
    .description('Change what you name about a role; the rest stays as it is, also the sections you do not name.')
    .argument('<role>', 'name or id')
  return addFromFileOption(addRoleOptions(command))
    .addHelpText('after', '\n`permissions` in a file replaces all of them; --permission sets one section.')
    .action((role: string, flags: RoleFlags) => run(context, { role, ...flags }))
}

/** PUT /roles/{roleId} with what was named. Throws exit 3 for a role that does not exist. */
export async function updateRole(context: CliContext, input: UpdateRoleInput): Promise<void> {
  const { name, fields, named, shown } = await readRole(context, input, readChanges)
  const complete = (now: Role) => {
    // A file that made the role may be used to change it, so it may hold the name.
    if (name !== undefined && name !== now.name) throw usageError(`role '${now.name}' cannot be renamed to '${name}'`)
    return named.length === 0 ? {} : { permissions: withPermissions(fields.permissions ?? now.permissions, named) }
  }
  const role = await update<Role>(context, {
    resource: ROLES,
    given: input.role,
    changes: { ...shown, ...fields, permissions: named.length > 0 ? named : fields.permissions },
    complete: name !== undefined || named.length > 0 ? complete : undefined,
    view: ROLE_VIEW,
  })
  await noteClosedPanel(context, role)
}
