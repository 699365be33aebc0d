import { Command, Option } from 'commander'
import { ALL_EVENTS } from '../../../shared/event-catalog.ts'
import type { Webhook } from '../../../shared/wire/webhooks.ts'
import type { CliContext } from '../../context.ts'
import { askMissing } from '../../input/prompt.ts'
import { repeatable } from '../../input/repeatable.ts'
import { addCreateOptions, type CreateFlags } from '../../resources/creation.ts'
import { findOne } from '../../resources/listing.ts'
import { WEBHOOKS } from '../../resources/resources.ts'
import { addSecretOptions, createWithSecret, type SecretFlags } from '../../resources/shown-once.ts'
import { getSubscription } from './event-names.ts'
import { WEBHOOK_VIEW } from './view.ts'

type Flags = CreateFlags & SecretFlags & { url?: string; description?: string; event: string[]; disabled: boolean }
export type CreateWebhookInput = Flags

export function createCommand(context: CliContext, run = createWebhook): Command {
  const command = new Command('create')
    .description(
      'Register an endpoint and print its signing secret, once: alone on stdout, or as `secret` of the endpoint with\n' +
        '-o json.',
    )
    .option('--url <url>', 'where to deliver')
    .option('-d, --description <text>', 'what it is for')
    .addOption(repeatable(new Option('-e, --event <event>', 'what it receives; repeatable (default: everything)')))
    .option('--disabled', 'deliver nothing yet', false)
  return addCreateOptions(addSecretOptions(command))
    .addHelpText(
      'after',
      '\n--if-not-exists looks for an endpoint with this address. Addresses need not be unique, so two runs at the same\n' +
        'moment may make two. The secret of an existing one cannot be shown again.\n\nExample:\n' +
        '  aigw webhooks create --url https://example.com/hook --event pii:incident --save-to hook.secret',
    )
    .action((flags: Flags) => run(context, flags))
}

/** POST /api/admin/webhooks. */
export async function createWebhook(context: CliContext, input: CreateWebhookInput): Promise<void> {
  const { description, disabled } = input
  const events = getSubscription(input.event.length === 0 ? [ALL_EVENTS] : input.event)
  const url = (await askMissing(context, { flag: '--url', message: 'Where to deliver:' }, input.url)).trim()
  const json = { url, description, events, enabled: !disabled }

  await createWithSecret<Webhook>(context, {
    ...input,
    request: { method: 'POST', path: WEBHOOKS.path, json },
    itemKey: WEBHOOKS.itemKey,
    noun: WEBHOOKS.noun,
    name: url,
    find: () => findOne<Webhook>(context, { ...WEBHOOKS, search: url, matches: (webhook) => webhook.url === url }),
    wanted: json,
    view: WEBHOOK_VIEW,
    useIt: 'aigw webhooks list',
    done: ({ id }) => `Created webhook ${id}.`,
    renewal: ({ id }) => `aigw webhooks rotate-secret ${id}`,
  })
}
