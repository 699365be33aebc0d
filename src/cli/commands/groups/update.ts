import { Command, Option } from 'commander'
import type { CliContext } from '../../context.ts'
import {
  addFromFileOption,
  type Fields,
  isObject,
  readChanges,
  shownOnly,
  textIn,
  textsIn,
} from '../../input/from-file.ts'
import { toIds } from '../../resources/resolve.ts'
import { GROUPS, USERS } from '../../resources/resources.ts'
import { update } from '../../resources/update.ts'
import { GROUP_MEMBERS, GROUP_STATUSES, GROUP_VIEW } from './view.ts'

type UpdateFlags = { name?: string; description?: string; status?: string; fromFile?: string }

export type UpdateGroupInput = UpdateFlags & { group: string }

export function updateCommand(context: CliContext, run = updateGroup): Command {
  const command = new Command('update')
    .description('Change what you name about a group; the rest stays as it is.')
    .argument('<group>', 'name or id')
    .option('--name <name>', 'new name')
    .option('-d, --description <text>', 'new description')
    .addOption(new Option('--status <status>', 'new status').choices(GROUP_STATUSES))
  return addFromFileOption(command)
    .addHelpText('after', '\nMembers:  aigw groups members add|remove. `users` in a file replaces all of them.')
    .action((group: string, flags: UpdateFlags) => run(context, { group, ...flags }))
}

/** PUT /groups/{groupId} with what was named. Throws exit 3 for a group that does not exist, exit 6 for a taken name. */
export async function updateGroup(context: CliContext, input: UpdateGroupInput): Promise<void> {
  const fields = withUserIds(await readChanges(context, input.fromFile, GROUP_MEMBERS))
  const users = textsIn(fields, 'users')
  const changes = {
    ...shownOnly(fields, GROUP_MEMBERS),
    name: input.name ?? textIn(fields, 'name'),
    description: input.description ?? textIn(fields, 'description'),
    status: input.status ?? textIn(fields, 'status'),
    users: users && (await toIds(context, USERS, users)),
  }
  await update(context, { resource: GROUPS, given: input.group, changes, view: GROUP_VIEW })
}

/** A group is shown with its users as objects, and takes their ids. */
function withUserIds(fields: Fields): Fields {
  const { users } = fields
  if (!Array.isArray(users)) return fields
  return { ...fields, users: users.map((user: unknown) => (isObject(user) ? Reflect.get(user, 'id') : user)) }
}
