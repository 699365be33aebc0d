import { Command } from 'commander'
import type { z } from 'zod'
import { isoTime } from '../../../shared/time.ts'
import type { RecoverResponse } from '../../../shared/wire/webhooks.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { itemPath, withId } from '../../resolve.ts'
import { WEBHOOKS } from '../../resources.ts'
import { WEBHOOK_ARGUMENT } from './view.ts'

const VIEW = { columns: [{ path: 'recovered' }], members: ['recovered'] }

export type RecoverInput = { webhook: string; since: string }

export function recoverCommand(context: CliContext, run = recover): Command {
  return new Command('recover')
    .description('Send an endpoint what failed, was held or was never passed on since a time.')
    .argument('<webhook>', WEBHOOK_ARGUMENT)
    .requiredOption('--since <when>', '30m, 12h or 7d ago, 2030-01-31 or 2030-01-31T12:00:00Z')
    .action((webhook: string, { since }: { since: string }) =>
      run(context, { webhook, since: toPast(since, context.io.clock.now()) }),
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

const UNIT_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
const TIME = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/

/** ISO 8601 of a time that was. Throws a usage error for what is none. */
function toPast(text: string, nowMs: number): string {
  const [, amount, unit = ''] = /^(\d{1,6})([mhdw])$/.exec(text) ?? []
  const ms =
    amount === undefined
      ? TIME.test(text)
        ? Date.parse(text)
        : Number.NaN
      : nowMs - Number(amount) * (UNIT_MS[unit] ?? 0)
  if (Number.isNaN(ms)) {
    throw usageError(`--since must be a time, not '${text}'`, ['Write 30m, 12h, 7d, or 2030-01-31T12:00:00Z.'])
  }
  return isoTime(ms)
}
