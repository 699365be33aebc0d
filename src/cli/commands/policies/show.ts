import { Command } from 'commander'
import type { z } from 'zod'
import type { ActivePolicyResponse } from '../../../shared/wire/policies.ts'
import type { CliContext } from '../../context.ts'
import { showItem } from '../../resources/resolve.ts'
import { POLICIES } from './resource.ts'

export function toCommand(context: CliContext, run = showPolicy): Command {
  return new Command('show')
    .description('Show a policy with its document; the active one when you name none.')
    .argument('[policy]', POLICIES.argument)
    .action((policy: string | undefined) => run(context, policy))
}

/** Throws exit 3 for a policy that does not exist. */
export async function showPolicy(context: CliContext, given: string | undefined): Promise<void> {
  await showItem(context, { resource: POLICIES, given: given ?? (await activeId(context)), view: POLICIES.view })
}

async function activeId(context: CliContext): Promise<string> {
  const api = await context.api()
  const { body } = await api.send<z.infer<typeof ActivePolicyResponse>>({
    method: 'GET',
    path: `${POLICIES.path}/active`,
  })
  return body.data.template
}
