import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { addRemoveOptions, type RemoveFlags, remove } from '../../resources/removal.ts'
import { documentsOf } from './docs.ts'
import { getIndexName } from './name.ts'

export type RemoveDocumentInput = RemoveFlags & { index: string; document: string }

export function removeCommand(context: CliContext, run = removeDocument): Command {
  const command = new Command('remove')
    .description('Take a document out of a knowledge base.')
    .argument('<index>', 'knowledge base')
    .argument('<document>', 'name or id')
  return addRemoveOptions(command, 'document').action((index: string, document: string, flags: RemoveFlags) =>
    run(context, { index: getIndexName(index), document, ...flags }),
  )
}

/** Asks first. Throws exit 3 for a document that is not there, unless `ignoreNotFound`. */
export const removeDocument = (
  context: CliContext,
  { index, document, ignoreNotFound }: RemoveDocumentInput,
): Promise<void> =>
  remove(context, {
    resource: documentsOf(index),
    given: document,
    ignoreNotFound,
    question: `Remove '${document}' from index '${index}'?`,
    done: 'removed',
  })
