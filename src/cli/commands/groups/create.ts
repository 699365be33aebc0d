import { Command, Option } from 'commander'
import type { Group } from '../../../shared/wire/groups.ts'
import type { CliContext } from '../../context.ts'
import { addFromFileOption, readFields, textIn, textsIn } from '../../input/from-file.ts'
import { askMissing } from '../../input/prompt.ts'
import { repeatable } from '../../input/repeatable.ts'
import { addCreateOptions, type CreateFlags, createOrFind } from '../../resources/creation.ts'
import { findNamed, toIds } from '../../resources/resolve.ts'
import { GROUPS, USERS } from '../../resources/resources.ts'
import { GROUP_MEMBERS, GROUP_STATUSES, GROUP_VIEW } from './view.ts'

type GroupFlags = CreateFlags & { description?: string; user: string[]; status?: string; fromFile?: string }

export type CreateGroupInput = GroupFlags & { name: string | undefined }

export function createCommand(context: CliContext, run = createGroup): Command {
  const command = new Command('create')
    .description('Create a group. On a terminal, what is missing is asked for.')
    .argument('[name]', 'name of the group')
    .option('-d, --description <text>', 'whom it holds and what for')
    .addOption(repeatable(new Option('--user <user>', 'a member: id, email, username or name; repeatable')))
    .addOption(new Option('--status <status>', 'status').choices(GROUP_STATUSES))
  addFromFileOption(addCreateOptions(command))
  return command
    .addHelpText('after', '\nExample:\n  aigw groups create support -d "Tier 1" --user ada@example.com --if-not-exists')
    .action((name: string | undefined, flags: GroupFlags) => run(context, { name, ...flags }))
}

/** POST /groups. Throws exit 6 for a name that is taken, unless `ifNotExists`; exit 3 for a user who does not exist. */
export async function createGroup(context: CliContext, input: CreateGroupInput): Promise<void> {
  const fields = await readFields(context, input.fromFile, GROUP_MEMBERS)
  const users = input.user.length > 0 ? input.user : textsIn(fields, 'users')
  const name = await askMissing(
    context,
    { flag: 'NAME', message: 'Name of the group:' },
    input.name ?? textIn(fields, 'name'),
  )
  const wanted = {
    description: await askMissing(
      context,
      { flag: '--description', message: 'Description:' },
      input.description ?? textIn(fields, 'description'),
    ),
    users: users && (await toIds(context, USERS, users)),
    status: input.status ?? textIn(fields, 'status'),
  }
  await createOrFind<Group>(context, {
    request: { method: 'POST', path: GROUPS.path, json: { name, ...wanted } },
    itemKey: GROUPS.itemKey,
    noun: GROUPS.noun,
    name,
    ifNotExists: input.ifNotExists,
    strict: input.strict,
    find: () => findNamed(context, GROUPS, name.trim()),
    wanted,
    toComparable: (group) => ({ ...group, users: group.users.map(({ id }) => id) }),
    view: GROUP_VIEW,
  })
}
