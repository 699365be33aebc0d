import { Command } from 'commander'
import type { ActivityLog } from '../../../shared/wire/logs.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { addFields, parseFlags, resolveFlags } from '../../input/fields.ts'
import type { Fields } from '../../input/from-file.ts'
import { toJson } from '../../output/formats.ts'
import type { Output } from '../../output/output.ts'
import type { Settings } from '../../profile/profile.ts'
import { toQuery } from '../../resources/verbs.ts'
import { FILTERS } from './filter.ts'
import { followLogs } from './follow.ts'

const LINES = 10

type Flags = { lines: string; limit?: string }
export type TailInput = {
  filters: Fields
  /** So many of those that are there already. */
  lines: number
  /** Ends after so many entries. */
  limit: number | undefined
}

export function toCommand(context: CliContext, run = tailLogs): Command {
  const command = new Command('tail').description(
    'Show the last entries, and every new one as it is logged, until Ctrl-C. Goes on when the gateway restarts.',
  )
  return addFields(command, FILTERS)
    .option('-n, --lines <n>', 'how many of those that are there already', String(LINES))
    .option('--limit <n>', 'end after so many entries')
    .action(({ lines, limit }: Flags) =>
      run(context, {
        filters: parseFlags(context, FILTERS, command),
        lines: toCount(lines, '--lines', 0),
        limit: limit === undefined ? undefined : toCount(limit, '--limit', 1),
      }),
    )
}

/** GET /activity-logs every five seconds, until it is stopped. */
export async function tailLogs(context: CliContext, { lines, limit, filters }: TailInput): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const show = shownIn(settings, output)
  const query = toQuery(await resolveFlags(context, FILTERS, filters))
  let shown = 0
  for await (const entry of followLogs(context, { query, lines })) {
    await show(entry)
    shown += 1
    if (shown === limit) return
  }
}

/** How each entry is printed. Throws a usage error for an output that a stream has not. */
function shownIn(
  { format = 'table', raw, field, fields }: Settings,
  output: Output,
): (entry: ActivityLog) => Promise<void> {
  if (raw || field !== undefined || fields.length > 0) throw usageError('tail prints whole entries')
  switch (format) {
    case 'table':
      return (entry) => output.text(`${toLine(entry)}\n`)
    case 'json':
    case 'ndjson':
      return (entry) => output.text(toJson(entry, { indent: 0, terminal: output.terminal }))
    case 'id':
      return ({ id }) => output.text(`${id}\n`)
    case 'yaml':
    case 'tsv':
      throw usageError(`tail does not print ${format}`, ['Use another format: -o table, ndjson or id.'])
  }
}

/** One line, whatever the names of others hold. */
const toLine = ({ timestamp, type, outcome, user, description }: ActivityLog): string =>
  [timestamp, type, outcome, user?.name ?? '-', description].join('  ').replace(/[\r\n]+/g, ' ')

function toCount(text: string, flag: string, least: 0 | 1): number {
  if (/^\d{1,5}$/.test(text) && Number(text) >= least) return Number(text)
  throw usageError(`${flag} must be a whole number from ${least} on, not '${text}'`)
}
