import type { z } from 'zod'
import { GatewayError } from '../../../shared/errors.ts'
import { isoTime } from '../../../shared/time.ts'
import { StructuredError } from '../../../shared/wire/common.ts'
import { AcknowledgeLossRequest, AcknowledgeLossResponse, ListLossesResponse } from '../../../shared/wire/evidence.ts'
import type { EvidenceLossRow } from '../../platform/db/tables.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'
import { type Activity, type ChangeDeps, change } from '../audit/change.ts'
import { acknowledgeLoss, type Losses, listLosses } from './losses.ts'

export type LossRouteDeps = ChangeDeps & { losses: Pick<Losses, 'forget'> }

/** Defines the routes with which an operator views lost history and acknowledges it. */
export function lossRoutes(deps: LossRouteDeps): Route[] {
  const { db, losses } = deps
  const common: Pick<Route, 'access' | 'errors' | 'tags'> = {
    access: 'operator',
    errors: 'structured',
    tags: ['Transparency'],
  }
  return [
    route({
      ...common,
      method: 'GET',
      rate: 'unmetered',
      path: '/api/external/transparency/losses',
      summary: 'List lost history of all tenants',
      responses: { 200: { description: 'All losses, oldest first', schema: ListLossesResponse } },
      async handle() {
        return reply(200, { losses: await listLosses(db) } satisfies z.input<typeof ListLossesResponse>)
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/api/external/transparency/losses/{lossId}/acknowledge',
      summary: 'Acknowledge lost history; the log records it',
      body: AcknowledgeLossRequest,
      responses: {
        200: { description: 'The acknowledged loss', schema: AcknowledgeLossResponse },
        404: { description: 'The loss does not exist, or is already acknowledged', schema: StructuredError },
      },
      async handle(context) {
        const { lossId = '' } = context.params
        const { reason } = context.body
        try {
          const loss = await change(deps, context, async ({ tx, record }) => {
            const found = await acknowledgeLoss(tx, lossId, isoTime(deps.clock.now()))
            if (!found) throw new GatewayError('LOSS_NOT_FOUND', 'No loss with this id is waiting to be acknowledged.')
            await record(toActivity(found, reason))
            return found
          })
          return reply(200, { success: true, message: 'Loss acknowledged', loss } satisfies z.input<
            typeof AcknowledgeLossResponse
          >)
        } finally {
          // The losses are also read again after a failure, because the COMMIT may have succeeded.
          losses.forget()
        }
      },
    }),
  ]
}

/** The entry is written to the log of the tenant whose history is lost, or to the log of the operator's tenant. */
const toActivity = (
  { id, cause, tenant_id, chain, successor, detail, found_at }: EvidenceLossRow,
  reason: string | undefined,
): Activity => ({
  type: 'evidence_management',
  operation: 'acknowledge_loss',
  resourceType: 'evidence_log',
  resourceId: id,
  severity: 'warning',
  description: `acknowledged lost history: ${detail}`,
  ...(tenant_id !== null && { tenantId: tenant_id }),
  metadata: { cause, chain, successor, found_at, reason },
})
