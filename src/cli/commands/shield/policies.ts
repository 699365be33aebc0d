import { Command } from 'commander'
import type { ShieldPolicy } from '../../../shared/wire/shield.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { askMissing } from '../../input/prompt.ts'
import { addCreateOptions, type CreateFlags, createOrFind } from '../../resources/creation.ts'
import { listAll } from '../../resources/listing.ts'
import { addRemoveOptions, type RemoveFlags, remove } from '../../resources/removal.ts'
import { findNamed, showItem } from '../../resources/resolve.ts'
import { SHIELD_POLICIES } from '../../resources/resources.ts'
import { update } from '../../resources/update.ts'
import { withSettings } from '../policies/document.ts'
import { addPolicyOptions, type PolicyFlags, readPolicy } from '../policies/fields.ts'
import { SHIELD_POLICY_LIST, SHIELD_POLICY_VIEW } from './view.ts'

const ARGUMENT = 'name or id, in any case'
const FIELDS_HELP =
  '\nAll fields of a document:  aigw shield policies show balanced -o yaml' +
  '\n\nExample:\n  aigw shield policies create Lenient --set sensitivity=permissive --set categories.jailbreak=LOG'

export function listPoliciesCommand(context: CliContext, run = listPolicies): Command {
  return new Command('list').description('List prompt shield policies: the built-in ones, then ours.').action(() => {
    return run(context)
  })
}

/** GET /api/admin/prompt-shield-policies, which has no pages. */
export const listPolicies = (context: CliContext): Promise<void> =>
  listAll<ShieldPolicy>(context, { ...SHIELD_POLICIES, limit: 1, all: true, view: SHIELD_POLICY_LIST })

export function showPolicyCommand(context: CliContext, run = showPolicy): Command {
  return new Command('show')
    .description('Show a prompt shield policy with its document.')
    .argument('<policy>', ARGUMENT)
    .action((policy: string) => run(context, policy))
}

/** Throws exit 3 for a policy that does not exist. */
export const showPolicy = (context: CliContext, given: string): Promise<void> =>
  showItem(context, { resource: SHIELD_POLICIES, given, view: SHIELD_POLICY_VIEW })

type CreateInput = PolicyFlags & CreateFlags & { name: string | undefined }

export function createPolicyCommand(context: CliContext, run = createPolicy): Command {
  const command = new Command('create')
    .description('Create a prompt shield policy. What you do not set is as in the policy balanced.')
    .argument('[name]', 'its id is this in lower case, with hyphens for spaces; it cannot be changed later')
  return addCreateOptions(addPolicyOptions(command, 'sensitivity=strict'))
    .addHelpText('after', FIELDS_HELP)
    .action((name: string | undefined, flags: PolicyFlags & CreateFlags) => run(context, { name, ...flags }))
}

/** POST /api/admin/prompt-shield-policies. Throws exit 6 for a name that is taken, unless `ifNotExists`. */
export async function createPolicy(context: CliContext, input: CreateInput): Promise<void> {
  const { name: nameInFile, description, document = {}, settings } = await readPolicy(context, input)
  const name = await askMissing(context, { flag: 'NAME', message: 'Name of the policy:' }, input.name ?? nameInFile)
  const policy = withSettings(document, settings)
  await createOrFind<ShieldPolicy>(context, {
    request: { method: 'POST', path: SHIELD_POLICIES.path, json: { name, description, policy } },
    itemKey: SHIELD_POLICIES.itemKey,
    noun: SHIELD_POLICIES.noun,
    name,
    ifNotExists: input.ifNotExists,
    strict: input.strict,
    find: () => findNamed(context, SHIELD_POLICIES, name),
    wanted: { description, policy },
    useIt: `aigw shield policies show '${name}'`,
    view: SHIELD_POLICY_VIEW,
  })
}

type UpdateInput = PolicyFlags & { policy: string }

export function updatePolicyCommand(context: CliContext, run = updatePolicy): Command {
  const command = new Command('update')
    .description('Change what you name about a prompt shield policy; the rest stays as it is.')
    .argument('<policy>', ARGUMENT)
  return addPolicyOptions(command, 'sensitivity=strict')
    .addHelpText('after', `\n\`policy\` in a file replaces the whole document; --set changes one field.${FIELDS_HELP}`)
    .action((policy: string, flags: PolicyFlags) => run(context, { policy, ...flags }))
}

/** PUT /api/admin/prompt-shield-policies/{policyId} with what was named. Throws exit 3 for one that does not exist. */
export async function updatePolicy(context: CliContext, input: UpdateInput): Promise<void> {
  const { name, description, document, settings } = await readPolicy(context, input)
  const complete = (now: ShieldPolicy) => {
    // A file that made the policy may be used to change it, so it may hold the name.
    if (name !== undefined && name !== now.name) throw usageError(`policy '${now.name}' cannot be renamed to '${name}'`)
    return settings.length === 0 ? {} : { policy: withSettings(document ?? now.policy, settings) }
  }
  await update<ShieldPolicy>(context, {
    resource: SHIELD_POLICIES,
    given: input.policy,
    changes: { description, policy: settings.length > 0 ? settings : document },
    complete: name !== undefined || settings.length > 0 ? complete : undefined,
    view: SHIELD_POLICY_VIEW,
  })
}

type DeleteInput = RemoveFlags & { policy: string }

export function deletePolicyCommand(context: CliContext, run = deletePolicy): Command {
  const command = new Command('delete').description('Delete a prompt shield policy.').argument('<policy>', ARGUMENT)
  return addRemoveOptions(command, SHIELD_POLICIES.noun).action((policy: string, flags: RemoveFlags) =>
    run(context, { policy, ...flags }),
  )
}

/** Asks first. Throws exit 3 for a policy that does not exist, unless `ignoreNotFound`. */
export const deletePolicy = (context: CliContext, { policy, ignoreNotFound }: DeleteInput): Promise<void> =>
  remove(context, {
    resource: SHIELD_POLICIES,
    given: policy,
    ignoreNotFound,
    question: `Delete prompt shield policy '${policy}'?`,
  })
