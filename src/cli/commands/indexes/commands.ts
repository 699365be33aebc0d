import type { Index } from '../../../shared/wire/indexes.ts'
import type { Field } from '../../input/fields.ts'
import { createVerb, deleteVerb, idOf, showVerb, updateVerb } from '../../resources/verbs.ts'
import { GROUPS } from '../groups/resource.ts'
import { USERS } from '../users/resource.ts'
import { listCommand } from './list.ts'
import { INDEXES } from './resource.ts'

const description = { member: 'description', flag: '-d, --description <text>' }

/** Who may read an index. */
const OWNERS: Field[] = [
  {
    ...{ member: 'assignedUser', flag: '--user <user>', conflicts: 'group', resolve: idOf(USERS) },
    help: `only this user may read it: ${USERS.argument}`,
  },
  {
    ...{ member: 'assignedGroup', flag: '--group <group>', resolve: idOf(GROUPS) },
    help: 'only members of this group may read it, by name or id',
  },
]

export const commands = {
  create: createVerb(INDEXES, {
    description: 'Create a knowledge base. The name has 3 to 50 of a-z, 0-9 and dashes.',
    fields: [
      { member: 'name', flag: '<name>', help: 'name that chat and search use' },
      { ...description, help: 'its contents' },
      ...OWNERS,
    ],
    toComparable: (index: Partial<Index>) => ({
      ...index,
      assignedUser: index.assignedUser?.id ?? null,
      assignedGroup: index.assignedGroup?.id ?? null,
    }),
    view: INDEXES.listView ?? INDEXES.view,
    useIt: (name) => `aigw indexes add ${name} FILE`,
  }),
  list: listCommand,
  show: showVerb(INDEXES, 'Show a knowledge base and who may read it.'),
  update: updateVerb(INDEXES, {
    description: 'Rename a knowledge base, or change who may read it; the rest stays as it is.',
    fields: [
      { member: 'name', flag: '--name <name>', help: 'new name; lists of keys keep the old one' },
      { ...description, help: 'new description' },
      ...OWNERS,
      {
        ...{ member: 'assignedUser', flag: '--general', conflicts: ['user', 'group'] },
        ...{ help: 'everybody may read it', sets: { assignedUser: null, assignedGroup: null } },
      },
    ],
  }),
  delete: deleteVerb(INDEXES, {
    description: 'Delete a knowledge base with all its documents.',
    question: (index) => `Delete index '${index}' and all its documents?`,
  }),
}
