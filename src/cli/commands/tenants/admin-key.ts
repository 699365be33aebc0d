import { Command } from 'commander'
import type { ApiKey } from '../../../shared/wire/keys.ts'
import type { CliContext } from '../../context.ts'
import { itemIn, itemPath, withId } from '../../resources/resolve.ts'
import { KEYS, TENANTS } from '../../resources/resources.ts'
import { addSecretOptions, keepSecret, type SecretFlags } from '../../resources/shown-once.ts'
import { KEY_VIEW } from '../keys/view.ts'
import { TENANT_ARGUMENT } from './view.ts'

type Flags = SecretFlags & { user?: string }
export type AdminKeyInput = Flags & { tenant: string }

export function adminKeyCommand(context: CliContext, run = createAdminKey): Command {
  const command = new Command('admin-key')
    .description(
      'Make a new key for an administrator of a tenant and print its secret, once: for a tenant that has lost its own.\n' +
        'Its other keys stay as they are. Needs the operator key.',
    )
    .argument('<tenant>', TENANT_ARGUMENT)
    .option('--user <id>', 'id of the administrator (default: the one who has been there longest)')
  return addSecretOptions(command).action((tenant: string, flags: Flags) => run(context, { tenant, ...flags }))
}

/** POST /api/admin/tenants/{id}/admin-key. Throws exit 6 for a tenant that has no active administrator. */
export async function createAdminKey(context: CliContext, { tenant, user, ...flags }: AdminKeyInput): Promise<void> {
  const api = await context.api()
  await keepSecret(context, {
    ...flags,
    view: KEY_VIEW,
    call: () =>
      withId(context, TENANTS, tenant, async (id) => {
        const request = { method: 'POST', path: `${itemPath(TENANTS, id)}/admin-key`, json: { userId: user } }
        const { body, raw } = await api.send(request)
        const item = itemIn<ApiKey>(body, KEYS.itemKey, api.baseUrl)
        return { item, body, raw, done: `Created API key '${item.name}' (${item.id}) for ${item.user.email}.` }
      }),
  })
}
