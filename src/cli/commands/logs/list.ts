import { Command } from 'commander'
import { PAGE_LIMIT } from '../../../shared/spec-limits.ts'
import { isoTime } from '../../../shared/time.ts'
import type { ActivityLog } from '../../../shared/wire/logs.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { addFields, type Field, parseFlags, resolveFlags } from '../../input/fields.ts'
import { PAST_FORMS, parsePast } from '../../input/past-time.ts'
import { listAll } from '../../resources/listing.ts'
import { addListOptions, type ListFlags, toListInput } from '../../resources/options.ts'
import { toQuery } from '../../resources/verbs.ts'
import { FILTERS } from './filter.ts'
import { LOG_LIST_VIEW, LOGS_PATH } from './view.ts'

const FIELDS: Field[] = [
  ...FILTERS,
  {
    ...{ member: 'startDate', flag: '--since <when>', parse: parsePast },
    help: `only those from then on: ${PAST_FORMS} (default 7d)`,
  },
  { member: 'endDate', flag: '--until <when>', help: 'only those up to then; the same forms', parse: parsePast },
]

/** GET /activity-logs, page by page. */
export function toCommand(context: CliContext): Command {
  const command = new Command('list').description(
    'List requests to models and changes by administrators, the newest first; never the content of requests.',
  )
  return addListOptions(addFields(command, FIELDS)).action(
    async (flags: ListFlags & { since?: string; until?: string }) => {
      const { limit, all } = toListInput(flags)
      const given = parseFlags(context, FIELDS, command)
      const { startDate, endDate } = toQuery(given)
      if (startDate !== undefined && endDate !== undefined && endDate < startDate) {
        throw usageError(`--until ${flags.until} is before --since ${flags.since}`)
      }
      const filters = toQuery(await resolveFlags(context, FIELDS, given))
      // What is logged while pages are read would push others from page to page.
      const latest = all || limit > PAGE_LIMIT.max ? { endDate: isoTime(context.io.clock.now()) } : {}
      const source = { path: LOGS_PATH, itemsKey: 'logs', isInData: true, query: { ...latest, ...filters } }
      await listAll<ActivityLog>(context, { ...source, limit, all, view: LOG_LIST_VIEW })
    },
  )
}
