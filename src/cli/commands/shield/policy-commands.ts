/** Manages prompt shield policies. */
import { readFields } from '../../input/from-file.ts'
import { createVerb, deleteVerb, listVerb, showVerb, updateVerb } from '../../resources/verbs.ts'
import { NAME_FIELD, policyFields, toNewPolicy, toPolicyChange } from '../policies/fields.ts'
import { SHIELD_POLICIES, SHIELD_POLICY_MEMBERS } from './resource.ts'

const FIELDS = policyFields('sensitivity=strict')
const FIELDS_HELP =
  'All fields of a document:  aigw shield policies show balanced -o yaml' +
  '\n\nExample:\n  aigw shield policies create Lenient --set sensitivity=permissive --set categories.jailbreak=LOG'

export const commands = {
  list: listVerb(SHIELD_POLICIES, { description: 'List prompt shield policies: the built-in ones, then your own.' }),
  show: showVerb(SHIELD_POLICIES, 'Show a prompt shield policy with its document.'),
  create: createVerb(SHIELD_POLICIES, {
    description: 'Create a prompt shield policy. Omitted fields are those of the policy balanced.',
    fields: [
      {
        ...NAME_FIELD,
        help: 'name; its id is this in lower case, with hyphens for spaces; it cannot be changed later',
      },
      ...FIELDS,
    ],
    file: SHIELD_POLICY_MEMBERS,
    help: FIELDS_HELP,
    toRequest: (_, input) => toNewPolicy(input),
  }),
  update: updateVerb(SHIELD_POLICIES, {
    description: 'Change the named fields of a prompt shield policy; other fields stay.',
    fields: FIELDS,
    file: SHIELD_POLICY_MEMBERS,
    read: readFields,
    help: `\`policy\` in a file replaces the whole document; --set changes one field.\n${FIELDS_HELP}`,
    toChange: (_, input) => toPolicyChange(input),
  }),
  delete: deleteVerb(SHIELD_POLICIES, { description: 'Delete a prompt shield policy.' }),
}
