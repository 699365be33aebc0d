import { Command } from 'commander'
import type { Role } from '../../../shared/wire/roles.ts'
import type { CliContext } from '../../context.ts'
import { addFromFileOption } from '../../input/from-file.ts'
import { askMissing } from '../../input/prompt.ts'
import { addCreateOptions, type CreateFlags, createOrFind } from '../../resources/creation.ts'
import { findNamed } from '../../resources/resolve.ts'
import { ROLES } from '../../resources/resources.ts'
import { addRoleOptions, noteClosedPanel, type RoleFlags, readRole } from './fields.ts'
import { toOpenSections, withPermissions } from './permissions.ts'
import { ROLE_VIEW } from './view.ts'

export type CreateRoleInput = RoleFlags & CreateFlags & { name: string | undefined }

const EXAMPLE =
  '\nSections and levels:  aigw roles sections\n\nExample:\n  aigw roles create auditor --display-name Auditor' +
  ' -d "Reads along" --admin-panel --permission analytics=reader'

export function createCommand(context: CliContext, run = createRole): Command {
  const command = new Command('create')
    .description('Create a role. On a terminal, what is missing is asked for. Its name cannot be changed later.')
    .argument('[name]', '2 to 64 of a-z, 0-9, "_" and "-", beginning with a letter')
  addFromFileOption(addCreateOptions(addRoleOptions(command)))
  return command
    .addHelpText('after', EXAMPLE)
    .action((name: string | undefined, flags: RoleFlags & CreateFlags) => run(context, { name, ...flags }))
}

/** POST /roles. Throws exit 6 for a name that is taken, unless `ifNotExists`. */
export async function createRole(context: CliContext, input: CreateRoleInput): Promise<void> {
  const { name: nameInFile, fields, named } = await readRole(context, input)
  const ask = (flag: string, message: string, value: string | undefined) =>
    askMissing(context, { flag, message }, value)
  const name = await ask('NAME', 'Name of the role:', input.name ?? nameInFile)
  const displayName = await ask('--display-name', 'Display name:', fields.displayName)
  const description = await ask('--description', 'Description:', fields.description)
  const hasPermissions = named.length > 0 || fields.permissions !== undefined
  const permissions = hasPermissions ? withPermissions(fields.permissions ?? [], named) : undefined
  const wanted = { ...fields, displayName, description, permissions }
  const role = await createOrFind<Role>(context, {
    request: { method: 'POST', path: ROLES.path, json: { name, ...wanted } },
    itemKey: ROLES.itemKey,
    noun: ROLES.noun,
    name,
    ifNotExists: input.ifNotExists,
    strict: input.strict,
    find: () => findNamed(context, ROLES, name),
    wanted: { ...wanted, permissions: permissions && toOpenSections(permissions) },
    toComparable: (existing) => ({ ...existing, permissions: toOpenSections(existing.permissions) }),
    view: ROLE_VIEW,
  })
  await noteClosedPanel(context, role)
}
