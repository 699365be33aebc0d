/** Lists lost history, and acknowledges it. */
import { Command } from 'commander'
import type { z } from 'zod'
import type { AcknowledgeLossResponse, ListLossesResponse } from '../../../shared/wire/evidence.ts'
import { notAGateway } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { EXIT, usageError } from '../../errors.ts'
import { TRANSPARENCY } from '../../evidence/gateway-source.ts'
import { columns, flexible } from '../../output/formats.ts'

type Loss = z.infer<typeof ListLossesResponse>['losses'][number]
type Flags = { acknowledge: boolean; reason?: string }

const VIEW = {
  idPath: 'id',
  none: 'No history is lost.',
  members: ['id', 'cause', 'tenant_id', 'chain', 'successor', 'detail', 'found_at', 'acknowledged_at'],
  columns: columns(
    { CAUSE: 'cause', TENANT: 'tenant_id', CHAIN: 'chain', 'CONTINUED IN': 'successor' },
    { FOUND: 'found_at', ACKNOWLEDGED: 'acknowledged_at', DETAIL: flexible('detail') },
  ),
}

export function toCommand(context: CliContext): Command {
  return new Command('losses')
    .description(
      'List the parts of the evidence that this gateway has lost (operator key). Until each loss is acknowledged, the\n' +
        'gateway is degraded. The log records who acknowledged a loss, and why.',
    )
    .option('--acknowledge', 'acknowledge all losses', false)
    .option('--reason <text>', 'with --acknowledge: why the history is lost')
    .addHelpText('after', '\nExample:\n  aigw audit losses --acknowledge --reason "restored the backup of Monday"')
    .action((flags: Flags) => listLosses(context, flags))
}

/** GET /transparency/losses; with `acknowledge`, POST /transparency/losses/{lossId}/acknowledge for each open loss. */
async function listLosses(context: CliContext, { acknowledge, reason }: Flags): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  output.assertShowable(VIEW)
  if (reason !== undefined && !acknowledge) throw usageError('--reason needs --acknowledge')
  const { body, raw, requestId } = await api.send<z.infer<typeof ListLossesResponse>>({
    method: 'GET',
    path: `${TRANSPARENCY}/losses`,
  })
  const { losses } = body
  if (!Array.isArray(losses)) {
    throw notAGateway(EXIT.error, `${api.baseUrl} did not answer with losses`, { requestId })
  }
  const open = losses.filter(({ acknowledged_at }) => acknowledged_at === null)
  if (!acknowledge || open.length === 0) return output.list(losses, VIEW, raw)
  for (const { cause, detail } of open) await context.note(`${cause}: ${detail}`)
  if (settings.dryRun) return context.note(`Would acknowledge ${open.length} losses.`)
  await context.confirm(`Acknowledge ${open.length} losses? Their history stays lost.`)
  const acknowledged: Loss[] = []
  for (const { id } of open) {
    const { body: done } = await api.send<z.infer<typeof AcknowledgeLossResponse>>({
      method: 'POST',
      path: `${TRANSPARENCY}/losses/${encodeURIComponent(id)}/acknowledge`,
      json: reason === undefined ? {} : { reason },
    })
    acknowledged.push(done.loss)
  }
  await context.note(`Acknowledged ${acknowledged.length} losses.`)
  await output.list(acknowledged, VIEW)
}
