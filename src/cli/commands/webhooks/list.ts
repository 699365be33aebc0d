import { Command } from 'commander'
import type { Webhook } from '../../../shared/wire/webhooks.ts'
import type { CliContext } from '../../context.ts'
import { listAll } from '../../resources/listing.ts'
import { WEBHOOKS } from '../../resources/resources.ts'
import { WEBHOOK_LIST_VIEW } from './view.ts'

export function listCommand(context: CliContext, run = listWebhooks): Command {
  return new Command('list')
    .description('List the endpoints of this tenant; never their secrets.')
    .action(() => run(context))
}

/** GET /api/admin/webhooks, which has no pages. */
export const listWebhooks = (context: CliContext): Promise<void> =>
  listAll<Webhook>(context, { ...WEBHOOKS, limit: 1, all: true, view: WEBHOOK_LIST_VIEW })
