import { Command, Option } from 'commander'
import type { ApiKey } from '../../../shared/wire/keys.ts'
import type { CliContext } from '../../context.ts'
import { addListOptions, type ListFlags, type ListInput, listAll, toListInput } from '../../resources/listing.ts'
import { toId } from '../../resources/resolve.ts'
import { KEYS, USERS } from '../../resources/resources.ts'
import { KEY_LIST_VIEW } from './view.ts'

const STATUSES: Record<ApiKey['status'], true> = { active: true, expired: true, revoked: true }

type KeyFilter = { user?: string; status?: string }
export type ListKeysInput = ListInput & KeyFilter

export function listCommand(context: CliContext, run = listKeys): Command {
  const command = new Command('list')
    .description('List API keys; never their secrets.')
    .option('--user <user>', 'only those of this user: id, email, username or name')
    .addOption(new Option('--status <status>', 'only these').choices(Object.keys(STATUSES)))
  return addListOptions(command, 'their name').action((flags: ListFlags & KeyFilter) =>
    run(context, { ...flags, ...toListInput(flags) }),
  )
}

/** GET /api/admin/api-keys, page by page. Throws exit 3 for a name or email that no user has. */
export async function listKeys(
  context: CliContext,
  { search, user, status, limit, all }: ListKeysInput,
): Promise<void> {
  const userId = user === undefined ? undefined : await toId(context, USERS, user)
  await listAll<ApiKey>(context, { ...KEYS, query: { search, status, userId }, limit, all, view: KEY_LIST_VIEW })
}
