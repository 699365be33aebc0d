import { type Command, Option } from 'commander'
import { SYSTEM_ROLES } from '../../../shared/permissions.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { toId } from '../../resources/resolve.ts'
import { ROLES } from '../../resources/resources.ts'
import { LICENSE_CHOICES, toLicense } from './view.ts'

export type UserFlags = {
  username?: string
  role?: string
  license?: string
  roleId?: string
  /** False for `--no-custom-role`. */
  customRole?: string | false
  usageByModel?: 'on' | 'off'
  dollarLimit?: string
}

/** What may be said about a user, new or old. */
export const addUserOptions = (command: Command): Command =>
  command
    .option('--username <name>', '3 to 30 of a-z, 0-9, "." and "-"')
    .addOption(new Option('--role <role>', 'system role').choices(SYSTEM_ROLES))
    .option('--license <licence>', LICENSE_CHOICES.join(', '))
    .option('--custom-role <role>', 'custom role beside the system role, by name or id')
    .addOption(new Option('--role-id <id>', 'the same').conflicts('customRole'))
    .addOption(
      new Option('--usage-by-model <switch>', 'may be billed in dollars, by the tokens used').choices(['on', 'off']),
    )
    .option('--dollar-limit <dollars>', "the most that a UTC month may cost, or 'none'")

/** The flags as members of a request, undefined for what was not said. Throws exit 3 for a role that there is not. */
export async function toUserFields(
  context: CliContext,
  { username, role, license, roleId, customRole, usageByModel, dollarLimit }: UserFlags,
): Promise<object> {
  return {
    // As the gateway keeps it.
    username: username?.trim().toLowerCase(),
    role,
    license: license === undefined ? undefined : toLicense(license),
    usageByModel: toUsageByModel(usageByModel, dollarLimit),
    roleId: await toRoleId(context, customRole ?? roleId),
  }
}

function toUsageByModel(enabled: UserFlags['usageByModel'], dollarLimit: string | undefined): object | undefined {
  if (enabled === undefined && dollarLimit === undefined) return undefined
  return {
    ...(enabled !== undefined && { enabled: enabled === 'on' }),
    ...(dollarLimit !== undefined && { dollarLimit: toDollars(dollarLimit) }),
  }
}

/** Bounds are the gateway's to judge. */
function toDollars(text: string): number | null {
  if (text === 'none') return null
  if (/^\d{1,9}(\.\d{1,9})?$/.test(text)) return Number(text)
  throw usageError(`--dollar-limit must be dollars such as 25 or 12.50, or 'none', not '${text}'`)
}

async function toRoleId(context: CliContext, role: string | false | undefined): Promise<string | null | undefined> {
  if (role === false) return null
  return role === undefined ? undefined : toId(context, ROLES, role)
}
