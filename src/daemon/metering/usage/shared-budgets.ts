import type { GatewayError } from '../../../shared/errors.ts'
import type { BillingMode } from '../../../shared/wire/billing.ts'
import { createBatches } from '../../platform/db/batches.ts'
import type { Db } from '../../platform/db/db.ts'
import {
  deleteReservations,
  insertReservations,
  lockSpend,
  type Reservation,
  type ReservedRequest,
  renewReservations,
  type SpendCounterKey,
  spendCounterName,
  sumReservations,
} from '../../platform/db/spend-counters.ts'
import { createRepeater } from '../../platform/jobs/repeater.ts'
import type { Payment } from './payment.ts'
import { type Period, periodAt } from './period.ts'
import {
  type Budgets,
  type BudgetsDeps,
  fallbackOf,
  hasBudget,
  isLimited,
  modeFor,
  nanosFor,
  refusalOf,
  type SpendRequest,
} from './spend-request.ts'

/** Duration of a reservation's lease on PostgreSQL. A daemon renews its leases every RESERVATION_RENEW_MS. */
export const RESERVATION_LEASE_MS = 60_000
export const RESERVATION_RENEW_MS = 15_000
/**
 * Maximum time that a request waits for locked counters. After this time, the waiting requests of each payer are
 * decided in a separate transaction.
 */
export const SPEND_LOCK_WAIT_MS = 1_000

/**
 * Larger groups of requests are split into several transactions, so that the first requests in a group need not wait
 * for the whole group.
 */
const REQUESTS_PER_TRANSACTION = 500

type SpendDecision = { period: string; mode: BillingMode; coveredNanos: number | undefined }
type Decision = SpendDecision | { refusal: GatewayError }

/**
 * Budgets for any number of daemons on one PostgreSQL store. The rows are authoritative, and are locked while
 * requests are decided. The limits are therefore exact across daemons. Requests that arrive during a transaction are
 * decided together in the next transaction. Unlimited requests skip the database. Reservations are leases: a daemon
 * renews them while their request runs. If the daemon is killed, its reservations expire soon.
 */
export function createSharedBudgets({ db, clock, log, onSpent, onRefused }: BudgetsDeps): Budgets {
  const decided = createBatches({
    db,
    size: REQUESTS_PER_TRANSACTION,
    groupOf: ({ tenantId, payerId }) => `${tenantId} ${payerId}`,
    run: decideIn,
  })
  /**
   * This daemon's reservations by request. `running`: the request is running. `leftOver`: the reservation could not be
   * deleted yet.
   */
  const running = new Map<string, ReservedRequest>()
  const leftOver = new Map<string, ReservedRequest>()
  const renewal = createRepeater(clock, RESERVATION_RENEW_MS, {
    isNeeded: () => running.size > 0 || leftOver.size > 0,
    async run() {
      const ended = [...leftOver]
      if (running.size > 0) await renewReservations(db, [...running.values()], RESERVATION_LEASE_MS)
      await deleteReservations(
        db,
        ended.map(([, request]) => request),
      )
      for (const [id] of ended) leftOver.delete(id)
    },
    // A failed renewal is only logged: the lease outlasts several failed renewals.
    failed: (error) => log.error({ error, requests: running.size }, 'reservations could not be renewed'),
  })

  async function decideIn(tx: Db, requests: readonly SpendRequest[]): Promise<Decision[]> {
    const period = periodAt(clock.now())
    const keys = new Map<string, SpendCounterKey>()
    for (const request of requests) {
      for (const key of counterKeys(request, period)) keys.set(spendCounterName(key), key)
    }
    const counters = new Map(
      (await lockSpend(tx, [...keys.values()], SPEND_LOCK_WAIT_MS)).map((row) => [
        spendCounterName(row),
        new CounterState(row),
      ]),
    )
    for (const row of await sumReservations(tx, [...keys.values()])) {
      counters.get(spendCounterName(row))?.reserve(row)
    }
    const reservations: Reservation[] = []
    const decisions = requests.map((request): Decision => {
      const stateOf = (key: SpendCounterKey) => counters.get(spendCounterName(key)) as CounterState
      const user = stateOf(userKey(request, period))
      const standing = {
        points: user.points,
        userNanos: user.nanos,
        keyNanos: stateOf(keyKey(request, period)).nanos,
        budgets: budgetKeys(request, period).map((key) => stateOf(key).nanos),
      }
      const mode = modeFor(request, standing)
      if (mode === undefined) return { refusal: refusalOf(request, standing, period, clock.now()) }
      const coveredNanos = mode === 'usage-by-model' && hasBudget(request) ? nanosFor(request, standing) : undefined
      for (const row of reservationsOf(request, { mode, coveredNanos }, period)) {
        reservations.push(row)
        counters.get(spendCounterName(row))?.reserve(row)
      }
      return { period: period.name, mode, coveredNanos }
    })
    await insertReservations(tx, reservations, RESERVATION_LEASE_MS)
    return decisions
  }

  function toPayment(
    request: SpendRequest,
    { mode, period, coveredNanos }: SpendDecision,
    isReserved: boolean,
  ): Payment {
    const reserved = isReserved ? { tenant_id: request.tenantId, request_id: request.requestId } : undefined
    if (reserved) {
      running.set(request.requestId, reserved)
      renewal.check()
    }
    function ended(): void {
      running.delete(request.requestId)
      renewal.check()
    }
    return {
      mode,
      fallback: fallbackOf(request.mode, mode),
      period,
      coveredNanos,
      reserved,
      settled({ amount }) {
        ended()
        if (amount.nanos > 0 && hasBudget(request)) onSpent?.(request, period, amount.nanos)
      },
      release() {
        if (!reserved || !running.has(request.requestId)) return undefined
        ended()
        return deleteReservations(db, [reserved]).catch((error: unknown) => {
          log.error({ error, request_id: request.requestId }, 'a reservation could not be deleted yet')
          leftOver.set(request.requestId, reserved)
          renewal.check()
        })
      },
    }
  }

  return {
    reserve(request) {
      if (!isLimited(request)) {
        const period = periodAt(clock.now()).name
        return toPayment(request, { mode: request.mode, period, coveredNanos: undefined }, false)
      }
      return decided(request).then((decision) => {
        if ('refusal' in decision) {
          onRefused?.(request, periodAt(clock.now()).name)
          throw decision.refusal
        }
        return toPayment(request, decision, true)
      })
    },
    close() {
      running.clear()
      leftOver.clear()
      renewal.check()
    },
  }
}

class CounterState {
  readonly points: { spent: number; reserved: number }
  readonly nanos: { spent: number; reserved: number }

  constructor({ points, nanos }: { points: number; nanos: number }) {
    this.points = { spent: points, reserved: 0 }
    this.nanos = { spent: nanos, reserved: 0 }
  }

  reserve({ points, nanos }: { points: number; nanos: number }): void {
    this.points.reserved += points
    this.nanos.reserved += nanos
  }
}

const userKey = ({ tenantId, payerId }: SpendRequest, { name }: Period): SpendCounterKey => ({
  tenant_id: tenantId,
  holder: 'user',
  holder_id: payerId,
  period: name,
})

const keyKey = ({ tenantId, keyId }: SpendRequest, { name }: Period): SpendCounterKey => ({
  tenant_id: tenantId,
  holder: 'key',
  holder_id: keyId,
  period: name,
})

const budgetKeys = ({ tenantId, budgets }: SpendRequest, { name }: Period): SpendCounterKey[] =>
  budgets.map(({ id }) => ({ tenant_id: tenantId, holder: 'budget', holder_id: id, period: name }))

const counterKeys = (request: SpendRequest, period: Period): SpendCounterKey[] => [
  userKey(request, period),
  keyKey(request, period),
  ...budgetKeys(request, period),
]

function reservationsOf(
  request: SpendRequest,
  { mode, coveredNanos: nanos = 0 }: Omit<SpendDecision, 'period'>,
  period: Period,
): Reservation[] {
  const { requestId: request_id } = request
  if (mode === 'user-completions')
    return [{ ...userKey(request, period), request_id, nanos: 0, points: request.points }]
  return counterKeys(request, period).map((key) => ({ ...key, request_id, nanos, points: 0 }))
}
