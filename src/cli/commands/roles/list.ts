import { Command, Option } from 'commander'
import type { Role } from '../../../shared/wire/roles.ts'
import type { CliContext } from '../../context.ts'
import { addListOptions, type ListFlags, type ListInput, listAll, toListInput } from '../../resources/listing.ts'
import { ROLES } from '../../resources/resources.ts'
import { ROLE_LIST } from './view.ts'

type RoleListFlags = ListFlags & { system?: true; custom?: true }

export type ListRolesInput = ListInput & { isSystem: 'true' | 'false' | undefined }

export function listCommand(context: CliContext, run = listRoles): Command {
  const command = new Command('list')
    .description('List roles, the newest first.')
    .addOption(new Option('--system', 'only those that every tenant has').conflicts('custom'))
    .addOption(new Option('--custom', 'only your own'))
  return addListOptions(command, 'their name, display name or description').action((flags: RoleListFlags) =>
    run(context, { ...toListInput(flags), isSystem: flags.system ? 'true' : flags.custom ? 'false' : undefined }),
  )
}

/** GET /roles, page by page. */
export async function listRoles(context: CliContext, input: ListRolesInput): Promise<void> {
  const { search, isSystem, limit, all } = input
  const { path, itemsKey } = ROLES
  await listAll<Role>(context, { path, itemsKey, query: { search, isSystem }, limit, all, view: ROLE_LIST })
}
