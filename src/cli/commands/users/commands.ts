/** Manages users. */
import { SYSTEM_ROLES } from '../../../shared/permissions.ts'
import type { License, User } from '../../../shared/wire/users.ts'
import { usageError } from '../../errors.ts'
import { type Field, field } from '../../input/fields.ts'
import { findOne } from '../../resources/listing.ts'
import { createVerb, deleteVerb, idOf, listVerb, setVerb, showVerb, updateVerb } from '../../resources/verbs.ts'
import { ROLES } from '../roles/resource.ts'
import { USER_MEMBERS, USER_STATUS, USERS } from './resource.ts'

const LICENSES: Record<License, true> = { Essential: true, Growth: true, Ultra: true, 'Early Access': true }
const LICENSE_CHOICES = Object.keys(LICENSES)
const AUTH_TYPES: Record<User['authType'], true> = { basic: true, enterprise: true }

const email = { member: 'email', flag: '--email <address>', help: 'email address' }
const role = { member: 'role', flag: '--role <role>', choices: SYSTEM_ROLES }
const license = { member: 'license', flag: '--license <licence>', parse: toLicense }

/** The fields of create and update. */
const FIELDS: Field[] = [
  { member: 'username', flag: '--username <name>', help: '3 to 30 of a-z, 0-9, "." and "-"', parse: toStoredForm },
  { ...role, help: 'system role' },
  { ...license, help: LICENSE_CHOICES.join(', ') },
  field('roleId', '--custom-role <role>', 'custom role in addition to the system role, by name or id', {
    resolve: idOf(ROLES),
  }),
  { member: 'roleId', flag: '--role-id <id>', help: 'the same', conflicts: 'customRole' },
  field('usageByModel.enabled', '--usage-by-model <switch>', 'whether usage may be billed in dollars per token', {
    choices: ['on', 'off'],
    parse: isOn,
  }),
  field('usageByModel.dollarLimit', '--dollar-limit <dollars>', "the highest cost in a UTC month, or 'none'", {
    parse: toDollars,
  }),
]

export const commands = {
  create: createVerb(USERS, {
    description: 'Create a user. Users do not sign in; they work with keys (aigw keys create --user USER).',
    fields: [
      { member: 'name', flag: '[name]', help: 'full name', ask: 'Full name:' },
      { ...email, parse: toStoredForm, ask: 'Email:' },
      field('authType', '--auth-type <type>', 'enterprise users are verified at once', {
        choices: Object.keys(AUTH_TYPES),
      }),
      ...FIELDS,
    ],
    file: { ...USER_MEMBERS, roleId: true, authType: true },
    key: 'email',
    find: (context, address) =>
      findOne<User>(context, { ...USERS, search: address, matches: (user) => user.email === address }),
    toComparable: (user) => ({ ...user, roleId: user.customRole?.id ?? null }),
    isAboutName: ({ code }) => /^email/i.test(code),
  }),
  list: listVerb(USERS, {
    description: 'List users.',
    fields: [
      { ...role, help: 'only those with this role' },
      { ...license, help: 'only those with this licence' },
      field('status', '--status <status>', 'only these', { choices: Object.keys(USER_STATUS), parse: toStatus }),
    ],
    searched: 'name, email or username',
  }),
  show: showVerb(USERS, 'Show a user.'),
  update: updateVerb(USERS, {
    description: 'Change the named fields of a user; other fields stay.',
    fields: [
      { member: 'name', flag: '--name <text>', help: 'full name' },
      email,
      ...FIELDS,
      field('roleId', '--no-custom-role', 'remove the custom role', { sets: { roleId: null }, conflicts: 'roleId' }),
    ],
    file: { ...USER_MEMBERS, roleId: true, status: true, isVerified: true },
  }),
  disable: setVerb(USERS, {
    name: 'disable',
    description: 'Deactivate a user: all of their keys are rejected. Nothing is deleted.',
    changes: { status: USER_STATUS.inactive },
  }),
  enable: setVerb(USERS, {
    name: 'enable',
    description: 'Activate a user again; their keys are accepted as before.',
    changes: { status: USER_STATUS.active },
  }),
  delete: deleteVerb(USERS, {
    description: 'Delete a user and their keys. To stop the keys alone:  aigw users disable USER',
    question: (user) => `Delete user '${user}' and all of their keys?`,
  }),
}

function isOn(text: string): boolean {
  return text === 'on'
}

function toStatus(text: string): unknown {
  return Reflect.get(USER_STATUS, text)
}

/** Normalises an email or username as the gateway does. */
function toStoredForm(text: string): string {
  return text.trim().toLowerCase()
}

/** Returns the exact spelling of a licence. Throws a usage error for an unknown licence. */
function toLicense(text: string): string {
  const known = LICENSE_CHOICES.find((choice) => choice.toLowerCase() === text.toLowerCase())
  if (known !== undefined) return known
  throw usageError(`there is no licence '${text}'`, [`Licences:  ${LICENSE_CHOICES.join(', ')}`])
}

/** The gateway validates the range. */
function toDollars(text: string, flag: string): number | null {
  if (text === 'none') return null
  if (/^\d{1,9}(\.\d{1,9})?$/.test(text)) return Number(text)
  throw usageError(`${flag} must be dollars such as 25 or 12.50, or 'none', not '${text}'`)
}
