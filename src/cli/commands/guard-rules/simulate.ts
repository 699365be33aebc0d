import { Command } from 'commander'
import type { z } from 'zod'
import type { GuardRule, SimulateGuardRulesResponse } from '../../../shared/wire/guard-rules.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { addTextArgument, readTextInput } from '../../input/text-input.ts'
import { getItem } from '../../resources/resolve.ts'
import { GUARD_RULES } from '../../resources/resources.ts'
import { addRuleOptions, type RuleFlags, readRule } from './fields.ts'
import { RULE_ARGUMENT, RULE_MEMBERS } from './view.ts'

type Flags = RuleFlags & { rule?: string }
export type SimulateInput = Flags & { file: string }

export function simulateCommand(context: CliContext, run = simulate): Command {
  const command = new Command('simulate').description(
    'Show what rules would find in a text; nothing is stored. Without more, all rules of the tenant look, also those that\n' +
      'are switched off.',
  )
  return addRuleOptions(addTextArgument(command).option('--rule <rule>', `only this one: ${RULE_ARGUMENT}`))
    .addHelpText(
      'after',
      '\nThe other flags describe a rule that there is not yet, or with --rule change it for this once.\n\n' +
        "Example:\n  aigw guard-rules simulate --kind dlp --detector regex --pattern 'TCK-[0-9]{6}' mail.txt",
    )
    .action((file: string, flags: Flags) => run(context, { file, ...flags }))
}

/** POST /api/admin/guard-rules/simulate. Prints where in the text something was found, never what. Throws exit 3 for no such rule. */
export async function simulate(context: CliContext, { file, ...flags }: SimulateInput): Promise<void> {
  if (file === '-' && flags.fromFile === '-') throw usageError('text and rule cannot both come from stdin')
  const [api, output] = await Promise.all([context.api(), context.output()])
  const said = await readRule(context, flags)
  const rule = { ...(flags.rule === undefined ? {} : await documentOf(context, flags.rule)), ...said }
  const samples = [await readTextInput(context, file)]
  const { body, raw } = await api.send<z.infer<typeof SimulateGuardRulesResponse>>({
    method: 'POST',
    path: `${GUARD_RULES.path}/simulate`,
    json: Object.keys(rule).length === 0 ? { samples } : { rule, samples },
    repeatable: true,
  })
  const findings = body.results.flatMap((result) => result.findings)
  await output.list(findings, VIEW, raw)
}

/** What a rule that is there says. */
async function documentOf(context: CliContext, given: string): Promise<object> {
  const { item } = await getItem<GuardRule>(context, GUARD_RULES, given)
  return Object.fromEntries(Object.entries(item).filter(([name]) => name !== 'name' && MAY_BE_SAID.includes(name)))
}

const MAY_BE_SAID = Object.entries(RULE_MEMBERS).flatMap(([name, maySay]) => (maySay ? name : []))

const VIEW = {
  columns: [
    { path: 'ruleId', title: 'RULE' },
    { path: 'type' },
    { path: 'start' },
    { path: 'end' },
    { path: 'confidence' },
    { path: 'action' },
  ],
  none: 'They find nothing.',
}
