/** Reads deliveries and waits for their first attempt. */
import type { z } from 'zod'
import type { ShowDeliveryResponse } from '../../../shared/wire/webhooks.ts'
import { notAGateway } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { pause } from '../../io.ts'
import { columns } from '../../output/formats.ts'
import { createProgress } from '../../output/progress.ts'
import { itemIn } from '../../resources/resolve.ts'
import { DELIVERIES } from './resource.ts'

export type DeliveryDetails = z.infer<typeof ShowDeliveryResponse>['delivery']

/** Returns the path of one delivery. The id is escaped, so it remains one path segment. */
export const deliveryPath = (id: string): string => `${DELIVERIES.path}/${encodeURIComponent(id.trim())}`

const ACCEPTED_VIEW = { columns: columns({ DELIVERY: 'delivery_id' }), idPath: 'delivery_id' }

/**
 * Prints the id of a started delivery. With `wait`, prints the result of its first attempt instead. Throws an error
 * with exit code 10 if that attempt failed.
 */
export async function showStarted(
  context: CliContext,
  answer: { body: object; raw: Buffer },
  { wait }: { wait: boolean },
): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const id: unknown = Reflect.get(answer.body, 'delivery_id')
  if (typeof id !== 'string') throw notAGateway(EXIT.error, `${api.baseUrl} did not answer with a delivery`, {})
  if (!wait) return output.one({ delivery_id: id }, ACCEPTED_VIEW, answer.raw)
  const { delivery, raw } = await waitForAttempt(context, id)
  await output.one(delivery, DELIVERIES.view, raw)
  if (delivery.state === 'delivered') return
  throw new CliError(EXIT.checkFailed, `the delivery was not acknowledged (${whyNot(delivery)})`, {
    code: 'NOT_DELIVERED',
    hints: [
      ...(delivery.nextAttemptAt === null ? [] : [`The gateway retries at ${delivery.nextAttemptAt}.`]),
      `Its state:  aigw webhooks deliveries show ${id}`,
    ],
  })
}

const whyNot = ({ state, lastError, lastStatus }: DeliveryDetails): string =>
  lastError ?? (lastStatus === null ? state : `HTTP ${lastStatus}`)

export async function getDelivery(context: CliContext, id: string) {
  const api = await context.api()
  const { body, raw } = await api.send({ method: 'GET', path: deliveryPath(id) })
  return { delivery: itemIn<DeliveryDetails>(body, 'delivery', api.baseUrl), raw }
}

/** Maximum wait. An attempt takes at most 5 s, but a busy gateway may start the attempt late. */
const PATIENCE_MS = 30_000
const POLL_MS = { first: 100, longest: 2_000 }

/**
 * Polls until the first attempt has ended, or until no attempt is scheduled. Throws an error with exit code 10 after
 * `PATIENCE_MS`.
 */
async function waitForAttempt(context: CliContext, id: string) {
  const { io } = context
  const progress = createProgress(io, await context.settings())
  progress.show('Waiting for the receiver')
  const deadline = io.clock.monotonic() + PATIENCE_MS
  try {
    for (let waitMs = POLL_MS.first; ; waitMs = Math.min(waitMs * 2, POLL_MS.longest)) {
      const found = await getDelivery(context, id)
      if (found.delivery.state !== 'pending' || found.delivery.attempts > 0) return found
      if (io.clock.monotonic() >= deadline) {
        throw new CliError(EXIT.checkFailed, `nothing was sent within ${PATIENCE_MS / 1000} s`, {
          code: 'NOT_SENT',
          hints: [`Its state:  aigw webhooks deliveries show ${id}`],
        })
      }
      await pause(waitMs, io)
    }
  } finally {
    progress.end()
  }
}
