import type { GuardRule } from '../../../shared/wire/guard-rules.ts'
import { usageError } from '../../errors.ts'
import type { Field } from '../../input/fields.ts'

const KINDS: Record<GuardRule['kind'], true> = { dlp: true, pii: true }
const VALIDATORS: Record<NonNullable<GuardRule['validator']>, true> = { luhn: true, iban: true, entropy: true }
const SEVERITIES: Record<GuardRule['severity'], true> = { low: true, medium: true, high: true, critical: true }
const DIRECTIONS: Record<GuardRule['direction'], true> = { both: true, input: true, output: true }
const ACTIONS: Record<GuardRule['action'], true> = { log: true, mask: true, remove: true, tokenize: true, block: true }

const severity = { member: 'severity', choices: Object.keys(SEVERITIES) }
const direction = { member: 'direction', choices: Object.keys(DIRECTIONS) }

/** The flags of a rule, new or old; `--no-…` switches off what was on. */
export const RULE_FIELDS: Field[] = [
  { member: 'kind', flag: '--kind <kind>', help: 'what its incidents are', choices: Object.keys(KINDS) },
  {
    ...{ member: 'detector', flag: '--detector <name>' },
    help: 'regex, keywords, dictionary, or one that is built in: builtin:secrets, builtin:EMAIL',
  },
  { member: 'description', flag: '-d, --description <text>', help: 'its purpose' },
  { member: 'pattern', flag: '--pattern <regex>', help: 'of the detector regex, in the syntax of RE2' },
  {
    ...{ member: 'words', flag: '--word <text>', isList: true },
    help: 'of keywords and dictionary; repeatable, replaces the list',
  },
  { member: 'caseSensitive', flag: '--case-sensitive', help: 'capitals count' },
  { member: 'caseSensitive', flag: '--no-case-sensitive', help: 'capitals do not count' },
  { member: 'maxChars', flag: '--max-chars <n>', help: 'the longest match of the pattern', parse: toCount },
  {
    ...{ member: 'validator', flag: '--validator <name>', choices: [...Object.keys(VALIDATORS), 'none'] },
    ...{ help: 'an additional check of each match', parse: orNull },
  },
  { ...severity, flag: '--severity <severity>', help: 'of its incidents' },
  { ...direction, flag: '--direction <direction>', help: 'which texts it looks at' },
  { member: 'action', flag: '--action <action>', help: 'what is done about a match', choices: Object.keys(ACTIONS) },
  { member: 'enabled', flag: '--enabled', help: 'switched on' },
  { member: 'enabled', flag: '--no-enabled', help: 'switched off for now' },
  { member: 'simulate', flag: '--simulate', help: 'matches are recorded, and nothing else is done' },
  { member: 'simulate', flag: '--no-simulate', help: 'its action is taken' },
]

function orNull(text: string): string | null {
  return text === 'none' ? null : text
}

function toCount(text: string, flag: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw usageError(`${flag} must be a whole number, not '${text}'`)
}
