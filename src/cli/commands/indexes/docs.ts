import { Command } from 'commander'
import type { IndexDocument } from '../../../shared/wire/indexes.ts'
import type { CliContext } from '../../context.ts'
import { addListOptions, type ListFlags, type ListInput, listAll, toListInput } from '../../resources/listing.ts'
import type { Resource } from '../../resources/resolve.ts'
import { getIndexName, indexPath } from './name.ts'
import { DOCUMENT_VIEW } from './view.ts'

/** The documents of one index. */
export const documentsOf = (index: string): Resource<IndexDocument> => ({
  noun: 'document',
  command: 'indexes',
  listCommand: `aigw indexes docs ${index}`,
  path: indexPath(index, 'documents'),
  itemsKey: 'documents',
  itemKey: 'document',
  isCalled: (document, name) => document.name === name,
})

export function docsCommand(context: CliContext, run = listDocuments): Command {
  const command = new Command('docs')
    .description('List the documents of a knowledge base.')
    .argument('<index>', 'knowledge base')
  return addListOptions(command, 'their name').action((index: string, flags: ListFlags) =>
    run(context, { index: getIndexName(index), ...toListInput(flags) }),
  )
}

/** GET /indexes/{name}/documents, page by page. */
export const listDocuments = (
  context: CliContext,
  { index, search, limit, all }: ListInput & { index: string },
): Promise<void> =>
  listAll<IndexDocument>(context, { ...documentsOf(index), query: { search }, limit, all, view: DOCUMENT_VIEW })
