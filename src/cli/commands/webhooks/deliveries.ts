import { Command, Option } from 'commander'
import { SUBSCRIBABLE_EVENTS, TEST_EVENT } from '../../../shared/event-catalog.ts'
import { PAGE_LIMIT } from '../../../shared/spec-limits.ts'
import type { Delivery } from '../../../shared/wire/webhooks.ts'
import type { CliContext } from '../../context.ts'
import { type ListFlags, type ListInput, listAll, toListInput } from '../../resources/listing.ts'
import { toId } from '../../resources/resolve.ts'
import { WEBHOOKS } from '../../resources/resources.ts'
import { DELIVERIES_PATH, deliveryPath, getDelivery, showStarted } from './delivery.ts'
import { DELIVERY_LIST_VIEW, DELIVERY_VIEW, WEBHOOK_ARGUMENT } from './view.ts'

const STATES: Record<Delivery['state'], true> = {
  pending: true,
  delivered: true,
  failed: true,
  held: true,
  cancelled: true,
}

type DeliveryFilter = { webhook?: string; state?: string; event?: string }
export type ListDeliveriesInput = ListInput & DeliveryFilter

export function listDeliveriesCommand(context: CliContext, run = listDeliveries): Command {
  return new Command('list')
    .description('List deliveries, the newest first.')
    .option('--webhook <webhook>', `only those to this endpoint: ${WEBHOOK_ARGUMENT}`)
    .addOption(new Option('--state <state>', 'only these').choices(Object.keys(STATES)))
    .addOption(
      new Option('-e, --event <event>', 'only those of this event').choices([...SUBSCRIBABLE_EVENTS, TEST_EVENT]),
    )
    .option('--limit <n>', 'how many', String(PAGE_LIMIT.large))
    .option('--all', 'every one, however many', false)
    .action((flags: ListFlags & DeliveryFilter) => run(context, { ...flags, ...toListInput(flags) }))
}

/** GET /api/admin/deliveries, page by page. Throws exit 3 for an address that no endpoint has. */
export async function listDeliveries(context: CliContext, input: ListDeliveriesInput): Promise<void> {
  const { webhook, state, event, limit, all } = input
  const webhookId = webhook === undefined ? undefined : await toId(context, WEBHOOKS, webhook)
  await listAll<Delivery>(context, {
    path: DELIVERIES_PATH,
    itemsKey: 'deliveries',
    query: { webhookId, state, event },
    limit,
    all,
    view: DELIVERY_LIST_VIEW,
  })
}

export function showDeliveryCommand(context: CliContext, run = showDelivery): Command {
  return new Command('show')
    .description('Show a delivery: what was sent, and what came back.')
    .argument('<delivery>', 'its id, which is the X-Service-Delivery of its requests')
    .action((delivery: string) => run(context, { delivery }))
}

/** GET /api/admin/deliveries/{id}. */
export async function showDelivery(context: CliContext, input: { delivery: string }): Promise<void> {
  const output = await context.output()
  const { delivery, raw } = await getDelivery(context, input.delivery)
  await output.one(delivery, DELIVERY_VIEW, raw)
}

export function resendCommand(context: CliContext, run = resendDelivery): Command {
  return new Command('resend')
    .description('Send the event of a delivery once more, as a delivery of its own.')
    .argument('<delivery>', 'id')
    .option('--wait', 'wait for the receiver and show what it answered; exit 10 when it did not acknowledge', false)
    .action((delivery: string, flags: { wait: boolean }) => run(context, { delivery, ...flags }))
}

/** POST /api/admin/deliveries/{id}/resend. */
export async function resendDelivery(context: CliContext, input: { delivery: string; wait: boolean }): Promise<void> {
  const api = await context.api()
  const answer = await api.send({ method: 'POST', path: `${deliveryPath(input.delivery)}/resend` })
  await showStarted(context, answer, input)
}
