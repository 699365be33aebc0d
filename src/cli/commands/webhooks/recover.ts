import { Command } from 'commander'
import type { z } from 'zod'
import type { RecoverResponse } from '../../../shared/wire/webhooks.ts'
import type { CliContext } from '../../context.ts'
import { PAST_FORMS, toPast } from '../../input/past-time.ts'
import { itemPath, withId } from '../../resources/resolve.ts'
import { WEBHOOKS } from './resource.ts'

const VIEW = { columns: [{ path: 'recovered' }], members: ['recovered'] }

export type RecoverInput = { webhook: string; since: string }

export function toCommand(context: CliContext, run = recover): Command {
  return new Command('recover')
    .description('Send an endpoint what failed, was held or was never passed on since a time.')
    .argument('<webhook>', WEBHOOKS.argument)
    .requiredOption('--since <when>', PAST_FORMS)
    .action((webhook: string, { since }: { since: string }) =>
      run(context, { webhook, since: toPast(since, '--since', context.io.clock.now()) }),
    )
}

/** POST /api/admin/webhooks/{id}/recover, until nothing is left. */
export async function recover(context: CliContext, { webhook, since }: RecoverInput): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  output.assertShowable(VIEW)
  await withId(context, WEBHOOKS, webhook, async (id) => {
    const request = { method: 'POST', path: `${itemPath(WEBHOOKS, id)}/recover`, json: { since } }
    let recovered = 0
    while (true) {
      const { body, raw } = await api.send<z.infer<typeof RecoverResponse>>(request)
      recovered += body.recovered
      if (settings.raw) await output.bytes(raw)
      if (!body.more || body.recovered === 0) break
      await context.note(`note: ${recovered} are on their way; going on`)
    }
    if (!settings.raw) await output.one({ recovered }, VIEW)
  })
}
