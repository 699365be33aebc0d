import { Command, Option } from 'commander'
import type { Group } from '../../../shared/wire/groups.ts'
import type { CliContext } from '../../context.ts'
import { addListOptions, type ListFlags, type ListInput, listAll, toListInput } from '../../resources/listing.ts'
import { GROUPS } from '../../resources/resources.ts'
import { GROUP_LIST, GROUP_STATUSES } from './view.ts'

export type ListGroupsInput = ListInput & { status: string | undefined }

export function listCommand(context: CliContext, run = listGroups): Command {
  const command = new Command('list')
    .description('List groups, the newest first.')
    .addOption(new Option('--status <status>', 'only those').choices(GROUP_STATUSES))
  return addListOptions(command, 'their name or description').action((flags: ListFlags & { status?: string }) =>
    run(context, { ...toListInput(flags), status: flags.status }),
  )
}

/** GET /groups, page by page. */
export async function listGroups(context: CliContext, input: ListGroupsInput): Promise<void> {
  const { search, status, limit, all } = input
  const { path, itemsKey } = GROUPS
  await listAll<Group>(context, { path, itemsKey, query: { search, status }, limit, all, view: GROUP_LIST })
}
