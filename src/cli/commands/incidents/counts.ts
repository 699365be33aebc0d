import { Command } from 'commander'
import type { z } from 'zod'
import type { CountIncidentsResponse } from '../../../shared/wire/incidents.ts'
import type { CliContext } from '../../context.ts'
import { addPeriodOptions, INCIDENTS_PATH, type PeriodFlags, toPeriod } from './period.ts'

const VIEW = {
  columns: [{ path: 'kind' }, { path: 'severity' }, { path: 'action' }, { path: 'enforced' }, { path: 'count' }],
  none: 'No incidents.',
}

export function countsCommand(context: CliContext, run = countIncidents): Command {
  const command = new Command('counts').description('Count incidents by what they are and what was done.')
  return addPeriodOptions(command).action((flags: PeriodFlags) => run(context, flags))
}

/** GET /api/admin/incidents/counts. */
export async function countIncidents(context: CliContext, input: PeriodFlags): Promise<void> {
  const query = toPeriod(input, context.io.clock.now())
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { body, raw } = await api.send<z.infer<typeof CountIncidentsResponse>>({
    method: 'GET',
    path: `${INCIDENTS_PATH}/counts`,
    query,
  })
  await output.list(body.counts, VIEW, raw)
}
