import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { showItem } from '../../resources/resolve.ts'
import { GROUPS } from '../../resources/resources.ts'
import { GROUP_VIEW } from './view.ts'

export function showCommand(context: CliContext, run = showGroup): Command {
  return new Command('show')
    .description('Show a group and its members.')
    .argument('<group>', 'name or id')
    .action((group: string) => run(context, group))
}

/** Throws exit 3 for a group that does not exist. */
export const showGroup = (context: CliContext, given: string): Promise<void> =>
  showItem(context, { resource: GROUPS, given, view: GROUP_VIEW })
