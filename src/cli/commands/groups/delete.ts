import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { addRemoveOptions, type RemoveFlags, remove } from '../../resources/removal.ts'
import { GROUPS } from '../../resources/resources.ts'

export type DeleteGroupInput = RemoveFlags & { group: string }

export function deleteCommand(context: CliContext, run = deleteGroup): Command {
  const command = new Command('delete')
    .description('Delete a group. Its members stay.')
    .argument('<group>', 'name or id')
  return addRemoveOptions(command, GROUPS.noun).action((group: string, flags: RemoveFlags) =>
    run(context, { group, ...flags }),
  )
}

/** Asks first. Throws exit 3 for a group that does not exist, unless `ignoreNotFound`. */
export const deleteGroup = (context: CliContext, { group, ignoreNotFound }: DeleteGroupInput): Promise<void> =>
  remove(context, {
    resource: GROUPS,
    given: group,
    ignoreNotFound,
    question: `Delete group '${group}'?`,
  })
