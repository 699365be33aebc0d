import { isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { readLeaseTime } from '../../platform/db/lease-time.ts'
import { type AttemptResult, isAcknowledged } from './attempt.ts'
import type { Claim } from './endpoint-queues.ts'
import { afterDelivery, type Ending, type Health, isWarned, waitAfter } from './health.ts'
import {
  type EndpointHealth,
  type HealthRow,
  holdPending,
  lockHealth,
  releaseClaims,
  type Settlement,
  saveHealth,
  settleDeliveries,
} from './store.ts'

/** The attempt with which a claim ended. Undefined if the claim is released without an attempt. */
export type Outcome = { claim: Claim; attempt: (AttemptResult & { endedAt: number }) | undefined }

export type Settled = {
  /**
   * The claims that this daemon still owns, and the new states of their deliveries. `dueAt`: the time of the next
   * attempt, in milliseconds since 1970.
   */
  outcomes: { claim: Claim; state: Settlement['state']; dueAt: number | undefined }[]
  /** Endpoints that need an operator's attention, because they have just been disabled or soon will be. */
  alarms: { endpoint: EndpointHealth; health: Health }[]
}

/**
 * Stores the results of attempts and the health of their endpoints, in the order in which the attempts ended. If the
 * store rejects a result (for example, because of its response text), the result is stored without its texts. Other
 * results are unaffected.
 * @param dropped called with a result that the store rejects even without texts, and with the store's error
 * @throws errors of the store that may be temporary; it is safe to store the same results again
 */
export async function settle(
  db: Db,
  outcomes: readonly Outcome[],
  { now, dropped }: { now: number; dropped(outcome: Outcome, error: unknown): void },
): Promise<Settled> {
  const isRefused = (error: unknown): boolean => engineOf(db).failureOf(error) === 'row'
  try {
    return await settleTogether(db, outcomes, now)
  } catch (error) {
    if (!isRefused(error)) throw error
  }
  const all: Settled = { outcomes: [], alarms: [] }
  for (const outcome of outcomes) {
    try {
      const one = await settleTogether(db, [outcome], now).catch((error) => {
        if (!isRefused(error)) throw error
        return settleTogether(db, [withoutWords(outcome)], now)
      })
      all.outcomes.push(...one.outcomes)
      all.alarms.push(...one.alarms)
    } catch (error) {
      if (!isRefused(error)) throw error
      dropped(outcome, error)
    }
  }
  return all
}

function withoutWords({ claim, attempt }: Outcome): Outcome {
  if (!attempt) return { claim, attempt }
  const error = attempt.error === null ? null : 'failed; the store could not save the error text'
  return { claim, attempt: { ...attempt, error, response: null } }
}

/**
 * Stores the results of attempts and the health of their endpoints in one transaction, in order. If another daemon has
 * taken over a claim, the claim's result is ignored.
 */
async function settleTogether(db: Db, outcomes: readonly Outcome[], nowMs: number): Promise<Settled> {
  const now = isoTime(nowMs)
  return db.transaction().execute(async (tx) => {
    const endpoints = new Map(
      (await lockHealth(tx, [...new Set(outcomes.map(({ claim }) => claim.endpointId))])).map((row) => [row.id, row]),
    )
    const settlements = outcomes.flatMap(({ claim, attempt }) =>
      attempt ? [settlementOf(claim, attempt, endpoints.get(claim.endpointId)?.enabled === 1)] : [],
    )
    const ours = settlements.length > 0 ? await settleDeliveries(tx, settlements) : new Set<string>()
    const settled = settlements.filter(({ id }) => ours.has(id))
    await releaseClaims(
      tx,
      outcomes.flatMap(({ claim, attempt }) => (attempt ? [] : [claim])),
    )
    const claims = new Map(outcomes.map(({ claim }) => [claim.id, claim]))
    const { rows, alarms } = countEndings(settled, claims, endpoints, now)
    if (rows.length > 0) await saveHealth(tx, rows)
    const disabled = alarms.filter(({ health }) => health.enabled === 0)
    if (disabled.length > 0) {
      const leaseNow = isoTime(await readLeaseTime(tx, nowMs))
      for (const { endpoint } of disabled) await holdPending(tx, endpoint.id, leaseNow)
    }
    return {
      alarms,
      outcomes: settled.flatMap(({ id, state, due_at }) => {
        const claim = claims.get(id)
        const dueAt = state === 'pending' && due_at !== null ? Date.parse(due_at) : undefined
        return claim ? [{ claim, state, dueAt }] : []
      }),
    }
  })
}

function settlementOf(claim: Claim, attempt: AttemptResult & { endedAt: number }, enabled: boolean): Settlement {
  const { status, error, durationMs, response, endedAt } = attempt
  const attempts = claim.attempts + 1
  const told = {
    id: claim.id,
    fence: claim.fence,
    attempts,
    last_status: status,
    last_error: error,
    last_duration_ms: durationMs,
    last_response: response,
    due_at: null,
    delivered_at: null,
  }
  if (isAcknowledged(attempt)) return { ...told, state: 'delivered', delivered_at: isoTime(endedAt) }
  const waitMs = waitAfter(attempts)
  if (waitMs === undefined) return { ...told, state: 'failed' }
  return { ...told, state: enabled ? 'pending' : 'held', due_at: isoTime(endedAt + waitMs) }
}

function countEndings(
  settled: readonly Settlement[],
  claims: ReadonlyMap<string, Claim>,
  endpoints: ReadonlyMap<string, EndpointHealth>,
  now: string,
): { rows: HealthRow[]; alarms: Settled['alarms'] } {
  const rows = new Map<string, HealthRow>()
  const alarms: Settled['alarms'] = []
  for (const { id, state, last_status } of settled) {
    const claim = claims.get(id)
    const endpoint = endpoints.get(claim?.endpointId ?? '')
    if (!claim || !endpoint) continue
    const row = rows.get(endpoint.id) ?? { ...endpoint, last_delivery_at: now, last_status }
    const before: Health = { enabled: row.enabled, failures: row.failure_count }
    const health = claim.counts && isEnding(state) ? afterDelivery(before, state) : before
    if (health.failures > before.failures && (health.enabled === 0 || isWarned(health)))
      alarms.push({ endpoint, health })
    rows.set(endpoint.id, {
      id: endpoint.id,
      enabled: health.enabled,
      disabled_reason: before.enabled === 1 && health.enabled === 0 ? 'failures' : row.disabled_reason,
      failure_count: health.failures,
      last_delivery_at: now,
      last_status,
    })
  }
  return { rows: [...rows.values()], alarms }
}

const isEnding = (state: Settlement['state']): state is Ending => state === 'delivered' || state === 'failed'
