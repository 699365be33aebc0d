/** Compares the bills of a month with the receipts. */
import { Command } from 'commander'
import type { z } from 'zod'
import type { ReconcileUsageResponse } from '../../../shared/wire/usage.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'
import { columns } from '../../output/formats.ts'

/** The gateway responds after it has read the log of the month. */
const RECONCILE_TIMEOUT_MS = 600_000

const VIEW = {
  columns: columns({
    SOURCE: 'source',
    HOLDER: 'holder',
    ID: 'id',
    FIELD: 'field',
    STORED: 'stored',
    RECEIPTS: 'receipts',
  }),
  members: ['source', 'holder', 'id', 'field', 'stored', 'receipts'],
  idPath: 'id',
  none: 'No differences.',
}

export function toCommand(context: CliContext): Command {
  return new Command('reconcile')
    .description(
      'Compare the billed sums of a month with the costs in the signed receipts, and print each difference.\n' +
        "Verify the receipts themselves with 'aigw audit verify'.",
    )
    .option('--month <month>', 'a month in UTC, such as 2026-01; by default the current month')
    .addHelpText('after', '\nExit code 1 if there are differences, or if entries are missing, expunged or damaged.')
    .action((flags: { month?: string }) => reconcile(context, flags))
}

/** GET /api/admin/usage/reconcile. */
async function reconcile(context: CliContext, flags: { month?: string }): Promise<void> {
  const month = flags.month ?? new Date(context.io.clock.now()).toISOString().slice(0, '2026-01'.length)
  if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(month))
    throw usageError(`--month must be a month such as 2026-01, not '${month}'`)
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  output.assertShowable(VIEW)
  const { body, raw } = await api.send<z.infer<typeof ReconcileUsageResponse>>({
    method: 'GET',
    path: `/api/admin/usage/reconcile?month=${month}`,
    timeoutMs: settings.timeoutFlagMs ?? RECONCILE_TIMEOUT_MS,
  })
  const { differences, receipts, holders, missing, unreadable, truncated } = body
  await output.list(differences, VIEW, raw)
  await context.note(`${month}: ${receipts} receipts of ${holders} accounts and keys were compared.`)
  const lost = missing + unreadable
  if (lost > 0)
    await context.note(
      `warning: ${missing} entries are missing and ${unreadable} have no readable payload, so their costs are unknown`,
    )
  if (truncated) await context.note('warning: there are more differences than shown')
  if (differences.some(({ source }) => source !== 'log'))
    throw new CliError(EXIT.error, `the bills of ${month} differ from the receipts`, { code: 'BILLS_DIFFER' })
  if (differences.length > 0 || lost > 0)
    throw new CliError(EXIT.error, `receipts of ${month} are missing or unreadable`, { code: 'RECEIPTS_MISSING' })
}
