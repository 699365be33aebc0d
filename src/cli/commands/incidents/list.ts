import { Command, Option } from 'commander'
import { PAGE_LIMIT } from '../../../shared/spec-limits.ts'
import type {
  GuardDirection,
  Incident,
  IncidentAction,
  IncidentKind,
  Severity,
} from '../../../shared/wire/incidents.ts'
import type { CliContext } from '../../context.ts'
import { type ListFlags, type ListInput, listAll, toListInput } from '../../resources/listing.ts'
import { toId } from '../../resources/resolve.ts'
import { KEYS, USERS } from '../../resources/resources.ts'
import { addPeriodOptions, INCIDENTS_PATH, type PeriodFlags, toPeriod } from './period.ts'
import { INCIDENT_LIST_VIEW } from './view.ts'

const KINDS: Record<IncidentKind, true> = { prompt_shield: true, canary: true, dlp: true, pii: true, policy: true }
const SEVERITIES: Record<Severity, true> = { low: true, medium: true, high: true, critical: true }
const DIRECTIONS: Record<GuardDirection, true> = { input: true, retrieved: true, output: true }
const ACTIONS: Record<IncidentAction, true> = {
  log: true,
  flag: true,
  mask: true,
  remove: true,
  tokenize: true,
  block: true,
}

type Filter = {
  kind?: string
  severity?: string
  direction?: string
  action?: string
  key?: string
  user?: string
  request?: string
}
type Flags = ListFlags & Filter & PeriodFlags
export type ListIncidentsInput = ListInput & Filter & PeriodFlags

export function listCommand(context: CliContext, run = listIncidents): Command {
  const command = new Command('list')
    .description('List what guards have found, the newest first; never the values.')
    .addOption(new Option('--kind <kind>', 'only these').choices(Object.keys(KINDS)))
    .addOption(new Option('--severity <severity>', 'only these').choices(Object.keys(SEVERITIES)))
    .addOption(new Option('--direction <direction>', 'only what was there').choices(Object.keys(DIRECTIONS)))
    .addOption(new Option('--action <action>', 'only those for which it is prescribed').choices(Object.keys(ACTIONS)))
    .option('--key <key>', 'only those of this API key: id, or name if only one has it')
    .option('--user <user>', 'only those of this user: id, name, username or email')
    .option('--request <id>', 'only those of this request')
  return addPeriodOptions(command)
    .option('--limit <n>', 'how many', String(PAGE_LIMIT.large))
    .option('--all', 'every one, however many', false)
    .action((flags: Flags) => run(context, { ...flags, ...toListInput(flags) }))
}

/** GET /api/admin/incidents, page by page. Throws exit 3 for a key or user that does not exist. */
export async function listIncidents(context: CliContext, input: ListIncidentsInput): Promise<void> {
  const { kind, severity, direction, action, request: requestId, limit, all } = input
  const period = toPeriod(input, context.io.clock.now())
  const apiKeyId = input.key === undefined ? undefined : await toId(context, KEYS, input.key)
  const userId = input.user === undefined ? undefined : await toId(context, USERS, input.user)
  await listAll<Incident>(context, {
    path: INCIDENTS_PATH,
    itemsKey: 'incidents',
    query: { kind, severity, direction, action, apiKeyId, userId, requestId, ...period },
    limit,
    all,
    view: INCIDENT_LIST_VIEW,
  })
}
