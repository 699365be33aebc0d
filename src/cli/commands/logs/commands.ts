/** Lists, shows and follows the log: requests to models and changes by administrators. */
import { Command } from 'commander'
import { PAGE_LIMIT } from '../../../shared/spec-limits.ts'
import { isoTime } from '../../../shared/time.ts'
import type { ActivityLog } from '../../../shared/wire/logs.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'
import { addFields, type Field, field, parseFlags, resolveFlags } from '../../input/fields.ts'
import { toWholeNumber } from '../../input/numbers.ts'
import { PERIOD } from '../../input/past-time.ts'
import { columns, findAtPath, flexible } from '../../output/formats.ts'
import { listAll, readPages } from '../../resources/listing.ts'
import { addListOptions, type ListFlags, toListInput } from '../../resources/options.ts'
import { idOf, toQuery } from '../../resources/verbs.ts'
import { KEYS } from '../keys/resource.ts'
import { USERS } from '../users/resource.ts'
import { LOGS_PATH } from './follow.ts'

/** The filters of `list` and `tail`. */
const FILTERS: Field[] = [
  field('type', '-e, --event <type>', 'only these: api_access, user_management, key_management …'),
  { member: 'status', flag: '--status <status>', help: 'only requests with this status: 404, 4xx', parse: toStatus },
  { member: 'outcome', flag: '--outcome <outcome>', help: 'only these', choices: ['success', 'denied', 'failure'] },
  field('severity', '--severity <severity>', 'only these', { choices: ['info', 'warning', 'error', 'critical'] }),
  { member: 'model', flag: '-m, --model <model>', help: 'only requests that this model served' },
  field('apiKeyId', '--key <key>', `only those of this API key: ${KEYS.argument}`, { resolve: idOf(KEYS) }),
  field('userId', '--user <user>', `only those of this user: ${USERS.argument}`, { resolve: idOf(USERS) }),
  { member: 'operation', flag: '--operation <operation>', help: 'only these: chat.completion, create, revoke …' },
  { member: 'search', flag: '--search <text>', help: 'only those with this in description, operation or endpoint' },
]

function toStatus(text: string, flag: string): string {
  if (/^[1-5](\d\d|xx)$/i.test(text)) return text.toLowerCase()
  throw usageError(`${flag} must be a status, not '${text}'`, ['Write 404, 4xx or 5xx.'])
}

const LIST_FIELDS: Field[] = [
  ...FILTERS,
  ...PERIOD.map((field) => (field.member === 'startDate' ? { ...field, help: `${field.help} (default 7d)` } : field)),
]

export const commands = { list: listCommand, tail: tailCommand, show: showCommand }

/** GET /activity-logs, page by page. */
function listCommand(context: CliContext): Command {
  const command = new Command('list').description(
    'List requests to models and changes by administrators, newest first; never the content of requests.',
  )
  return addListOptions(addFields(command, LIST_FIELDS)).action(
    async (flags: ListFlags & { since?: string; until?: string }) => {
      const { limit, all } = toListInput(flags)
      const given = await parseFlags(context, LIST_FIELDS, command)
      const { startDate, endDate } = toQuery(given)
      if (startDate !== undefined && endDate !== undefined && endDate < startDate) {
        throw usageError(`--until ${flags.until} is before --since ${flags.since}`)
      }
      const filters = toQuery(await resolveFlags(context, LIST_FIELDS, given))
      // Excludes entries that are added from now on, because they would shift older entries to the next page.
      const latest = all || limit > PAGE_LIMIT.max ? { endDate: isoTime(context.io.clock.now()) } : {}
      const source = { path: LOGS_PATH, itemsKey: 'logs', isInData: true, query: { ...latest, ...filters } }
      await listAll<ActivityLog>(context, { ...source, limit, all, view: LIST_VIEW })
    },
  )
}

type TailFlags = { lines: string; limit?: string }

/** GET /activity-logs every five seconds, until Ctrl-C. */
function tailCommand(context: CliContext): Command {
  const command = new Command('tail').description(
    'Show the last entries, and every new one as it is logged, until Ctrl-C. Continues after a restart of the gateway.',
  )
  return addFields(command, FILTERS)
    .option('-n, --lines <n>', 'how many existing entries', '10')
    .option('--limit <n>', 'end after so many entries')
    .action(async (flags: TailFlags) => {
      const given = await parseFlags(context, FILTERS, command)
      const lines = toWholeNumber(flags.lines, '--lines', { min: 0 })
      const limit = flags.limit === undefined ? undefined : toWholeNumber(flags.limit, '--limit', { min: 1 })
      const [{ streamPrinter }, { followLogs }] = await Promise.all([
        import('../../output/stream-printer.ts'),
        import('./follow.ts'),
      ])
      const show = await streamPrinter<ActivityLog>(context, { name: 'tail', items: 'entries', toWords })
      const query = toQuery(await resolveFlags(context, FILTERS, given))
      let shown = 0
      for await (const entry of followLogs(context, { query, lines })) {
        await show(entry)
        shown += 1
        if (shown === limit) return
      }
    })
}

const toWords = ({ timestamp, type, outcome, user, description }: ActivityLog): string[] => [
  timestamp,
  type,
  outcome ?? '',
  user?.name ?? '-',
  description,
]

/** The query for the whole log. By default, the gateway returns only the last week. */
const WHOLE_LOG = { startDate: '1970-01-01T00:00:00.000Z' }
const MOST_ENTRIES = 100

/** GET /activity-logs for one request. Throws an error with exit code 3 if the log has no entry for the request. */
function showCommand(context: CliContext): Command {
  return new Command('show')
    .description(
      'Show the log entries of one request: its kind, author and result, and what providers answered to failed attempts.',
    )
    .argument('<id>', 'request id (req-…), which lists every entry of it, or bundle id (jti-…), which is one entry')
    .action(async (given: string) => {
      const output = await context.output()
      const id = given.trim()
      const isBundle = id.startsWith('jti-')
      const query = { ...WHOLE_LOG, ...(isBundle ? { bundleId: id } : { requestId: id }) }
      const source = { path: LOGS_PATH, itemsKey: 'logs', isInData: true, query }
      for await (const { rows, raw } of readPages<ActivityLog>(context, source, MOST_ENTRIES)) {
        const [first] = rows
        if (first === undefined) break
        return isBundle ? output.one(first, VIEW, raw) : output.list(rows, VIEW, raw)
      }
      throw new CliError(EXIT.notFound, `the log has no entry of '${id}'`, {
        code: 'LOG_NOT_FOUND',
        hints: ['To list recent entries, run: aigw logs list --since 30d'],
      })
    })
}

/**
 * Example: `openai/gpt-4o failed: auth_failed, HTTP 401, provider's id req_1, 80 ms, provider's message: "Incorrect API
 * key."; local/extract served: 3 ms`.
 */
function toAttempts(attempts: unknown): unknown {
  if (!Array.isArray(attempts)) return attempts
  const texts = attempts.map((attempt) => {
    const at = (member: string) => findAtPath(attempt, member) ?? undefined
    const status = at('providerStatus')
    const id = at('providerRequestId')
    const message = at('providerMessage')
    const facts = [
      at('reason'),
      status === undefined ? undefined : `HTTP ${status}`,
      id === undefined ? undefined : `provider's id ${id}`,
      `${at('latencyMs')} ms`,
      message === undefined ? undefined : `provider's message: "${message}"`,
    ]
    return `${at('model')} ${at('status')}: ${facts.filter((fact) => fact !== undefined).join(', ')}`
  })
  return texts.join('; ')
}

const IN_LISTS = columns(
  { WHEN: 'timestamp', TYPE: 'type', OUTCOME: 'outcome' },
  { USER: ['user', (user: unknown) => findAtPath(user, 'name') ?? user], DESCRIPTION: flexible('description') },
  { REQUEST: 'metadata.requestId' },
)

const shared = { idPath: 'id', none: 'No log entries.' }

const LIST_VIEW = { ...shared, columns: IN_LISTS }

/** The view of one entry, with all its members. */
const VIEW = {
  ...shared,
  columns: [
    ...IN_LISTS,
    ...columns(
      { ATTEMPTS: ['metadata.attempts', toAttempts], SEVERITY: 'severity', CATEGORY: 'complianceCategory' },
      { RESOURCE: 'resourceType', 'RESOURCE ID': 'resourceId', DETAILS: 'metadata', ID: 'id' },
    ),
  ],
}
