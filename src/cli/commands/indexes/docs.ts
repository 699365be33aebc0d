import { Command } from 'commander'
import type { IndexDocument } from '../../../shared/wire/indexes.ts'
import type { CliContext } from '../../context.ts'
import { listAll } from '../../resources/listing.ts'
import { addListOptions, type ListFlags, toListInput } from '../../resources/options.ts'
import { getIndexName } from './name.ts'
import { documentsOf } from './resource.ts'

/** GET /indexes/{name}/documents, page by page. */
export function toCommand(context: CliContext): Command {
  const command = new Command('docs')
    .description('List the documents of a knowledge base.')
    .argument('<index>', 'knowledge base')
  return addListOptions(command, 'their name').action((given: string, flags: ListFlags) => {
    const { search, ...bounds } = toListInput(flags)
    const documents = documentsOf(getIndexName(given))
    return listAll<IndexDocument>(context, { ...documents, query: { search }, ...bounds })
  })
}
