import { Command } from 'commander'
import type { Policy } from '../../../shared/wire/policies.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { POLICIES } from '../../resources/resources.ts'
import { update } from '../../resources/update.ts'
import { withSettings } from './document.ts'
import { addPolicyOptions, FIELDS_HELP, type PolicyFlags, readPolicy } from './fields.ts'
import { POLICY_ARGUMENT, POLICY_VIEW } from './view.ts'

export type UpdatePolicyInput = PolicyFlags & { policy: string }

export function updateCommand(context: CliContext, run = updatePolicy): Command {
  const command = new Command('update')
    .description('Change what you name about a policy; the rest stays as it is. Requests are held to it at once.')
    .argument('<policy>', POLICY_ARGUMENT)
  return addPolicyOptions(command)
    .addHelpText('after', `\n\`policy\` in a file replaces the whole document; --set changes one field.${FIELDS_HELP}`)
    .action((policy: string, flags: PolicyFlags) => run(context, { policy, ...flags }))
}

/** PUT /smltp-policies/{policyId} with what was named. Throws exit 3 for a policy that does not exist. */
export async function updatePolicy(context: CliContext, input: UpdatePolicyInput): Promise<void> {
  const { name, description, document, settings } = await readPolicy(context, input)
  const complete = (now: Policy) => {
    // A file that made the policy may be used to change it, so it may hold the name.
    if (name !== undefined && name !== now.name) throw usageError(`policy '${now.name}' cannot be renamed to '${name}'`)
    return settings.length === 0 ? {} : { policy: withSettings(document ?? now.policy, settings) }
  }
  await update<Policy>(context, {
    resource: POLICIES,
    given: input.policy,
    changes: { description, policy: settings.length > 0 ? settings : document },
    complete: name !== undefined || settings.length > 0 ? complete : undefined,
    view: POLICY_VIEW,
  })
}
