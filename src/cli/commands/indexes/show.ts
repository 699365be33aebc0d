import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { showItem } from '../../resources/resolve.ts'
import { INDEXES } from '../../resources/resources.ts'
import { getIndexNameOrId } from './name.ts'
import { INDEX_CARD } from './view.ts'

export function showCommand(context: CliContext, run = showIndex): Command {
  return new Command('show')
    .description('Show a knowledge base and who may read it.')
    .argument('<index>', 'name or id')
    .action((index: string) => run(context, getIndexNameOrId(index)))
}

/** Throws exit 3 for an index that does not exist. */
export const showIndex = (context: CliContext, given: string): Promise<void> =>
  showItem(context, { resource: INDEXES, given, view: INDEX_CARD })
