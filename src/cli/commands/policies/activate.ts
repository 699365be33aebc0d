import { Command } from 'commander'
import type { Policy } from '../../../shared/wire/policies.ts'
import type { CliContext } from '../../context.ts'
import { itemIn, itemPath } from '../../resources/resolve.ts'
import { POLICIES } from '../../resources/resources.ts'
import { POLICY_ARGUMENT, POLICY_VIEW } from './view.ts'

export function activateCommand(context: CliContext, run = activatePolicy): Command {
  return new Command('activate')
    .description('Make a policy the active one: it governs requests that name none, by keys that have no default.')
    .argument('<policy>', POLICY_ARGUMENT)
    .action((policy: string) => run(context, policy))
}

/** POST /smltp-policies/{policyId}/activate. Throws exit 3 for a policy that does not exist. */
export async function activatePolicy(context: CliContext, given: string): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  output.assertShowable(POLICY_VIEW)
  const path = `${itemPath(POLICIES, given)}/activate`
  const { body, raw } = await api.send({ method: 'POST', path, repeatable: true })
  await output.one(itemIn<Policy>(body, POLICIES.itemKey, api.baseUrl), POLICY_VIEW, raw)
}
