import { type Command, Option } from 'commander'
import type { GuardRule } from '../../../shared/wire/guard-rules.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { opposed } from '../../input/exclusive-flags.ts'
import { addFromFileOption, type Fields, readFields, withFlags } from '../../input/from-file.ts'
import { repeatable } from '../../input/repeatable.ts'
import { RULE_MEMBERS } from './view.ts'

const KINDS: Record<GuardRule['kind'], true> = { dlp: true, pii: true }
const VALIDATORS: Record<NonNullable<GuardRule['validator']>, true> = { luhn: true, iban: true, entropy: true }
const SEVERITIES: Record<GuardRule['severity'], true> = { low: true, medium: true, high: true, critical: true }
const DIRECTIONS: Record<GuardRule['direction'], true> = { both: true, input: true, output: true }
const ACTIONS: Record<GuardRule['action'], true> = { log: true, mask: true, remove: true, tokenize: true, block: true }

export type RuleFlags = {
  kind?: string
  detector?: string
  description?: string
  pattern?: string
  word: string[]
  caseSensitive?: boolean
  maxChars?: string
  validator?: string
  severity?: string
  direction?: string
  action?: string
  enabled?: boolean
  simulate?: boolean
  fromFile?: string
}

/** What may be said about a rule, new or old; `--no-…` is for what was switched on before. */
export const addRuleOptions = (command: Command): Command =>
  addFromFileOption(
    opposed(
      command
        .addOption(new Option('--kind <kind>', 'what its incidents are').choices(Object.keys(KINDS)))
        .option(
          '--detector <name>',
          'regex, keywords, dictionary, or one that is built in: builtin:secrets, builtin:EMAIL',
        )
        .option('-d, --description <text>', 'what it is for')
        .option('--pattern <regex>', 'of the detector regex, in the syntax of RE2')
        .addOption(repeatable(new Option('--word <text>', 'of keywords and dictionary; repeatable, replaces the list')))
        .option('--case-sensitive', 'capitals count')
        .option('--no-case-sensitive', 'capitals do not count')
        .option('--max-chars <n>', 'how long a match of the pattern may be')
        .addOption(
          new Option('--validator <name>', 'what a match must pass besides').choices([
            ...Object.keys(VALIDATORS),
            'none',
          ]),
        )
        .addOption(new Option('--severity <severity>', 'of its incidents').choices(Object.keys(SEVERITIES)))
        .addOption(new Option('--direction <direction>', 'which texts it looks at').choices(Object.keys(DIRECTIONS)))
        .addOption(new Option('--action <action>', 'what is done about it').choices(Object.keys(ACTIONS)))
        .option('--enabled', 'it looks')
        .option('--no-enabled', 'it does not, for now')
        .option('--simulate', 'what it finds is recorded, and nothing else is done')
        .option('--no-simulate', 'its action is taken'),
      'case-sensitive',
      'enabled',
      'simulate',
    ),
  )

/** What flags and file say of a rule, and nothing else; flags win. Throws a usage error for what cannot be meant. */
export async function readRule(context: CliContext, flags: RuleFlags): Promise<Fields> {
  const { kind, detector, description, pattern, word, severity, direction, action } = flags
  const { caseSensitive, enabled, simulate, validator, maxChars } = flags
  const file = await readFields(context, flags.fromFile, RULE_MEMBERS)
  return withFlags(file, {
    ...{ kind, detector, description, pattern, severity, direction, action, caseSensitive, enabled, simulate },
    words: word.length === 0 ? undefined : word,
    validator: validator === 'none' ? null : validator,
    maxChars: maxChars === undefined ? undefined : toCount(maxChars),
  })
}

function toCount(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw usageError(`--max-chars must be a whole number, not '${text}'`)
}
