import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { addRemoveOptions, type RemoveFlags, remove } from '../../resources/removal.ts'
import { POLICIES } from '../../resources/resources.ts'
import { POLICY_ARGUMENT } from './view.ts'

export type DeletePolicyInput = RemoveFlags & { policy: string }

export function deleteCommand(context: CliContext, run = deletePolicy): Command {
  const command = new Command('delete')
    .description('Delete a policy that is not active and that no key names.')
    .argument('<policy>', POLICY_ARGUMENT)
  return addRemoveOptions(command, POLICIES.noun).action((policy: string, flags: RemoveFlags) =>
    run(context, { policy, ...flags }),
  )
}

/** Asks first. Throws exit 3 for a policy that does not exist, unless `ignoreNotFound`; exit 6 for one in use. */
export const deletePolicy = (context: CliContext, { policy, ignoreNotFound }: DeletePolicyInput): Promise<void> =>
  remove(context, {
    resource: POLICIES,
    given: policy,
    ignoreNotFound,
    question: `Delete policy '${policy}'?`,
  })
