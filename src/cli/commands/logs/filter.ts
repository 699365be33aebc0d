import { usageError } from '../../errors.ts'
import type { Field } from '../../input/fields.ts'
import { idOf } from '../../resources/verbs.ts'
import { KEYS } from '../keys/resource.ts'
import { USERS } from '../users/resource.ts'

/** Which entries; `list` and `tail` take the same. */
export const FILTERS: Field[] = [
  {
    ...{ member: 'type', flag: '-e, --event <type>' },
    help: 'only these: api_access, user_management, key_management …',
  },
  { member: 'status', flag: '--status <status>', help: 'only requests with this status: 404, 4xx', parse: toStatus },
  { member: 'outcome', flag: '--outcome <outcome>', help: 'only these', choices: ['success', 'denied', 'failure'] },
  {
    ...{ member: 'severity', flag: '--severity <severity>', help: 'only these' },
    choices: ['info', 'warning', 'error', 'critical'],
  },
  { member: 'model', flag: '-m, --model <model>', help: 'only requests that this model served' },
  {
    ...{ member: 'apiKeyId', flag: '--key <key>', resolve: idOf(KEYS) },
    help: `only those of this API key: ${KEYS.argument}`,
  },
  {
    ...{ member: 'userId', flag: '--user <user>', resolve: idOf(USERS) },
    help: `only those of this user: ${USERS.argument}`,
  },
  { member: 'operation', flag: '--operation <operation>', help: 'only these: chat.completion, create, revoke …' },
  { member: 'search', flag: '--search <text>', help: 'only those with this in description, operation or endpoint' },
]

function toStatus(text: string, flag: string): string {
  if (/^[1-5](\d\d|xx)$/i.test(text)) return text.toLowerCase()
  throw usageError(`${flag} must be a status, not '${text}'`, ['Write 404, 4xx or 5xx.'])
}
