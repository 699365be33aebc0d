import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { addRemoveOptions, type RemoveFlags, remove } from '../../resources/removal.ts'
import { WEBHOOKS } from '../../resources/resources.ts'
import { WEBHOOK_ARGUMENT } from './view.ts'

export type DeleteWebhookInput = RemoveFlags & { webhook: string }

export function deleteCommand(context: CliContext, run = deleteWebhook): Command {
  const command = new Command('delete')
    .description('Delete an endpoint and its secret. What was not delivered yet never will be.')
    .argument('<webhook>', WEBHOOK_ARGUMENT)
  return addRemoveOptions(command, WEBHOOKS.noun).action((webhook: string, flags: RemoveFlags) =>
    run(context, { webhook, ...flags }),
  )
}

/** DELETE /api/admin/webhooks/{id}, after a question. */
export const deleteWebhook = (context: CliContext, { webhook, ignoreNotFound }: DeleteWebhookInput): Promise<void> =>
  remove(context, { resource: WEBHOOKS, given: webhook, ignoreNotFound, question: `Delete webhook '${webhook}'?` })
