import { Command, Option } from 'commander'
import type { CliContext } from '../../context.ts'
import { repeatable } from '../../input/repeatable.ts'
import { WEBHOOKS } from '../../resources/resources.ts'
import { update } from '../../resources/update.ts'
import { getSubscription } from './event-names.ts'
import { WEBHOOK_ARGUMENT, WEBHOOK_VIEW } from './view.ts'

type Flags = { url?: string; description?: string; event: string[] }
export type UpdateWebhookInput = Flags & { webhook: string }

export function updateCommand(context: CliContext, run = updateWebhook): Command {
  return new Command('update')
    .description('Change what you name about an endpoint; everything else stays, its secret too.')
    .argument('<webhook>', WEBHOOK_ARGUMENT)
    .option('--url <url>', 'where to deliver')
    .option('-d, --description <text>', 'what it is for')
    .addOption(
      repeatable(new Option('-e, --event <event>', "what it receives, or '*'; repeatable, replaces the whole list")),
    )
    .addHelpText('after', '\nOn and off:  aigw webhooks enable|disable')
    .action((webhook: string, flags: Flags) => run(context, { webhook, ...flags }))
}

/** PUT /api/admin/webhooks/{id} with what was named. */
export async function updateWebhook(context: CliContext, input: UpdateWebhookInput): Promise<void> {
  const { webhook, url, description, event } = input
  const events = event.length === 0 ? undefined : getSubscription(event)
  await update(context, {
    resource: WEBHOOKS,
    given: webhook,
    changes: { url, description, events },
    view: WEBHOOK_VIEW,
  })
}
