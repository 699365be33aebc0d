import { Command } from 'commander'
import type { z } from 'zod'
import type { DiscoverPoliciesResponse, ListPoliciesResponse } from '../../../shared/wire/policies.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { POLICIES } from './resource.ts'

export function toCommand(context: CliContext, run = listPolicies): Command {
  return new Command('list')
    .description('List policies: all of them for an administrator, else those the key may request.')
    .action(() => run(context))
}

/** GET /smltp-policies/all; GET /smltp-policies for a key without administrator rights. */
export async function listPolicies(context: CliContext): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  try {
    const { body, raw } = await api.send<z.infer<typeof ListPoliciesResponse>>({
      method: 'GET',
      path: `${POLICIES.path}/all`,
    })
    const { builtInPolicies, customPolicies } = body.data
    await output.list([...builtInPolicies, ...customPolicies], POLICIES.listView ?? POLICIES.view, raw)
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== EXIT.forbidden) throw error
    await listRequestable(context)
  }
}

const REQUESTABLE_VIEW = { columns: [{ path: 'id' }, { path: 'description', flexible: true }], idPath: 'id' }

async function listRequestable(context: CliContext): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { body, raw } = await api.send<z.infer<typeof DiscoverPoliciesResponse>>({ method: 'GET', path: POLICIES.path })
  await context.note('note: this key is not an administrator; showing the policies it may request')
  await output.list(body.policies, REQUESTABLE_VIEW, raw)
}
