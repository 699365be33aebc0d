/** Lists, shows and resends deliveries. */
import { Command } from 'commander'
import { SUBSCRIBABLE_EVENTS, TEST_EVENT } from '../../../shared/event-catalog.ts'
import type { Delivery } from '../../../shared/wire/webhooks.ts'
import type { CliContext } from '../../context.ts'
import { field } from '../../input/fields.ts'
import { idOf, listVerb } from '../../resources/verbs.ts'
import { deliveryPath, getDelivery, showStarted } from './delivery.ts'
import { DELIVERIES, WEBHOOKS } from './resource.ts'

const STATES: Record<Delivery['state'], true> = {
  pending: true,
  delivered: true,
  failed: true,
  held: true,
  cancelled: true,
}

export const commands = {
  list: listVerb(DELIVERIES, {
    description: 'List deliveries, newest first.',
    fields: [
      field('webhookId', '--webhook <webhook>', `only those to this endpoint: ${WEBHOOKS.argument}`, {
        resolve: idOf(WEBHOOKS),
      }),
      { member: 'state', flag: '--state <state>', help: 'only these', choices: Object.keys(STATES) },
      field('event', '-e, --event <event>', 'only those of this event', {
        choices: [...SUBSCRIBABLE_EVENTS, TEST_EVENT],
      }),
    ],
  }),
  show: showCommand,
  resend: resendCommand,
}

/** GET /api/admin/deliveries/{id}. */
function showCommand(context: CliContext): Command {
  return new Command('show')
    .description('Show a delivery: the request and the response.')
    .argument('<delivery>', DELIVERIES.argument)
    .action(async (id: string) => {
      const output = await context.output()
      const { delivery, raw } = await getDelivery(context, id)
      await output.one(delivery, DELIVERIES.view, raw)
    })
}

/** POST /api/admin/deliveries/{id}/resend. */
function resendCommand(context: CliContext): Command {
  return new Command('resend')
    .description('Send the event of a delivery again, as a new delivery.')
    .argument('<delivery>', 'id')
    .option('--wait', 'wait for the receiver and show its response; exit 10 if it did not acknowledge', false)
    .action(async (id: string, flags: { wait: boolean }) => {
      const api = await context.api()
      const answer = await api.send({ method: 'POST', path: `${deliveryPath(id)}/resend` })
      await showStarted(context, answer, flags)
    })
}
