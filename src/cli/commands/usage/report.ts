/** Reports usage and cost by any groups. */
import { Command } from 'commander'
import type { z } from 'zod'
import type { CostReportResponse, ReportGroup } from '../../../shared/wire/usage.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { PAST_FORMS, parsePast } from '../../input/past-time.ts'
import { type Column, columns, flexible, type View } from '../../output/formats.ts'

type Flags = { by: string[]; since?: string; until?: string }

const GROUP_COLUMNS: Record<ReportGroup, Column[]> = {
  day: columns({ DAY: 'day' }),
  tenant: columns({ TENANT: flexible('tenantName'), 'TENANT ID': 'tenantId' }),
  user: columns({ USER: flexible('userName'), 'USER ID': 'userId' }),
  key: columns({ KEY: flexible('apiKeyName'), 'KEY ID': 'apiKeyId' }),
  provider: columns({ PROVIDER: 'provider' }),
  model: columns({ MODEL: flexible('model') }),
  tag: columns({ TAG: 'tag' }),
}
const GROUPS = Object.keys(GROUP_COLUMNS)
const SUMS = columns(
  { REQUESTS: 'requests', INPUT: 'inputTokens', OUTPUT: 'outputTokens', POINTS: 'points', DOLLARS: 'dollars' },
  { 'LIST PRICE': 'listPrice' },
)

const viewOf = (by: readonly ReportGroup[]): View => {
  const shown = [...by.flatMap((group) => GROUP_COLUMNS[group]), ...SUMS]
  return { columns: shown, members: shown.map(({ path }) => path), none: 'No billed requests in this period.' }
}

const isGroup = (text: string): text is ReportGroup => Object.hasOwn(GROUP_COLUMNS, text)

export function toCommand(context: CliContext): Command {
  return new Command('report')
    .description('Sum billed requests, tokens, points and exact dollars. Days are UTC.')
    .option('--by <groups...>', `groups, separated by commas: ${GROUPS.join(', ')}`, ['day'])
    .option('--since <when>', `from this day on (default: the first day of the month): ${PAST_FORMS}`)
    .option('--until <when>', 'up to and including this day; the same forms')
    .addHelpText('after', '\nExample:\n  aigw usage report --by user,model --since 30d -o csv > cost.csv')
    .action((flags: Flags) => report(context, flags))
}

/** GET /usage/report. */
async function report(context: CliContext, flags: Flags): Promise<void> {
  const by = [...new Set(flags.by.flatMap((text) => text.split(',')))]
  const unknown = by.find((group) => !isGroup(group))
  if (unknown !== undefined) throw usageError(`--by cannot be '${unknown}'`, [`Groups:  ${GROUPS.join(', ')}`])
  const view = viewOf(by.filter(isGroup))
  const [api, output] = await Promise.all([context.api(), context.output()])
  output.assertShowable(view)
  const query = {
    by: by.join(','),
    since: dayOf(flags.since, '--since', context),
    until: dayOf(flags.until, '--until', context),
  }
  const { body, raw } = await api.send<z.infer<typeof CostReportResponse>>({
    method: 'GET',
    path: 'usage/report',
    query,
  })
  await output.list(body.rows, view, raw)
  if (body.truncated)
    await context.note('warning: there are more rows than shown; choose a shorter period or fewer groups')
}

const dayOf = (text: string | undefined, flag: string, context: CliContext): string | undefined =>
  text === undefined ? undefined : parsePast(text, flag, context).slice(0, '2026-01-31'.length)
