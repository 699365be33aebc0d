import { Command, Option } from 'commander'
import type { CliContext } from '../../context.ts'
import { opposed } from '../../input/exclusive-flags.ts'
import { addFromFileOption, readChanges, withFlags } from '../../input/from-file.ts'
import { USERS } from '../../resources/resources.ts'
import { update } from '../../resources/update.ts'
import { addUserOptions, toUserFields, type UserFlags } from './fields.ts'
import { USER_ARGUMENT } from './show.ts'
import { USER_MEMBERS, USER_VIEW } from './view.ts'

const MEMBERS = { ...USER_MEMBERS, roleId: true, status: true, isVerified: true }

export type UpdateUserInput = UserFlags & { user: string; name?: string; email?: string; fromFile?: string }

export function updateCommand(context: CliContext, run = updateUser): Command {
  const command = addUserOptions(
    new Command('update')
      .description('Change what you name about a user; everything else stays.')
      .argument('<user>', USER_ARGUMENT)
      .option('--name <text>', 'full name')
      .option('--email <address>', 'email address'),
  ).addOption(new Option('--no-custom-role', 'take the custom role away').conflicts('roleId'))
  return addFromFileOption(opposed(command, 'custom-role')).action(
    (user: string, flags: Omit<UpdateUserInput, 'user'>) => run(context, { user, ...flags }),
  )
}

/** PUT /users/{id}. */
export async function updateUser(
  context: CliContext,
  { user, name, email, fromFile, ...flags }: UpdateUserInput,
): Promise<void> {
  const inFile = await readChanges(context, fromFile, MEMBERS)
  const changes = withFlags(inFile, { name, email, ...(await toUserFields(context, flags)) })
  await update(context, { resource: USERS, given: user, changes, view: USER_VIEW })
}
