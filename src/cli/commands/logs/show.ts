import { Command } from 'commander'
import type { ActivityLog } from '../../../shared/wire/logs.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { readPages } from '../../resources/listing.ts'
import { LOG_VIEW, LOGS_PATH } from './view.ts'

/** Of the log that is kept for ever; the gateway shows a week unless it is told. */
const EVER = '1970-01-01T00:00:00.000Z'
const MOST_ENTRIES = 100

export function toCommand(context: CliContext, run = showLog): Command {
  return new Command('show')
    .description('Show what was logged of one request: what it was, who made it, what became of it.')
    .argument('<id>', 'request id (req-…), which lists every entry of it, or bundle id (jti-…), which is one entry')
    .action((id: string) => run(context, id))
}

/** GET /activity-logs of one request. Throws exit 3 when nothing was logged of it. */
export async function showLog(context: CliContext, given: string): Promise<void> {
  const output = await context.output()
  const id = given.trim()
  const isBundle = id.startsWith('jti-')
  const query = { startDate: EVER, ...(isBundle ? { bundleId: id } : { requestId: id }) }
  const source = { path: LOGS_PATH, itemsKey: 'logs', isInData: true, query }
  for await (const { rows, raw } of readPages<ActivityLog>(context, source, MOST_ENTRIES)) {
    const [first] = rows
    if (first === undefined) break
    return isBundle ? output.one(first, LOG_VIEW, raw) : output.list(rows, LOG_VIEW, raw)
  }
  throw new CliError(EXIT.notFound, `nothing was logged of '${id}'`, {
    code: 'LOG_NOT_FOUND',
    hints: ['Which are there?  aigw logs list --since 30d'],
  })
}
