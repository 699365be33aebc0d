import { hash } from 'node:crypto'
import type { OutboxEventRow } from '../db/tables.ts'

/** Which limit a key ran into. */
export type LimitReached = {
  apiKeyId: string
  keyName: string
  userId: string
  limitType: 'minute' | 'hour' | 'daily' | 'monthly'
  /** The route whose own limit it is; null for a limit of the key. */
  endpoint: string | null
  limit: number
  used: number
  /** ISO 8601: when the window ends. */
  resetTime: string
}

/**
 * `api:limit_reached` (spec: Events; payload: named-endpoints §22). The id follows from key, counter and window, so that
 * one window is one event, however many requests and daemons run into its limit.
 */
export function limitReached(
  at: { tenantId: string; createdAt: string; counter: string; windowStart: string },
  data: LimitReached,
): OutboxEventRow {
  const source = JSON.stringify([at.tenantId, data.apiKeyId, at.counter, at.windowStart])
  return {
    id: `evt_${hash('sha256', source, 'hex').slice(0, 24)}`,
    tenant_id: at.tenantId,
    type: 'api:limit_reached',
    created_at: at.createdAt,
    data: JSON.stringify(data),
  }
}

/** One step of a chain from a model that failed to the next. */
export type ModelFailover = {
  failedModel: string
  /** A trigger of named-endpoints §6, or `circuit_open` for a model that was gone round. */
  reason: string
  nextModel: string
  /** What the failed attempt took. */
  latencyMs: number
  userId: string
  apiKeyId: string
}

/** `api:model_failover` (spec: Events). The id follows from request and step, so that no step is told of twice. */
export function modelFailover(
  at: { tenantId: string; createdAt: string; requestId: string; step: number },
  data: ModelFailover,
): OutboxEventRow {
  const source = JSON.stringify([at.tenantId, at.requestId, 'api:model_failover', at.step])
  return {
    id: `evt_${hash('sha256', source, 'hex').slice(0, 24)}`,
    tenant_id: at.tenantId,
    type: 'api:model_failover',
    created_at: at.createdAt,
    data: JSON.stringify(data),
  }
}
