import { type Command, Option } from 'commander'
import type { Index } from '../../../shared/wire/indexes.ts'
import type { CliContext } from '../../context.ts'
import { toId } from '../../resources/resolve.ts'
import { GROUPS, USERS } from '../../resources/resources.ts'

export type OwnerFlags = { user?: string; group?: string }

/** Whose an index may be. */
export const addOwnerOptions = (command: Command): Command =>
  command
    .addOption(
      new Option('--user <user>', 'only this user may read it: id, email, username or name').conflicts('group'),
    )
    .addOption(new Option('--group <group>', 'only members of this group may read it, by name or id'))

/** The flags as members of a request. Throws exit 3 for a user or a group that there is not. */
export async function toOwner(context: CliContext, { user, group }: OwnerFlags): Promise<object> {
  return {
    ...(user !== undefined && { assignedUser: await toId(context, USERS, user) }),
    ...(group !== undefined && { assignedGroup: await toId(context, GROUPS, group) }),
  }
}

/** An index in the form of a request. */
export const toAsked = (index: Partial<Index>): object => ({
  ...index,
  assignedUser: index.assignedUser?.id ?? null,
  assignedGroup: index.assignedGroup?.id ?? null,
})
