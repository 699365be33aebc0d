import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { showItem } from '../../resources/resolve.ts'
import { GUARD_RULES } from '../../resources/resources.ts'
import { RULE_ARGUMENT, RULE_VIEW } from './view.ts'

export function showCommand(context: CliContext, run = showRule): Command {
  return new Command('show')
    .description('Show a guard rule.')
    .argument('<rule>', RULE_ARGUMENT)
    .action((rule: string) => run(context, rule))
}

/** Throws exit 3 for a rule that does not exist. */
export const showRule = (context: CliContext, given: string): Promise<void> =>
  showItem(context, { resource: GUARD_RULES, given, view: RULE_VIEW })
