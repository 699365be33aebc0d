import { Command } from 'commander'
import type { ApiKey } from '../../../shared/wire/keys.ts'
import type { CliContext } from '../../context.ts'
import { itemIn, itemPath, withId } from '../../resources/resolve.ts'
import { KEYS } from '../../resources/resources.ts'
import { addSecretOptions, keepSecret, type SecretFlags } from '../../resources/shown-once.ts'
import { KEY_ARGUMENT, KEY_VIEW } from './view.ts'

export type RotateKeyInput = SecretFlags & { key: string }

export function rotateCommand(context: CliContext, run = rotateKey): Command {
  const command = new Command('rotate')
    .description('Give an API key a new secret and print it, once. The old one stops working at once.')
    .argument('<key>', KEY_ARGUMENT)
  return addSecretOptions(command).action((key: string, flags: SecretFlags) => run(context, { key, ...flags }))
}

/** POST /api/admin/api-keys/{id}/rotate, after a question. */
export async function rotateKey(context: CliContext, { key, ...flags }: RotateKeyInput): Promise<void> {
  const [api, settings] = await Promise.all([context.api(), context.settings()])
  await keepSecret(context, {
    ...flags,
    view: KEY_VIEW,
    call: () =>
      withId(context, KEYS, key, async (id) => {
        if (!settings.dryRun) await context.confirm(`Rotate the secret of API key '${key}'? The current one stops.`)
        const { body, raw } = await api.send({ method: 'POST', path: `${itemPath(KEYS, id)}/rotate` })
        const item = itemIn<ApiKey>(body, KEYS.itemKey, api.baseUrl)
        return { item, body, raw, done: `Rotated API key '${item.name}'.` }
      }),
  })
}
