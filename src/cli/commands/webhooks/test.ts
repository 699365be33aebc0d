import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { itemPath, withId } from '../../resources/resolve.ts'
import { showStarted } from './delivery.ts'
import { WEBHOOKS } from './resource.ts'

export type TestWebhookInput = { webhook: string; wait: boolean }

export function toCommand(context: CliContext, run = testWebhook): Command {
  return new Command('test')
    .description('Send a webhook:test event to an endpoint.')
    .argument('<webhook>', WEBHOOKS.argument)
    .option('--wait', 'wait for the receiver and show what it answered; exit 10 when it did not acknowledge', false)
    .action((webhook: string, flags: { wait: boolean }) => run(context, { webhook, ...flags }))
}

/** POST /api/admin/webhooks/{id}/test. */
export async function testWebhook(context: CliContext, { webhook, wait }: TestWebhookInput): Promise<void> {
  const api = await context.api()
  const answer = await withId(context, WEBHOOKS, webhook, (id) =>
    api.send({ method: 'POST', path: `${itemPath(WEBHOOKS, id)}/test` }),
  )
  await showStarted(context, answer, { wait })
}
