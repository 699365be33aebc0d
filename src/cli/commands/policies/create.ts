import { Command } from 'commander'
import type { Policy } from '../../../shared/wire/policies.ts'
import type { CliContext } from '../../context.ts'
import { askMissing } from '../../input/prompt.ts'
import { addCreateOptions, type CreateFlags, createOrFind } from '../../resources/creation.ts'
import { findNamed } from '../../resources/resolve.ts'
import { POLICIES } from '../../resources/resources.ts'
import { withSettings } from './document.ts'
import { addPolicyOptions, FIELDS_HELP, type PolicyFlags, readPolicy } from './fields.ts'
import { POLICY_VIEW } from './view.ts'

type Flags = PolicyFlags & CreateFlags & { activate: boolean }
export type CreatePolicyInput = Flags & { name: string | undefined }

const EXAMPLE =
  '\n\nExample:\n  aigw policies create "Health data" -d "About patients" --set pii.enabled=true --set pii.action=tokenize' +
  ' --set allowedProviders=mistral,local'

export function createCommand(context: CliContext, run = createPolicy): Command {
  const command = new Command('create')
    .description('Create a policy. On a terminal, what is missing is asked for. Its name cannot be changed later.')
    .argument('[name]', 'its id is this in lower case, with hyphens for spaces')
    .option('--activate', 'make it the active one at once', false)
  return addCreateOptions(addPolicyOptions(command))
    .addHelpText('after', FIELDS_HELP + EXAMPLE)
    .action((name: string | undefined, flags: Flags) => run(context, { name, ...flags }))
}

/** POST /smltp-policies. Throws exit 6 for a name that is taken, unless `ifNotExists`. */
export async function createPolicy(context: CliContext, input: CreatePolicyInput): Promise<void> {
  const { name: nameInFile, description: said, document = {}, settings } = await readPolicy(context, input)
  const name = await askMissing(context, { flag: 'NAME', message: 'Name of the policy:' }, input.name ?? nameInFile)
  const description = await askMissing(context, { flag: '--description', message: 'Description:' }, said)
  const policy = withSettings(document, settings)
  const setAsActive = input.activate ? true : undefined
  await createOrFind<Policy>(context, {
    request: { method: 'POST', path: POLICIES.path, json: { name, description, policy, setAsActive } },
    itemKey: POLICIES.itemKey,
    noun: POLICIES.noun,
    name,
    ifNotExists: input.ifNotExists,
    strict: input.strict,
    find: () => findNamed(context, POLICIES, name),
    wanted: { description, policy, ...(input.activate && { isActive: true }) },
    useIt: `aigw policies show '${name}'`,
    view: POLICY_VIEW,
  })
}
