import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { addRemoveOptions, type RemoveFlags } from '../../resources/options.ts'
import { remove } from '../../resources/removal.ts'
import { getIndexName } from './name.ts'
import { documentsOf } from './resource.ts'

/** Asks first. Throws exit 3 for a document that is not there, unless `ignoreNotFound`. */
export function toCommand(context: CliContext): Command {
  const command = new Command('remove')
    .description('Remove a document from a knowledge base.')
    .argument('<index>', 'knowledge base')
    .argument('<document>', 'name or id')
  return addRemoveOptions(command, 'document').action((text: string, given: string, flags: RemoveFlags) => {
    const index = getIndexName(text)
    const question = `Remove '${given}' from index '${index}'?`
    return remove(context, { ...flags, resource: documentsOf(index), given, question, done: 'removed' })
  })
}
