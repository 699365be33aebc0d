/** Manages guard rules. */
import { field } from '../../input/fields.ts'
import { readFields } from '../../input/from-file.ts'
import { createVerb, deleteVerb, listVerb, showVerb, updateVerb } from '../../resources/verbs.ts'
import { RULE_FIELDS } from './fields.ts'
import { GUARD_RULES, RULE_MEMBERS } from './resource.ts'

export const commands = {
  list: listVerb(GUARD_RULES, { description: 'List the guard rules of this tenant.' }),
  show: showVerb(GUARD_RULES, 'Show a guard rule.'),
  create: createVerb(GUARD_RULES, {
    description:
      'Create a guard rule. It applies at once, in addition to every policy. Its name cannot be changed later.',
    fields: [
      field('name', '[name]', 'name; its id is this in lower case, with hyphens for spaces', {
        ask: 'Name of the rule:',
      }),
      ...RULE_FIELDS,
    ],
    file: RULE_MEMBERS,
    help:
      'Examples:\n  aigw guard-rules create "Project names" --kind dlp --detector keywords --word Falcon --action mask\n' +
      "  aigw guard-rules create Tickets --kind dlp --detector regex --pattern 'TCK-[0-9]{6}' --simulate",
  }),
  update: updateVerb(GUARD_RULES, {
    description: 'Change the named fields of a guard rule; other fields stay.',
    fields: RULE_FIELDS,
    file: RULE_MEMBERS,
    read: readFields,
  }),
  delete: deleteVerb(GUARD_RULES, { description: 'Delete a guard rule.' }),
}
