/** Manages roles. */
import { Command } from 'commander'
import { LEVELS, SECTIONS } from '../../../shared/permissions.ts'
import type { Role } from '../../../shared/wire/roles.ts'
import type { CliContext } from '../../context.ts'
import { type Field, field } from '../../input/fields.ts'
import { type Fields, textsIn } from '../../input/from-file.ts'
import { columns } from '../../output/formats.ts'
import { createVerb, deleteVerb, listVerb, showVerb, updateVerb } from '../../resources/verbs.ts'
import { permissionsIn, toOpenSections, toPermissions, withPermissions } from './permissions.ts'
import { ROLE_MEMBERS, ROLES } from './resource.ts'

const hasAdminPanelAccess = { member: 'hasAdminPanelAccess' }
const canInteractWithAI = { member: 'canInteractWithAI' }
const canUseChat = { member: 'canUseChat' }
const FIELDS: Field[] = [
  { member: 'displayName', flag: '--display-name <text>', help: 'its name for people', isText: true },
  { member: 'description', flag: '-d, --description <text>', help: 'who has it and why', isText: true },
  field('named', '--permission <section=level>', 'a section, and its level; repeatable', { isList: true }),
  { ...hasAdminPanelAccess, flag: '--admin-panel', help: 'apply its permissions' },
  { ...hasAdminPanelAccess, flag: '--no-admin-panel', help: 'do not apply its permissions' },
  { ...canInteractWithAI, flag: '--ai', help: 'allow its users to use models' },
  { ...canInteractWithAI, flag: '--no-ai', help: 'do not allow it' },
  { ...canUseChat, flag: '--chat', help: 'allow its users to chat' },
  { ...canUseChat, flag: '--no-chat', help: 'do not allow it' },
]
const ASKED: Record<string, string> = { displayName: 'Display name:', description: 'Description:' }

const isSystem = { member: 'isSystem' }

export const commands = {
  create: createVerb(ROLES, {
    description: 'Create a role. On a terminal, missing values are prompted for. Its name cannot be changed later.',
    fields: [
      field('name', '[name]', '2 to 64 of a-z, 0-9, "_" and "-", beginning with a letter', {
        ask: 'Name of the role:',
      }),
      ...FIELDS.map((field) => ({ ...field, ...(ASKED[field.member] && { ask: ASKED[field.member] }) })),
    ],
    file: ROLE_MEMBERS,
    help:
      'Sections and levels:  aigw roles sections\n\nExample:\n  aigw roles create auditor --display-name Auditor' +
      ' -d "Reads along" --admin-panel --permission analytics=reader',
    toRequest(_, input) {
      const { permissions, named, fields } = permissionsOf(input)
      if (named.length === 0 && permissions === undefined) return fields
      return { ...fields, permissions: withPermissions(permissions ?? [], named) }
    },
    toWanted(request) {
      const { permissions: _, ...others } = request
      const permissions = permissionsIn(request)
      return { permissions: permissions && toOpenSections(permissions), ...others }
    },
    toComparable: (existing) => ({ ...existing, permissions: toOpenSections(existing.permissions) }),
    note: noteClosedPanel,
  }),
  list: listVerb(ROLES, {
    description: 'List roles, newest first.',
    fields: [
      { ...isSystem, flag: '--system', help: 'only built-in roles', conflicts: 'custom' },
      { ...isSystem, flag: '--custom', help: 'only custom roles', sets: { isSystem: false } },
    ],
    searched: 'their name, display name or description',
  }),
  show: showVerb(ROLES, 'Show a role and its permissions.'),
  update: updateVerb(ROLES, {
    description: 'Change the named fields of a role; other fields and sections stay.',
    fields: FIELDS,
    file: ROLE_MEMBERS,
    help: '`permissions` in a file replaces all of them; --permission sets one section.',
    toChange(_, input) {
      const { permissions, named, fields } = permissionsOf(input)
      if (named.length === 0) return { changes: { ...fields, permissions } }
      const complete = (now: Role) => ({ permissions: withPermissions(permissions ?? now.permissions, named) })
      return { changes: { ...fields, permissions: named }, complete }
    },
    note: noteClosedPanel,
  }),
  delete: deleteVerb(ROLES, { description: 'Delete a role that no user has.' }),
  sections: sectionsCommand,
}

/**
 * Splits the input into three parts: permissions from the file, permissions from flags, and the other members. Throws a
 * usage error for an unknown section or level.
 */
function permissionsOf(input: Fields) {
  const { named, permissions: _, ...fields } = input
  return { named: toPermissions(textsIn({ named }, 'named') ?? []), permissions: permissionsIn(input), fields }
}

/** Notes that permissions have no effect if the role has no access to the admin panel. */
async function noteClosedPanel(context: CliContext, role: Role): Promise<void> {
  const opensSomething = role.permissions.some(({ level }) => level !== 'none')
  if (opensSomething && !role.hasAdminPanelAccess) {
    await context.note(`note: the permissions of '${role.name}' have no effect without --admin-panel`)
  }
}

const SECTION_VIEW = { columns: columns({ SECTION: 'section', LEVELS: 'levels' }), idPath: 'section' }

/** Prints the sections. The API defines a fixed list of sections, so no request is needed. */
function sectionsCommand(context: CliContext): Command {
  return new Command('sections')
    .description('List the permission sections and their levels. Needs no gateway.')
    .action(async () => {
      const rows = SECTIONS.map((section) => ({ section, levels: LEVELS }))
      await (await context.output()).list(rows, SECTION_VIEW)
    })
}
