import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { showItem } from '../../resources/resolve.ts'
import { WEBHOOKS } from '../../resources/resources.ts'
import { WEBHOOK_ARGUMENT, WEBHOOK_VIEW } from './view.ts'

export function showCommand(context: CliContext, run = showWebhook): Command {
  return new Command('show')
    .description('Show an endpoint and how its deliveries go; never its secret.')
    .argument('<webhook>', WEBHOOK_ARGUMENT)
    .action((webhook: string) => run(context, { webhook }))
}

/** GET /api/admin/webhooks/{id}. */
export const showWebhook = (context: CliContext, { webhook }: { webhook: string }): Promise<void> =>
  showItem(context, { resource: WEBHOOKS, given: webhook, view: WEBHOOK_VIEW })
