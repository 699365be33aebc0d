/** Lists, shows and counts the findings of guards. */
import { Command } from 'commander'
import type { z } from 'zod'
import type {
  CountIncidentsResponse,
  GuardDirection,
  Incident,
  IncidentAction,
  IncidentKind,
  Severity,
} from '../../../shared/wire/incidents.ts'
import type { CliContext } from '../../context.ts'
import { addFields, field, parseFlags } from '../../input/fields.ts'
import { PERIOD } from '../../input/past-time.ts'
import { columns } from '../../output/formats.ts'
import { itemIn, itemPath } from '../../resources/resolve.ts'
import { idOf, listVerb, toQuery } from '../../resources/verbs.ts'
import { KEYS } from '../keys/resource.ts'
import { USERS } from '../users/resource.ts'
import { INCIDENTS } from './resource.ts'

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

export const commands = {
  list: listVerb(INCIDENTS, {
    description: 'List findings of guards, newest first; never the values.',
    fields: [
      { member: 'kind', flag: '--kind <kind>', help: 'only these', choices: Object.keys(KINDS) },
      { member: 'severity', flag: '--severity <severity>', help: 'only these', choices: Object.keys(SEVERITIES) },
      field('direction', '--direction <direction>', 'only those in these texts', { choices: Object.keys(DIRECTIONS) }),
      field('action', '--action <action>', 'only those with this action', { choices: Object.keys(ACTIONS) }),
      field('apiKeyId', '--key <key>', `only those of this API key: ${KEYS.argument}`, { resolve: idOf(KEYS) }),
      field('userId', '--user <user>', `only those of this user: ${USERS.argument}`, { resolve: idOf(USERS) }),
      { member: 'requestId', flag: '--request <id>', help: 'only those of this request' },
      ...PERIOD,
    ],
  }),
  show: showCommand,
  counts: countsCommand,
}

/** GET /api/admin/incidents/{id}. Throws an error with exit code 3 if it is not found. */
function showCommand(context: CliContext): Command {
  return new Command('show')
    .description('Show an incident: the kind of finding, its location, and the action.')
    .argument('<incident>', INCIDENTS.argument)
    .action(async (id: string) => {
      const [api, output] = await Promise.all([context.api(), context.output()])
      const { body, raw } = await api.send({ method: 'GET', path: itemPath(INCIDENTS, id) })
      await output.one(itemIn<Incident>(body, INCIDENTS.itemKey, api.baseUrl), INCIDENTS.view, raw)
    })
}

const COUNTS_VIEW = {
  columns: columns({ KIND: 'kind', SEVERITY: 'severity', ACTION: 'action', ENFORCED: 'enforced', COUNT: 'count' }),
  none: 'No incidents.',
}

/** GET /api/admin/incidents/counts. */
function countsCommand(context: CliContext): Command {
  const command = new Command('counts').description('Count incidents by kind, severity and action.')
  return addFields(command, PERIOD).action(async () => {
    const query = toQuery(await parseFlags(context, PERIOD, command))
    const [api, output] = await Promise.all([context.api(), context.output()])
    const request = { method: 'GET', path: `${INCIDENTS.path}/counts`, query }
    const { body, raw } = await api.send<z.infer<typeof CountIncidentsResponse>>(request)
    await output.list(body.counts, COUNTS_VIEW, raw)
  })
}
