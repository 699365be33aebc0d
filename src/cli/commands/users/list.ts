import { Command, Option } from 'commander'
import { SYSTEM_ROLES } from '../../../shared/permissions.ts'
import type { User } from '../../../shared/wire/users.ts'
import type { CliContext } from '../../context.ts'
import { addListOptions, type ListFlags, type ListInput, listAll, toListInput } from '../../resources/listing.ts'
import { USERS } from '../../resources/resources.ts'
import { toLicense, USER_STATUS, USER_VIEW } from './view.ts'

type UserFilter = { role: string | undefined; license: string | undefined; status: number | undefined }
export type ListUsersInput = ListInput & UserFilter

type Flags = ListFlags & { role?: string; license?: string; status?: keyof typeof USER_STATUS }

export function listCommand(context: CliContext, run = listUsers): Command {
  const command = new Command('list')
    .description('List users.')
    .addOption(new Option('--role <role>', 'only those with this role').choices(SYSTEM_ROLES))
    .option('--license <licence>', 'only those with this licence')
    .addOption(new Option('--status <status>', 'only these').choices(Object.keys(USER_STATUS)))
  return addListOptions(command, 'name, email or username').action(({ role, license, status, ...flags }: Flags) =>
    run(context, {
      ...toListInput(flags),
      role,
      license: license === undefined ? undefined : toLicense(license),
      status: status === undefined ? undefined : USER_STATUS[status],
    }),
  )
}

/** GET /users, page by page. */
export const listUsers = (
  context: CliContext,
  { search, role, license, status, ...bounds }: ListUsersInput,
): Promise<void> =>
  listAll<User>(context, { ...USERS, query: { search, role, license, status }, ...bounds, view: USER_VIEW })
