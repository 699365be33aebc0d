import { Command } from 'commander'
import type { GuardRule } from '../../../shared/wire/guard-rules.ts'
import type { CliContext } from '../../context.ts'
import { textIn } from '../../input/from-file.ts'
import { askMissing } from '../../input/prompt.ts'
import { addCreateOptions, type CreateFlags, createOrFind } from '../../resources/creation.ts'
import { findNamed } from '../../resources/resolve.ts'
import { GUARD_RULES } from '../../resources/resources.ts'
import { addRuleOptions, type RuleFlags, readRule } from './fields.ts'
import { RULE_VIEW } from './view.ts'

type Flags = RuleFlags & CreateFlags
export type CreateRuleInput = Flags & { name: string | undefined }

export function createCommand(context: CliContext, run = createRule): Command {
  const command = new Command('create')
    .description('Create a guard rule; it holds at once, beside every policy. Its name cannot be changed later.')
    .argument('[name]', 'its id is this in lower case, with hyphens for spaces')
  return addCreateOptions(addRuleOptions(command))
    .addHelpText(
      'after',
      '\nExamples:\n  aigw guard-rules create "Project names" --kind dlp --detector keywords --word Falcon --action mask\n' +
        "  aigw guard-rules create Tickets --kind dlp --detector regex --pattern 'TCK-[0-9]{6}' --simulate",
    )
    .action((name: string | undefined, flags: Flags) => run(context, { name, ...flags }))
}

/** POST /api/admin/guard-rules. Throws exit 6 for a name that is taken, unless `ifNotExists`. */
export async function createRule(context: CliContext, input: CreateRuleInput): Promise<void> {
  const said = await readRule(context, input)
  const { name: _, ...wanted } = said
  const name = await askMissing(
    context,
    { flag: 'NAME', message: 'Name of the rule:' },
    input.name ?? textIn(said, 'name'),
  )
  await createOrFind<GuardRule>(context, {
    request: { method: 'POST', path: GUARD_RULES.path, json: { name, ...wanted } },
    itemKey: GUARD_RULES.itemKey,
    noun: GUARD_RULES.noun,
    name,
    ifNotExists: input.ifNotExists,
    strict: input.strict,
    find: () => findNamed(context, GUARD_RULES, name),
    wanted,
    useIt: `aigw guard-rules show '${name}'`,
    view: RULE_VIEW,
  })
}
