import { Command } from 'commander'
import type { Webhook } from '../../../shared/wire/webhooks.ts'
import type { CliContext } from '../../context.ts'
import { itemIn, itemPath, withId } from '../../resources/resolve.ts'
import { WEBHOOKS } from '../../resources/resources.ts'
import { addSecretOptions, keepSecret, type SecretFlags } from '../../resources/shown-once.ts'
import { toSeconds } from './signing-input.ts'
import { WEBHOOK_ARGUMENT, WEBHOOK_VIEW } from './view.ts'

export type RotateSecretInput = SecretFlags & { webhook: string; graceSeconds: number }

export function rotateSecretCommand(context: CliContext, run = rotateSecret): Command {
  const command = new Command('rotate-secret')
    .description(
      'Give an endpoint a new signing secret and print it, once. The old one stops at once, but for --grace.',
    )
    .argument('<webhook>', WEBHOOK_ARGUMENT)
    .option(
      '--grace <duration>',
      'for so long both secrets sign, each in a v1 of its own; a receiver that reads only one v1 would break',
      '0',
    )
  return addSecretOptions(command).action((webhook: string, { grace, ...flags }: SecretFlags & { grace: string }) =>
    run(context, { webhook, graceSeconds: toSeconds(grace, '--grace'), ...flags }),
  )
}

/** POST /api/admin/webhooks/{id}/rotate-secret, after a question. */
export async function rotateSecret(context: CliContext, input: RotateSecretInput): Promise<void> {
  const { webhook, graceSeconds, ...flags } = input
  const [api, settings] = await Promise.all([context.api(), context.settings()])
  const stops = graceSeconds === 0 ? 'The current one stops.' : `The current one stops in ${graceSeconds} s.`
  await keepSecret(context, {
    ...flags,
    view: WEBHOOK_VIEW,
    call: () =>
      withId(context, WEBHOOKS, webhook, async (id) => {
        if (!settings.dryRun) await context.confirm(`Rotate the secret of webhook '${webhook}'? ${stops}`)
        const path = `${itemPath(WEBHOOKS, id)}/rotate-secret`
        const { body, raw } = await api.send({ method: 'POST', path, json: { overlap_seconds: graceSeconds } })
        const item = itemIn<Webhook>(body, WEBHOOKS.itemKey, api.baseUrl)
        return { item, body, raw, done: `Rotated the secret of webhook ${item.id}.` }
      }),
  })
}
