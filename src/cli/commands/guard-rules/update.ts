import { Command } from 'commander'
import type { GuardRule } from '../../../shared/wire/guard-rules.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { GUARD_RULES } from '../../resources/resources.ts'
import { update } from '../../resources/update.ts'
import { addRuleOptions, type RuleFlags, readRule } from './fields.ts'
import { RULE_ARGUMENT, RULE_VIEW } from './view.ts'

export type UpdateRuleInput = RuleFlags & { rule: string }

export function updateCommand(context: CliContext, run = updateRule): Command {
  const command = new Command('update')
    .description('Change what you name about a guard rule; the rest stays as it is.')
    .argument('<rule>', RULE_ARGUMENT)
  return addRuleOptions(command).action((rule: string, flags: RuleFlags) => run(context, { rule, ...flags }))
}

/** PUT /api/admin/guard-rules/{ruleId} with what was named. Throws exit 3 for a rule that does not exist. */
export async function updateRule(context: CliContext, input: UpdateRuleInput): Promise<void> {
  const { name, ...changes } = await readRule(context, input)
  // A file that made the rule may be used to change it, so it may hold the name.
  const complete = (now: GuardRule) => {
    if (name !== now.name) throw usageError(`rule '${now.name}' cannot be renamed to '${name}'`)
    return {}
  }
  await update<GuardRule>(context, {
    resource: GUARD_RULES,
    given: input.rule,
    changes,
    complete: name === undefined ? undefined : complete,
    view: RULE_VIEW,
  })
}
