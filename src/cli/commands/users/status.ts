import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { USERS } from '../../resources/resources.ts'
import { update } from '../../resources/update.ts'
import { USER_ARGUMENT } from './show.ts'
import { USER_STATUS, USER_VIEW } from './view.ts'

type SetStatusInput = { user: string; status: keyof typeof USER_STATUS }

export function disableCommand(context: CliContext, run = setUserStatus): Command {
  return new Command('disable')
    .description('Deactivate a user: none of their keys is accepted any more. Nothing is lost.')
    .argument('<user>', USER_ARGUMENT)
    .action((user: string) => run(context, { user, status: 'inactive' }))
}

export function enableCommand(context: CliContext, run = setUserStatus): Command {
  return new Command('enable')
    .description('Activate a user again; their keys are accepted as before.')
    .argument('<user>', USER_ARGUMENT)
    .action((user: string) => run(context, { user, status: 'active' }))
}

/** PUT /users/{id}; a user who is in that state already stays in it. */
export async function setUserStatus(context: CliContext, { user, status }: SetStatusInput): Promise<void> {
  await update(context, { resource: USERS, given: user, changes: { status: USER_STATUS[status] }, view: USER_VIEW })
}
