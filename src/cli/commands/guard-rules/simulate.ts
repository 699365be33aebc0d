/** Tests guard rules on a text. */
import { Command } from 'commander'
import type { z } from 'zod'
import type { GuardRule, SimulateGuardRulesResponse } from '../../../shared/wire/guard-rules.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { addFields, parseFlags } from '../../input/fields.ts'
import { type Fields, readFields, withFlags } from '../../input/from-file.ts'
import { addTextArgument, readTextInput } from '../../input/text-input.ts'
import { columns } from '../../output/formats.ts'
import { addFromFileOption } from '../../resources/options.ts'
import { getItem } from '../../resources/resolve.ts'
import { RULE_FIELDS } from './fields.ts'
import { GUARD_RULES, RULE_MEMBERS } from './resource.ts'

type Flags = { rule?: string; fromFile?: string }

export function toCommand(context: CliContext): Command {
  const command = new Command('simulate').description(
    'Show what rules would find in a text; nothing is stored. By default, all rules of the tenant are applied, including\n' +
      'disabled ones.',
  )
  addTextArgument(command).option('--rule <rule>', `only this one: ${GUARD_RULES.argument}`)
  return addFromFileOption(addFields(command, RULE_FIELDS))
    .addHelpText(
      'after',
      '\nThe other flags describe a rule that does not exist yet, or with --rule change it for this run.\n\n' +
        "Example:\n  aigw guard-rules simulate --kind dlp --detector regex --pattern 'TCK-[0-9]{6}' mail.txt",
    )
    .action(async (file: string, flags: Flags) =>
      simulate(context, { ...flags, file, members: await parseFlags(context, RULE_FIELDS, command) }),
    )
}

/**
 * POST /api/admin/guard-rules/simulate. Prints positions in the text, never values. Throws an error with exit code 3
 * for an unknown rule.
 */
async function simulate(
  context: CliContext,
  { file, rule: given, fromFile, members }: Flags & { file: string; members: Fields },
): Promise<void> {
  if (file === '-' && fromFile === '-') throw usageError('text and rule cannot both come from stdin')
  const [api, output] = await Promise.all([context.api(), context.output()])
  const input = withFlags(await readFields(context, fromFile, RULE_MEMBERS), members)
  const rule = { ...(given === undefined ? {} : await documentOf(context, given)), ...input }
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

/** Returns an existing rule with only the members that a request is allowed to set. */
async function documentOf(context: CliContext, given: string): Promise<object> {
  const { item } = await getItem<GuardRule>(context, GUARD_RULES, given)
  const isSettable = ([name]: [string, unknown]) => name !== 'name' && Reflect.get(RULE_MEMBERS, name) === true
  return Object.fromEntries(Object.entries(item).filter(isSettable))
}

const VIEW = {
  columns: columns({
    RULE: 'ruleId',
    TYPE: 'type',
    START: 'start',
    END: 'end',
    CONFIDENCE: 'confidence',
    ACTION: 'action',
  }),
  none: 'No matches.',
}
