import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { showItem } from '../../resources/resolve.ts'
import { USERS } from '../../resources/resources.ts'
import { USER_VIEW } from './view.ts'

export const USER_ARGUMENT = 'id, email, username or name'

export function showCommand(context: CliContext, run = showUser): Command {
  return new Command('show')
    .description('Show a user.')
    .argument('<user>', USER_ARGUMENT)
    .action((user: string) => run(context, { user }))
}

/** GET /users/{id}. */
export const showUser = (context: CliContext, { user }: { user: string }): Promise<void> =>
  showItem(context, { resource: USERS, given: user, view: USER_VIEW })
