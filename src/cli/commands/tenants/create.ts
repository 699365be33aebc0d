import { Command } from 'commander'
import type { Tenant } from '../../../shared/wire/tenants.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { askMissing } from '../../input/prompt.ts'
import { findAtPath } from '../../output/formats.ts'
import { addCreateOptions, type CreateFlags } from '../../resources/creation.ts'
import { findNamed } from '../../resources/resolve.ts'
import { TENANTS } from '../../resources/resources.ts'
import { addSecretOptions, createWithSecret, type SecretFlags } from '../../resources/shown-once.ts'
import { NEW_TENANT_VIEW } from './view.ts'

type Flags = CreateFlags & SecretFlags & { adminName?: string; adminEmail?: string; adminUsername?: string }
export type CreateTenantInput = Flags & { name: string | undefined }

export function createCommand(context: CliContext, run = createTenant): Command {
  const command = new Command('create')
    .description(
      "Create a tenant with its first administrator, and print the secret of that administrator's key, once: alone on\n" +
        'stdout, or as `secret` with -o json. Needs the operator key.',
    )
    .argument('[name]', 'name of the tenant')
    .option('--admin-name <text>', 'full name of its administrator')
    .option('--admin-email <address>', 'their email address')
    .option('--admin-username <name>', 'their username (default: from the email)')
  return addCreateOptions(addSecretOptions(command))
    .addHelpText(
      'after',
      '\nExample:\n  aigw tenants create acme --admin-name "Ada Lovelace" --admin-email ada@example.com --save-to acme.key\n' +
        '  aigw --api-key-file acme.key users list',
    )
    .action((name: string | undefined, flags: Flags) => run(context, { name, ...flags }))
}

/** POST /api/admin/tenants. Throws exit 6 for a name that is taken, unless `ifNotExists`. */
export async function createTenant(context: CliContext, input: CreateTenantInput): Promise<void> {
  if (input.strict) {
    const reason =
      '--strict cannot compare the administrator: the operator key is not shown the users of another tenant'
    throw usageError(reason, ['Leave it out. Of an existing tenant there is nothing else to compare.'])
  }
  const ask = (flag: string, message: string, value: string | undefined) =>
    askMissing(context, { flag, message }, value)
  const name = (await ask('NAME', 'Name of the tenant:', input.name)).trim()
  const admin = {
    name: await ask('--admin-name', 'Full name of its administrator:', input.adminName),
    email: await ask('--admin-email', 'Email of its administrator:', input.adminEmail),
    username: input.adminUsername,
  }
  await createWithSecret<Tenant>(context, {
    ...input,
    request: { method: 'POST', path: TENANTS.path, json: { name, admin } },
    itemKey: TENANTS.itemKey,
    noun: TENANTS.noun,
    name,
    find: () => findNamed(context, TENANTS, name),
    wanted: {},
    view: NEW_TENANT_VIEW,
    toShown: (tenant, body) => ({
      ...tenant,
      admin: findAtPath(body, 'admin'),
      apiKey: findAtPath(body, 'apiKey'),
    }),
    done: (tenant) => `Created tenant '${tenant.name}' (${tenant.id}) and a key for its administrator.`,
    renewal: (tenant) => `aigw tenants admin-key ${tenant.id}`,
  })
}
