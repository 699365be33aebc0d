/** Manages SMLTP policies: named sets of security rules. */
import { Command } from 'commander'
import type { z } from 'zod'
import type {
  ActivePolicyResponse,
  DiscoverPoliciesResponse,
  EffectivePolicyResponse,
  ListPoliciesResponse,
  Policy,
} from '../../../shared/wire/policies.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { readFields } from '../../input/from-file.ts'
import { columns, flexible } from '../../output/formats.ts'
import { itemIn, itemPath, showItem } from '../../resources/resolve.ts'
import { createVerb, deleteVerb, updateVerb } from '../../resources/verbs.ts'
import { NAME_FIELD, policyFields, toNewPolicy, toPolicyChange } from './fields.ts'
import { POLICIES, POLICY_MEMBERS } from './resource.ts'

const [description, settings] = policyFields('pii.action=mask')
const FIELDS_HELP = 'All fields of a document:  aigw policies show public -o yaml'

export const commands = {
  list: (context: CliContext) =>
    new Command('list')
      .description('List policies: all of them for an administrator, otherwise those the key may request.')
      .action(() => list(context)),
  show: (context: CliContext) =>
    new Command('show')
      .description('Show a policy with its document; by default the active policy.')
      .argument('[policy]', POLICIES.argument)
      .option('--effective', 'as it applies to requests: joined with the active policy, if that is a baseline')
      .action((given: string | undefined, flags: { effective?: true }) => show(context, given, flags)),
  create: createVerb(POLICIES, {
    description: 'Create a policy. On a terminal, missing values are prompted for. Its name cannot be changed later.',
    fields: [
      { ...NAME_FIELD, help: 'name; its id is this in lower case, with hyphens for spaces' },
      { member: 'setAsActive', flag: '--activate', help: 'make it the active one at once' },
      { ...description, ask: 'Description:' },
      settings,
    ],
    file: POLICY_MEMBERS,
    help:
      `${FIELDS_HELP}\n\nExample:\n  aigw policies create "Health data" -d "About patients" --set pii.enabled=true` +
      ' --set pii.action=tokenize --set allowedProviders=mistral,local',
    toRequest: (_, input) => toNewPolicy(input),
    toWanted: ({ setAsActive, ...request }) => (setAsActive ? { ...request, isActive: true } : request),
  }),
  update: updateVerb(POLICIES, {
    description: 'Change the named fields of a policy; other fields stay. The change applies at once.',
    fields: [description, settings],
    file: POLICY_MEMBERS,
    read: readFields,
    help: `\`policy\` in a file replaces the whole document; --set changes one field.\n${FIELDS_HELP}`,
    toChange: (_, input) => toPolicyChange(input),
  }),
  delete: deleteVerb(POLICIES, { description: 'Delete a policy that is not active and that no key names.' }),
  activate: (context: CliContext) =>
    new Command('activate')
      .description('Make a policy the active one. It applies to requests without a policy, by keys without a default.')
      .argument('<policy>', POLICIES.argument)
      .action((policy: string) => activate(context, policy)),
}

/** GET /smltp-policies/all. If the key has no administrator rights, the command uses GET /smltp-policies instead. */
async function list(context: CliContext): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { path, view, listView = view } = POLICIES
  try {
    const { body, raw } = await api.send<z.infer<typeof ListPoliciesResponse>>({ method: 'GET', path: `${path}/all` })
    const { builtInPolicies, customPolicies } = body.data
    await output.list([...builtInPolicies, ...customPolicies], listView, raw)
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== EXIT.forbidden) throw error
    const { body, raw } = await api.send<z.infer<typeof DiscoverPoliciesResponse>>({ method: 'GET', path })
    await context.note('note: this key is not an administrator; showing the policies it may request')
    await output.list(body.policies, REQUESTABLE_VIEW, raw)
  }
}

const REQUESTABLE_VIEW = { columns: columns({ ID: 'id', DESCRIPTION: flexible('description') }), idPath: 'id' }

/** Without a name, shows the active policy and notes what it does not block. */
async function show(
  context: CliContext,
  given: string | undefined,
  { effective }: { effective?: true },
): Promise<void> {
  const id = given ?? (await activeId(context))
  if (!effective) return showItem(context, POLICIES, id)
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { path: base, view, itemKey } = POLICIES
  output.assertShowable(view)
  const path = `${itemPath({ path: base }, id)}/effective`
  const { body, raw } = await api.send<z.infer<typeof EffectivePolicyResponse>>({ method: 'GET', path })
  await output.one(itemIn<Policy>(body, itemKey, api.baseUrl), view, raw)
  if (body.baseline !== null) await context.note(`note: joined with the baseline '${body.baseline}'`)
}

async function activeId(context: CliContext): Promise<string> {
  const api = await context.api()
  const request = { method: 'GET', path: `${POLICIES.path}/active` }
  const { template, gaps = [] } = (await api.send<z.infer<typeof ActivePolicyResponse>>(request)).body.data
  if (gaps.length > 0) await context.note(`note: the active policy '${template}' leaves gaps: ${gaps.join('; ')}`)
  return template
}

/** POST /smltp-policies/{policyId}/activate. Throws an error with exit code 3 for an unknown policy. */
async function activate(context: CliContext, given: string): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { view, itemKey } = POLICIES
  output.assertShowable(view)
  const path = `${itemPath(POLICIES, given)}/activate`
  const { body, raw } = await api.send({ method: 'POST', path, repeatable: true })
  await output.one(itemIn<Policy>(body, itemKey, api.baseUrl), view, raw)
}
