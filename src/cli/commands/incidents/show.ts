import { Command } from 'commander'
import type { Incident } from '../../../shared/wire/incidents.ts'
import type { CliContext } from '../../context.ts'
import { itemIn, itemPath } from '../../resources/resolve.ts'
import { INCIDENTS_PATH } from './period.ts'
import { INCIDENT_VIEW } from './view.ts'

export function showCommand(context: CliContext, run = showIncident): Command {
  return new Command('show')
    .description('Show an incident: what kind of thing was found where, and what was done about it.')
    .argument('<incident>', 'id')
    .action((id: string) => run(context, id))
}

/** GET /api/admin/incidents/{id}. Throws exit 3 when there is none. */
export async function showIncident(context: CliContext, id: string): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { body, raw } = await api.send({ method: 'GET', path: itemPath({ path: INCIDENTS_PATH }, id) })
  await output.one(itemIn<Incident>(body, 'incident', api.baseUrl), INCIDENT_VIEW, raw)
}
