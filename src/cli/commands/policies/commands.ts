import { readFields } from '../../input/from-file.ts'
import { createVerb, deleteVerb, updateVerb } from '../../resources/verbs.ts'
import { NAME_FIELD, policyFields, toNewPolicy, toPolicyChange } from './fields.ts'
import { POLICIES, POLICY_MEMBERS } from './resource.ts'

const [description, settings] = policyFields('pii.action=mask')
const FIELDS_HELP = 'All fields of a document:  aigw policies show public -o yaml'

export const commands = {
  create: createVerb(POLICIES, {
    description: 'Create a policy. On a terminal, missing values are prompted for. Its name cannot be changed later.',
    fields: [
      { ...NAME_FIELD, help: 'its id is this in lower case, with hyphens for spaces' },
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
    description: 'Change the named fields of a policy; the rest stays as it is. The change applies at once.',
    fields: [description, settings],
    file: POLICY_MEMBERS,
    read: readFields,
    help: `\`policy\` in a file replaces the whole document; --set changes one field.\n${FIELDS_HELP}`,
    toChange: (_, input) => toPolicyChange(input),
  }),
  delete: deleteVerb(POLICIES, { description: 'Delete a policy that is not active and that no key names.' }),
}
