import { Command } from 'commander'
import type { Group, UserReference } from '../../../shared/wire/groups.ts'
import type { CliContext } from '../../context.ts'
import { getItem, itemIn, itemPath, showFound, toIds } from '../../resources/resolve.ts'
import { GROUPS, USERS } from '../../resources/resources.ts'
import { GROUP_VIEW } from './view.ts'

export type MembersInput = { group: string; users: string[] }

// The API takes the list of all members only, so a change reads the list first.
const AT_ONCE = '\nOf two changes to one group at the same moment, the later one may undo the other.'

export function addCommand(context: CliContext, run = addMembers): Command {
  return new Command('add')
    .description('Add users to a group. Who is a member already stays one.')
    .argument('<group>', 'name or id')
    .argument('<user...>', 'id, email, username or name')
    .addHelpText('after', AT_ONCE)
    .action((group: string, users: string[]) => run(context, { group, users }))
}

export function removeCommand(context: CliContext, run = removeMembers): Command {
  return new Command('remove')
    .description('Take users out of a group. The users stay.')
    .argument('<group>', 'name or id')
    .argument('<user...>', 'id, email, username or name')
    .addHelpText('after', AT_ONCE)
    .action((group: string, users: string[]) => run(context, { group, users }))
}

/** Prints the group. Throws exit 3 for a group or a user that does not exist; then nobody is added. */
export async function addMembers(context: CliContext, { group, users }: MembersInput): Promise<void> {
  const added = await toIds(context, USERS, users)
  await changeMembers(context, group, async (members) => [...new Set([...members.map(({ id }) => id), ...added])])
}

/** Prints the group. Throws exit 3 for a group that does not exist, and for a name or email that nobody has. */
export async function removeMembers(context: CliContext, { group, users }: MembersInput): Promise<void> {
  await changeMembers(context, group, async (members) => {
    const removed = new Set<string>()
    for (const user of users) {
      const member = members.find(({ id, email }) => [id, email].includes(user.toLowerCase()))
      for (const id of member === undefined ? await toIds(context, USERS, [user]) : [member.id]) removed.add(id)
    }
    return members.map(({ id }) => id).filter((id) => !removed.has(id))
  })
}

async function changeMembers(
  context: CliContext,
  group: string,
  toMembers: (now: UserReference[]) => Promise<string[]>,
): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  output.assertShowable(GROUP_VIEW)
  const found = await getItem(context, GROUPS, group)
  const { item } = found
  const users = await toMembers(item.users)
  // Members are only ever added, or only taken out.
  if (users.length === item.users.length) {
    await context.note(`note: nothing to change in group '${item.name}'`)
    return showFound(context, { resource: GROUPS, found, view: GROUP_VIEW })
  }
  const { body, raw } = await api.send({ method: 'PUT', path: itemPath(GROUPS, item.id), json: { users } })
  await output.one(itemIn<Group>(body, GROUPS.itemKey, api.baseUrl), GROUP_VIEW, raw)
}
