/** Adds and removes members of a group. */
import { Command } from 'commander'
import type { Group, UserReference } from '../../../shared/wire/groups.ts'
import type { CliContext, CommandFactory } from '../../context.ts'
import { getItem, itemIn, itemPath, showFound, toIds } from '../../resources/resolve.ts'
import { USERS } from '../users/resource.ts'
import { GROUPS } from './resource.ts'

type Change = (context: CliContext, members: UserReference[], users: string[]) => Promise<string[]>

const memberVerb =
  (name: string, description: string, toMembers: Change): CommandFactory =>
  (context) =>
    new Command(name)
      .description(description)
      .argument('<group>', GROUPS.argument)
      .argument('<user...>', USERS.argument)
      // The API accepts only the whole list of members, so a change reads the current list first.
      .addHelpText('after', '\nTwo changes of one group at the same moment may overwrite each other.')
      .action((group: string, users: string[]) =>
        changeMembers(context, group, (now) => toMembers(context, now, users)),
      )

export const commands = {
  add: memberVerb('add', 'Add users to a group. Existing members stay.', addMembers),
  remove: memberVerb('remove', 'Remove users from a group. The users stay.', removeMembers),
}

/** If any user is unknown, adds no user and throws an error with exit code 3. */
async function addMembers(context: CliContext, members: UserReference[], users: string[]): Promise<string[]> {
  return [...new Set([...members.map(({ id }) => id), ...(await toIds(context, USERS, users))])]
}

/** Throws an error with exit code 3 for an unknown name or email. */
async function removeMembers(context: CliContext, members: UserReference[], users: string[]): Promise<string[]> {
  const removed = new Set<string>()
  for (const user of users) {
    const member = members.find(({ id, email }) => [id, email].includes(user.toLowerCase()))
    for (const id of member === undefined ? await toIds(context, USERS, [user]) : [member.id]) removed.add(id)
  }
  return members.map(({ id }) => id).filter((id) => !removed.has(id))
}

/** Sends all members with PUT /groups/{id}. Throws an error with exit code 3 for an unknown group. */
async function changeMembers(
  context: CliContext,
  group: string,
  toMembers: (now: UserReference[]) => Promise<string[]>,
): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { view } = GROUPS
  output.assertShowable(view)
  const found = await getItem(context, GROUPS, group)
  const { item } = found
  const users = await toMembers(item.users)
  // A change only adds or only removes members, so if the length is equal, nothing changed.
  if (users.length === item.users.length) {
    await context.note(`note: nothing to change in group '${item.name}'`)
    return showFound(context, GROUPS, found)
  }
  const { body, raw } = await api.send({ method: 'PUT', path: itemPath(GROUPS, item.id), json: { users } })
  await output.one(itemIn<Group>(body, GROUPS.itemKey, api.baseUrl), view, raw)
}
