import { Command } from 'commander'
import { PAGE_LIMIT } from '../../../shared/spec-limits.ts'
import { isoTime } from '../../../shared/time.ts'
import type { ActivityLog } from '../../../shared/wire/logs.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { PAST_FORMS, toPast } from '../../input/past-time.ts'
import { listAll } from '../../resources/listing.ts'
import { type ListFlags, type ListInput, toListInput } from '../../resources/options.ts'
import { addFilterOptions, type FilterFlags, toQuery } from './filter.ts'
import { LOG_LIST_VIEW, LOGS_PATH } from './view.ts'

type Period = { since?: string; until?: string }
type Flags = Omit<FilterFlags, 'search'> & Period & ListFlags
export type ListLogsInput = Omit<FilterFlags, 'search'> & Period & ListInput

export function toCommand(context: CliContext, run = listLogs): Command {
  const command = new Command('list').description(
    'List what was done: requests to models and changes by administrators, the newest first; never what was said.',
  )
  return addFilterOptions(command)
    .option('--since <when>', `only those from then on: ${PAST_FORMS} (default 7d)`)
    .option('--until <when>', 'only those up to then; the same forms')
    .option('--limit <n>', 'how many', String(PAGE_LIMIT.large))
    .option('--all', 'every one, however many', false)
    .action((flags: Flags) => run(context, { ...flags, ...toListInput(flags) }))
}

/** GET /activity-logs, page by page. */
export async function listLogs(
  context: CliContext,
  { since, until, limit, all, ...filter }: ListLogsInput,
): Promise<void> {
  const nowMs = context.io.clock.now()
  const startDate = since === undefined ? undefined : toPast(since, '--since', nowMs)
  // What is logged while pages are read would push others from page to page.
  const latest = all || limit > PAGE_LIMIT.max ? isoTime(nowMs) : undefined
  const endDate = until === undefined ? latest : toPast(until, '--until', nowMs)
  if (until !== undefined && startDate !== undefined && endDate !== undefined && endDate < startDate) {
    throw usageError(`--until ${until} is before --since ${since}`)
  }
  await listAll<ActivityLog>(context, {
    path: LOGS_PATH,
    itemsKey: 'logs',
    isInData: true,
    query: { ...(await toQuery(context, filter)), startDate, endDate },
    limit,
    all,
    view: LOG_LIST_VIEW,
  })
}
