/** Manages groups. */
import type { Group } from '../../../shared/wire/groups.ts'
import type { CliContext } from '../../context.ts'
import { field } from '../../input/fields.ts'
import { type Fields, isObject, textsIn } from '../../input/from-file.ts'
import { toIds } from '../../resources/resolve.ts'
import { createVerb, deleteVerb, listVerb, showVerb, updateVerb } from '../../resources/verbs.ts'
import { USERS } from '../users/resource.ts'
import { GROUP_MEMBERS, GROUPS } from './resource.ts'

const choices = ['Active', 'Inactive'] as const satisfies Group['status'][]
const status = { member: 'status', flag: '--status <status>', choices, isText: true } as const
const description = { member: 'description', flag: '-d, --description <text>', isText: true } as const

export const commands = {
  create: createVerb(GROUPS, {
    description: 'Create a group. On a terminal, missing values are prompted for.',
    fields: [
      { member: 'name', flag: '[name]', help: 'name of the group', ask: 'Name of the group:' },
      { ...description, help: 'who is in it and why', ask: 'Description:' },
      field('users', '--user <user>', `a member: ${USERS.argument}; repeatable`, { isList: true, isText: true }),
      { ...status, help: 'status' },
    ],
    file: GROUP_MEMBERS,
    help: 'Example:\n  aigw groups create support -d "Tier 1" --user ada@example.com --if-not-exists',
    toRequest: withMemberIds,
    toComparable: (group) => ({ ...group, users: group.users.map(({ id }) => id) }),
  }),
  list: listVerb(GROUPS, {
    description: 'List groups, the newest first.',
    fields: [{ ...status, help: 'only those with this status' }],
    searched: 'their name or description',
  }),
  show: showVerb(GROUPS, 'Show a group and its members.'),
  update: updateVerb(GROUPS, {
    description: 'Change the named fields of a group; other fields stay.',
    fields: [
      { member: 'name', flag: '--name <name>', help: 'new name', isText: true },
      { ...description, help: 'new description' },
      { ...status, help: 'new status' },
    ],
    file: GROUP_MEMBERS,
    help: 'Members:  aigw groups members add|remove. `users` in a file replaces all of them.',
    toChange: async (context, input) => ({ changes: await withMemberIds(context, input) }),
  }),
  delete: deleteVerb(GROUPS, { description: 'Delete a group. Its members stay.' }),
}

/** Replaces each user object by the user's id, because files made from the output of `show` contain user objects. */
async function withMemberIds(context: CliContext, input: Fields): Promise<Fields> {
  const { users: given } = input
  const users = Array.isArray(given)
    ? given.map((user: unknown) => (isObject(user) ? Reflect.get(user, 'id') : user))
    : given
  const named = textsIn({ users }, 'users')
  return { ...input, users: named && (await toIds(context, USERS, named)) }
}
