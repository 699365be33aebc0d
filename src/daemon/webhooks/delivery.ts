import { randomUUID } from 'node:crypto'
import { isoTime } from '../../shared/time.ts'
import type { OutboxEventRow, WebhookDeliveryRow } from '../platform/db/tables.ts'

/**
 * A new pending delivery of an event to an endpoint, due immediately.
 * @param now milliseconds since 1970
 */
export const newDelivery = (
  event: Pick<OutboxEventRow, 'id' | 'tenant_id' | 'type'>,
  endpointId: string,
  now: number,
  { resendOf = null, isTest = false }: { resendOf?: string | null; isTest?: boolean } = {},
): WebhookDeliveryRow => ({
  id: randomUUID(),
  tenant_id: event.tenant_id,
  endpoint_id: endpointId,
  event_id: event.id,
  event_type: event.type,
  created_at: isoTime(now),
  due_at: isoTime(now),
  state: 'pending',
  attempts: 0,
  lease_owner: null,
  lease_until: null,
  fence: 0,
  last_status: null,
  last_error: null,
  last_duration_ms: null,
  last_response: null,
  delivered_at: null,
  resend_of: resendOf,
  is_test: isTest ? 1 : 0,
})
