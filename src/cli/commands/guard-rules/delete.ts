import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { addRemoveOptions, type RemoveFlags, remove } from '../../resources/removal.ts'
import { GUARD_RULES } from '../../resources/resources.ts'
import { RULE_ARGUMENT } from './view.ts'

export type DeleteRuleInput = RemoveFlags & { rule: string }

export function deleteCommand(context: CliContext, run = deleteRule): Command {
  const command = new Command('delete').description('Delete a guard rule.').argument('<rule>', RULE_ARGUMENT)
  return addRemoveOptions(command, GUARD_RULES.noun).action((rule: string, flags: RemoveFlags) =>
    run(context, { rule, ...flags }),
  )
}

/** Asks first. Throws exit 3 for a rule that does not exist, unless `ignoreNotFound`. */
export const deleteRule = (context: CliContext, { rule, ignoreNotFound }: DeleteRuleInput): Promise<void> =>
  remove(context, { resource: GUARD_RULES, given: rule, ignoreNotFound, question: `Delete guard rule '${rule}'?` })
