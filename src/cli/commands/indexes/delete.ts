import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { addRemoveOptions, type RemoveFlags, remove } from '../../resources/removal.ts'
import { INDEXES } from '../../resources/resources.ts'
import { getIndexNameOrId } from './name.ts'

export type DeleteIndexInput = RemoveFlags & { index: string }

export function deleteCommand(context: CliContext, run = deleteIndex): Command {
  const command = new Command('delete')
    .description('Delete a knowledge base with all its documents.')
    .argument('<index>', 'name or id')
  return addRemoveOptions(command, INDEXES.noun).action((index: string, flags: RemoveFlags) =>
    run(context, { index: getIndexNameOrId(index), ...flags }),
  )
}

/** Asks first. Throws exit 3 for an index that does not exist, unless `ignoreNotFound`. */
export const deleteIndex = (context: CliContext, { index, ignoreNotFound }: DeleteIndexInput): Promise<void> =>
  remove(context, {
    resource: INDEXES,
    given: index,
    ignoreNotFound,
    question: `Delete index '${index}' and all its documents?`,
  })
