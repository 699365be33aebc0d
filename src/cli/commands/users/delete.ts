import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { addRemoveOptions, type RemoveFlags, remove } from '../../resources/removal.ts'
import { USERS } from '../../resources/resources.ts'
import { USER_ARGUMENT } from './show.ts'

export type DeleteUserInput = RemoveFlags & { user: string }

export function deleteCommand(context: CliContext, run = deleteUser): Command {
  const command = new Command('delete')
    .description('Delete a user and their keys. To stop the keys alone:  aigw users disable USER')
    .argument('<user>', USER_ARGUMENT)
  return addRemoveOptions(command, 'user').action((user: string, flags: RemoveFlags) =>
    run(context, { user, ...flags }),
  )
}

/** DELETE /users/{id}, after a question. */
export const deleteUser = (context: CliContext, { user, ignoreNotFound }: DeleteUserInput): Promise<void> =>
  remove(context, {
    resource: USERS,
    given: user,
    ignoreNotFound,
    question: `Delete user '${user}' and all of their keys?`,
  })
