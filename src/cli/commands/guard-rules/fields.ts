import type { GuardRule } from '../../../shared/wire/guard-rules.ts'
import { type Field, field } from '../../input/fields.ts'
import { toWholeNumber } from '../../input/numbers.ts'

const KINDS: Record<GuardRule['kind'], true> = { dlp: true, pii: true }
const VALIDATORS: Record<NonNullable<GuardRule['validator']>, true> = { luhn: true, iban: true, entropy: true }
const SEVERITIES: Record<GuardRule['severity'], true> = { low: true, medium: true, high: true, critical: true }
const DIRECTIONS: Record<GuardRule['direction'], true> = { both: true, input: true, output: true }
const ACTIONS: Record<GuardRule['action'], true> = { log: true, mask: true, remove: true, tokenize: true, block: true }

const severity = { member: 'severity', choices: Object.keys(SEVERITIES) }
const direction = { member: 'direction', choices: Object.keys(DIRECTIONS) }

/** The flags for the fields of a rule. Create, update and simulate share them. */
export const RULE_FIELDS: Field[] = [
  { member: 'kind', flag: '--kind <kind>', help: 'the kind of its incidents', choices: Object.keys(KINDS) },
  {
    ...{ member: 'detector', flag: '--detector <name>' },
    help: 'regex, keywords, dictionary, or a built-in one: builtin:secrets, builtin:EMAIL',
  },
  { member: 'description', flag: '-d, --description <text>', help: 'its purpose' },
  { member: 'pattern', flag: '--pattern <regex>', help: 'pattern of the detector regex, in RE2 syntax' },
  field('words', '--word <text>', 'word of keywords and dictionary; repeatable, replaces the list', { isList: true }),
  { member: 'caseSensitive', flag: '--case-sensitive', help: 'match upper and lower case exactly' },
  { member: 'caseSensitive', flag: '--no-case-sensitive', help: 'ignore upper and lower case' },
  { member: 'maxChars', flag: '--max-chars <n>', help: 'the longest match of the pattern', parse: toCount },
  field('validator', '--validator <name>', 'an additional check of each match', {
    choices: [...Object.keys(VALIDATORS), 'none'],
    parse: (text) => (text === 'none' ? null : text),
  }),
  { ...severity, flag: '--severity <severity>', help: 'severity of its incidents' },
  { ...direction, flag: '--direction <direction>', help: 'texts that it scans' },
  { member: 'action', flag: '--action <action>', help: 'action on a match', choices: Object.keys(ACTIONS) },
  { member: 'enabled', flag: '--enabled', help: 'enable it' },
  { member: 'enabled', flag: '--no-enabled', help: 'disable it' },
  { member: 'simulate', flag: '--simulate', help: 'only record matches' },
  { member: 'simulate', flag: '--no-simulate', help: 'take its action' },
]

function toCount(text: string, flag: string): number {
  return toWholeNumber(text, flag, { min: 0 })
}
