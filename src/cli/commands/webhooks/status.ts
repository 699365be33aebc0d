import { Command } from 'commander'
import { WEBHOOK_HELD_COUNTED } from '../../../shared/spec-limits.ts'
import type { CliContext } from '../../context.ts'
import { WEBHOOKS } from '../../resources/resources.ts'
import { update } from '../../resources/update.ts'
import { WEBHOOK_ARGUMENT, WEBHOOK_VIEW } from './view.ts'

type SetStatusInput = { webhook: string; enabled: boolean }

export function enableCommand(context: CliContext, run = setWebhookStatus): Command {
  return new Command('enable')
    .description('Deliver to an endpoint again, and forget its failures. What was held stays held until recover.')
    .argument('<webhook>', WEBHOOK_ARGUMENT)
    .action((webhook: string) => run(context, { webhook, enabled: true }))
}

export function disableCommand(context: CliContext, run = setWebhookStatus): Command {
  return new Command('disable')
    .description('Deliver nothing to an endpoint for now; what would be sent is held.')
    .argument('<webhook>', WEBHOOK_ARGUMENT)
    .action((webhook: string) => run(context, { webhook, enabled: false }))
}

/** PUT /api/admin/webhooks/{id}; an endpoint that is in that state already stays in it. */
export async function setWebhookStatus(context: CliContext, { webhook, enabled }: SetStatusInput): Promise<void> {
  const changed = await update(context, {
    resource: WEBHOOKS,
    given: webhook,
    changes: { enabled },
    view: WEBHOOK_VIEW,
  })
  const { id, heldDeliveries: held } = changed
  if (!enabled || held === 0) return
  const deliveries = held < WEBHOOK_HELD_COUNTED ? held : `${held} or more`
  await context.note(`note: ${deliveries} deliveries were held; send them:  aigw webhooks recover ${id} --since 7d`)
}
