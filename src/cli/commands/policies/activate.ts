import { Command } from 'commander'
import type { Policy } from '../../../shared/wire/policies.ts'
import type { CliContext } from '../../context.ts'
import { itemIn, itemPath } from '../../resources/resolve.ts'
import { POLICIES } from './resource.ts'

export function toCommand(context: CliContext, run = activatePolicy): Command {
  return new Command('activate')
    .description('Make a policy the active one: it governs requests that name none, by keys that have no default.')
    .argument('<policy>', POLICIES.argument)
    .action((policy: string) => run(context, policy))
}

/** POST /smltp-policies/{policyId}/activate. Throws exit 3 for a policy that does not exist. */
export async function activatePolicy(context: CliContext, given: string): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  output.assertShowable(POLICIES.view)
  const path = `${itemPath(POLICIES, given)}/activate`
  const { body, raw } = await api.send({ method: 'POST', path, repeatable: true })
  await output.one(itemIn<Policy>(body, POLICIES.itemKey, api.baseUrl), POLICIES.view, raw)
}
