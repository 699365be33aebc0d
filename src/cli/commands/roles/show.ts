import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { showItem } from '../../resources/resolve.ts'
import { ROLES } from '../../resources/resources.ts'
import { ROLE_VIEW } from './view.ts'

export function showCommand(context: CliContext, run = showRole): Command {
  return new Command('show')
    .description('Show a role and what it opens.')
    .argument('<role>', 'name or id')
    .action((role: string) => run(context, role))
}

/** Throws exit 3 for a role that does not exist. */
export const showRole = (context: CliContext, given: string): Promise<void> =>
  showItem(context, { resource: ROLES, given, view: ROLE_VIEW })
