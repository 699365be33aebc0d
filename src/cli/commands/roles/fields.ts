import { type Command, Option } from 'commander'
import type { Permission } from '../../../shared/permissions.ts'
import type { Role } from '../../../shared/wire/roles.ts'
import type { CliContext } from '../../context.ts'
import { opposed } from '../../input/exclusive-flags.ts'
import { type Fields, readFields, shownOnly, textIn } from '../../input/from-file.ts'
import { repeatable } from '../../input/repeatable.ts'
import { permissionsIn, toPermissions } from './permissions.ts'
import { ROLE_MEMBERS } from './view.ts'

/** What create and update share. */
export type RoleFlags = {
  displayName?: string
  description?: string
  permission: string[]
  adminPanel?: boolean
  ai?: boolean
  chat?: boolean
  fromFile?: string
}

export const addRoleOptions = (command: Command): Command =>
  opposed(command, 'admin-panel', 'ai', 'chat')
    .option('--display-name <text>', 'how people see it called')
    .option('-d, --description <text>', 'who has it and what for')
    .addOption(repeatable(new Option('--permission <section=level>', 'what it opens, and how far; repeatable')))
    .option('--admin-panel', 'let its permissions take effect')
    .option('--no-admin-panel', 'keep its permissions from taking effect')
    .option('--ai', 'let its users talk to models')
    .option('--no-ai', 'do not let them')
    .option('--chat', 'let its users chat')
    .option('--no-chat', 'do not let them')

/** What flags and file say; undefined is what neither does. `fields.permissions` are those of the file alone. */
export type RoleInput = {
  name: string | undefined
  fields: {
    displayName: string | undefined
    description: string | undefined
    permissions: Permission[] | undefined
    hasAdminPanelAccess: unknown
    canInteractWithAI: unknown
    canUseChat: unknown
  }
  /** What the file repeats of the members that only the gateway sets. */
  shown: Fields
  /** Of the flags; they are set beside all the others. */
  named: Permission[]
}

/** Reads them together; flags win. Throws a usage error for an unknown section or level. */
export async function readRole(context: CliContext, flags: RoleFlags, read = readFields): Promise<RoleInput> {
  const named = toPermissions(flags.permission)
  const file = await read(context, flags.fromFile, ROLE_MEMBERS)
  return {
    name: textIn(file, 'name'),
    named,
    shown: shownOnly(file, ROLE_MEMBERS),
    fields: {
      displayName: flags.displayName ?? textIn(file, 'displayName'),
      description: flags.description ?? textIn(file, 'description'),
      permissions: permissionsIn(file),
      hasAdminPanelAccess: flags.adminPanel ?? file.hasAdminPanelAccess,
      canInteractWithAI: flags.ai ?? file.canInteractWithAI,
      canUseChat: flags.chat ?? file.canUseChat,
    },
  }
}

/** Says so when a role's permissions have no effect. */
export async function noteClosedPanel(context: CliContext, role: Role): Promise<void> {
  const opensSomething = role.permissions.some(({ level }) => level !== 'none')
  if (opensSomething && !role.hasAdminPanelAccess) {
    await context.note(`note: the permissions of '${role.name}' open nothing without --admin-panel`)
  }
}
