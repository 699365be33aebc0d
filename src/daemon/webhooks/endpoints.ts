import type { z } from 'zod'
import { GatewayError } from '../../shared/errors.ts'
import { newId } from '../../shared/ids.ts'
import { isoTime } from '../../shared/time.ts'
import { type CreateWebhookRequest, type UpdateWebhookRequest, WEBHOOK_READ_ONLY } from '../../shared/wire/webhooks.ts'
import type { Db } from '../platform/db/db.ts'
import type { WebhookEndpointRow } from '../platform/db/tables.ts'
import { changesIn } from '../platform/http/read-only.ts'
import { idOf } from '../platform/http/route.ts'
import type { MasterKey } from '../platform/secrets/seal.ts'
import { type Activity, type Actor, type Change, type ChangeDeps, change } from '../records/audit/change.ts'
import { newSigningSecret, sealSigningSecret } from './signing-secret.ts'
import {
  countEndpoints,
  deleteEndpoint,
  type EndpointWithHeld,
  findEndpoint,
  findEndpointWithHeld,
  insertEndpoint,
  rotateSecret,
  updateEndpoint,
} from './store.ts'
import { originOf, toWebhook } from './view.ts'

/** Maximum number of endpoints of one tenant. There is a limit, because the list is not paginated. */
export const WEBHOOK_ENDPOINTS = 2_000

export type WebhookDeps = ChangeDeps & {
  masterKey: MasterKey
  /** @throws VALIDATION_ERROR if the address is not allowed */
  checkTarget(url: string): Promise<void>
  /** Called after a commit that has changed an endpoint or its pending deliveries. */
  onChange(endpointId: string): void
}

/** An endpoint and its new secret. The API returns the secret only once. */
export type NewSecret = { endpoint: EndpointWithHeld; secret: string }

/** @throws VALIDATION_ERROR if the address is not allowed, or the tenant has too many endpoints */
export async function createWebhook(
  deps: WebhookDeps,
  actor: Actor,
  { url, description = '', events, enabled = true }: z.output<typeof CreateWebhookRequest>,
): Promise<NewSecret> {
  await deps.checkTarget(url)
  const now = deps.clock.now()
  const ids = { id: newId(now), tenant_id: actor.caller.tenantId }
  const secret = newSigningSecret()
  const fields: Omit<WebhookEndpointRow, 'secret'> = {
    ...ids,
    url,
    description,
    events: JSON.stringify(events),
    enabled: enabled ? 1 : 0,
    disabled_reason: enabled ? null : 'manual',
    failure_count: 0,
    held_dropped: 0,
    previous_secret: null,
    previous_secret_until: null,
    created_at: isoTime(now),
    updated_at: isoTime(now),
    last_delivery_at: null,
    last_status: null,
  }
  const row = await change(deps, actor, async ({ tx, record }) => {
    if ((await countEndpoints(tx, fields.tenant_id)) >= WEBHOOK_ENDPOINTS) {
      throw new GatewayError(
        'VALIDATION_ERROR',
        `A tenant may have at most ${WEBHOOK_ENDPOINTS} webhooks. Delete one first.`,
      )
    }
    // Sealed here: a rotation of the master key could end between an earlier sealing and this transaction.
    const sealed = { ...fields, secret: sealSigningSecret(deps.masterKey, ids, secret) }
    await insertEndpoint(tx, sealed)
    await record({ ...activityOn(sealed, 'create'), metadata: { url: originOf(url), events, enabled } })
    return sealed
  })
  deps.onChange(row.id)
  return { endpoint: { row, held: 0 }, secret }
}

/** Changes the fields that the request contains. @throws WEBHOOK_NOT_FOUND, VALIDATION_ERROR */
export async function updateWebhook(
  deps: WebhookDeps,
  actor: Actor,
  webhookId: string | undefined,
  request: z.output<typeof UpdateWebhookRequest>,
): Promise<EndpointWithHeld> {
  const { url } = request
  if (url !== undefined) {
    await getWebhook(deps.db, actor.caller.tenantId, webhookId)
    await deps.checkTarget(url)
  }
  const now = isoTime(deps.clock.now())
  return changeOne(deps, actor, webhookId, async ({ tx, caller, record, row }) => {
    const shown = toWebhook(await getWebhook(tx, caller.tenantId, row.id), now, caller)
    const { url: _, ...rest } = changesIn(request, WEBHOOK_READ_ONLY, shown)
    await updateEndpoint(tx, row, request, now)
    await record({
      ...activityOn({ ...row, url: url ?? row.url }, 'update'),
      metadata: { ...rest, ...(url !== undefined && { url: originOf(url) }) },
    })
  })
}

/**
 * Generates a new secret for an endpoint. The current secret also signs deliveries for `overlapSeconds`. Any older
 * secret stops signing immediately.
 * @throws WEBHOOK_NOT_FOUND
 */
export async function rotateWebhookSecret(
  deps: WebhookDeps,
  actor: Actor,
  webhookId: string | undefined,
  overlapSeconds: number,
): Promise<NewSecret> {
  const secret = newSigningSecret()
  const endpoint = await changeOne(deps, actor, webhookId, async ({ tx, record, row }) => {
    const now = deps.clock.now()
    await rotateSecret(tx, row, {
      sealed: sealSigningSecret(deps.masterKey, row, secret),
      previousUntil: overlapSeconds === 0 ? null : isoTime(now + overlapSeconds * 1000),
      updatedAt: isoTime(now),
    })
    await record({ ...activityOn(row, 'rotate'), metadata: { overlapSeconds } })
  })
  return { endpoint, secret }
}

/** Deletes an endpoint. Its pending deliveries are cancelled and remain in the log. @throws WEBHOOK_NOT_FOUND */
export async function deleteWebhook(deps: WebhookDeps, actor: Actor, webhookId: string | undefined): Promise<void> {
  const id = idOf(webhookId, webhookNotFound)
  await change(deps, actor, async ({ tx, caller, record }) => {
    const deleted = await deleteEndpoint(tx, caller.tenantId, id)
    if (!deleted) throw webhookNotFound()
    await record({ ...activityOn(deleted.endpoint, 'delete'), metadata: { cancelledDeliveries: deleted.cancelled } })
  })
  deps.onChange(id)
}

/** Returns the tenant's endpoint. `webhookId` is unvalidated input. @throws WEBHOOK_NOT_FOUND */
export async function getWebhook(db: Db, tenantId: string, webhookId: string | undefined): Promise<EndpointWithHeld> {
  const id = idOf(webhookId, webhookNotFound)
  const found = await findEndpointWithHeld(db, tenantId, id)
  if (!found) throw webhookNotFound()
  return found
}

/** Changes one endpoint and returns its new state. @throws WEBHOOK_NOT_FOUND */
export async function changeOne(
  deps: WebhookDeps,
  actor: Actor,
  webhookId: string | undefined,
  run: (one: Change & { row: WebhookEndpointRow }) => Promise<void>,
): Promise<EndpointWithHeld> {
  const id = idOf(webhookId, webhookNotFound)
  const endpoint = await change(deps, actor, async (the) => {
    const row = await findEndpoint(the.tx, the.caller.tenantId, id)
    if (!row) throw webhookNotFound()
    await run({ ...the, row })
    return getWebhook(the.tx, the.caller.tenantId, id)
  })
  deps.onChange(id)
  return endpoint
}

/** Rejects a request that would send a delivery to a disabled endpoint. @throws WEBHOOK_DISABLED */
export function requireEnabled({ id, enabled }: WebhookEndpointRow): void {
  if (enabled === 1) return
  throw new GatewayError(
    'WEBHOOK_DISABLED',
    `This webhook is disabled and receives no deliveries. Enable it first: PUT /api/admin/webhooks/${id} with {"enabled": true}.`,
  )
}

const webhookNotFound = () =>
  new GatewayError('WEBHOOK_NOT_FOUND', 'Webhook not found. GET /api/admin/webhooks lists all webhooks.')

const DONE = {
  create: 'created',
  update: 'updated',
  delete: 'deleted',
  rotate: 'rotated the signing secret of',
  test: 'sent a test to',
  resend: 'resent a delivery to',
  recover: 'recovered deliveries of',
} as const

export const activityOn = (
  { id, url }: Pick<WebhookEndpointRow, 'id' | 'url'>,
  operation: keyof typeof DONE,
): Activity => ({
  type: 'webhook_management',
  operation,
  resourceType: 'webhook',
  resourceId: id,
  description: `${DONE[operation]} webhook ${id} to ${originOf(url)}`,
})
