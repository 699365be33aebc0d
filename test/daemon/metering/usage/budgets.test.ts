import { sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import { createBudgets } from '../../../../src/daemon/metering/usage/budgets.ts'
import type { Payment } from '../../../../src/daemon/metering/usage/payment.ts'
import { RESERVATION_RENEW_MS } from '../../../../src/daemon/metering/usage/shared-budgets.ts'
import type { Budgets, SpendRequest } from '../../../../src/daemon/metering/usage/spend-request.ts'
import { deleteExpiredReservations, findSpend } from '../../../../src/daemon/platform/db/spend-counters.ts'
import { createLedger } from '../../../../src/daemon/records/ledger/ledger.ts'
import { GatewayError } from '../../../../src/shared/errors.ts'
import { newId } from '../../../../src/shared/ids.ts'
import { deferred } from '../../../deferred.ts'
import { describeEachEngine, postgresEngine, sqliteEngine, storeForEach, type TestStore } from '../../../engines.ts'
import { createFakeClock, type FakeClock } from '../../../fake-clock.ts'
import { incidentRow } from '../../records/ledger/rows.ts'
import { spendRequestOf } from './spend-requests.ts'

const log = { error: () => {}, info: () => {} }
const START = Date.parse('2026-11-20T12:00:00.000Z')
const [tenantId, payerId, keyId] = [newId(), newId(), newId()]
const account = { tenantId, payerId, keyId }

/** A request billed in dollars, with a budget of 100 nano-dollars a month. */
const dollars = (nanos: number, given: Partial<SpendRequest> = {}) =>
  spendRequestOf({ ...account, mode: 'usage-by-model', mayPayDollars: true, userLimitNanos: 100, nanos, ...given })

const outcome = async (budgets: Budgets, request: SpendRequest): Promise<Payment | string> => {
  try {
    return await budgets.reserve(request)
  } catch (error) {
    if (error instanceof GatewayError) return error.code
    throw error
  }
}
const isPayment = (result: Payment | string): result is Payment => typeof result !== 'string'

const reservations = (store: Pick<TestStore, 'db'>) => store.db.selectFrom('spend_reservations').selectAll().execute()

/** Simulates elapsed time in the store, whose clock cannot be advanced. */
const endLeases = (store: Pick<TestStore, 'db'>) =>
  store.db.updateTable('spend_reservations').set({ expires_at: '2000-01-01T00:00:00.000Z' }).execute()

/** Bills a request as the pipeline does. */
async function bill(
  store: Pick<TestStore, 'db'>,
  clock: FakeClock,
  payment: Payment,
  request: SpendRequest,
  nanos: number,
  points = 0,
) {
  const ledger = createLedger({ db: store.db, clock, log })
  const row = { tenant_id: request.tenantId, period: payment.period, nanos, points }
  await ledger.commit({
    incidents: [incidentRow(request.requestId)],
    spend: [
      { ...row, holder: 'user', holder_id: request.payerId },
      { ...row, holder: 'key', holder_id: request.keyId },
    ],
    ...(payment.reserved && { reserved: payment.reserved }),
  })
  payment.settled({ amount: { nanos, points } })
  await payment.release()
  await ledger.close()
}

describeEachEngine('budgets', (engine) => {
  const store = storeForEach(engine)
  let clock: FakeClock
  let budgets: Budgets
  beforeEach(() => {
    clock = createFakeClock(START)
    budgets = createBudgets({ db: store.db, clock, log })
  })

  test('concurrent requests are accepted up to the limit', async () => {
    const results = await Promise.all(Array.from({ length: 40 }, () => outcome(budgets, dollars(7))))
    expect(results.filter(isPayment)).toHaveLength(14)
    expect(new Set(results.filter((result) => !isPayment(result)))).toEqual(new Set(['USAGE_BY_MODEL_BUDGET_EXCEEDED']))
  })

  test('unspent reservations can be reserved again', async () => {
    const request = dollars(60)
    const first = (await outcome(budgets, request)) as Payment
    expect(await outcome(budgets, dollars(60))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
    await bill(store, clock, first, request, 40)
    expect(await outcome(budgets, dollars(61))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
    expect(await outcome(budgets, dollars(60))).not.toBeTypeOf('string')
  })

  test('a failed request releases its whole reservation, once', async () => {
    const payment = (await outcome(budgets, dollars(100))) as Payment
    await payment.release()
    await payment.release()
    const again = (await outcome(budgets, dollars(100))) as Payment
    expect(await outcome(budgets, dollars(1))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
    await again.release()
  })

  test("the key and the account have separate limits, and every key of an account uses the account's", async () => {
    const [one, other] = [{ keyId: newId() }, { keyId: newId() }]
    const limited = { ...one, keyLimitNanos: 30 }
    expect(await outcome(budgets, dollars(30, limited))).not.toBeTypeOf('string')
    expect(await outcome(budgets, dollars(1, limited))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
    expect(await outcome(budgets, dollars(70, other))).not.toBeTypeOf('string')
    expect(await outcome(budgets, dollars(1, other))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
    expect(await outcome(budgets, dollars(1, { ...other, payerId: newId() }))).not.toBeTypeOf('string')
  })

  test('points work likewise, and dollars take over when they are exhausted', async () => {
    const points = (given: Partial<SpendRequest>) =>
      spendRequestOf({ ...account, points: 2, pointsLimit: 5, nanos: 10, ...given })
    const results = await Promise.all(Array.from({ length: 4 }, () => outcome(budgets, points({}))))
    expect(results.filter(isPayment)).toHaveLength(2)
    expect(results.filter((result) => !isPayment(result))).toEqual(Array(2).fill('COMPLETION_LIMIT_EXCEEDED'))
    const paid = (await outcome(budgets, points({ mayPayDollars: true, userLimitNanos: 10 }))) as Payment
    expect([paid.mode, paid.fallback?.reason]).toEqual(['usage-by-model', 'quota_exhausted'])
    const none = points({ mayPayDollars: true, userLimitNanos: 10 })
    expect(await outcome(budgets, none)).toBe('COMPLETION_LIMIT_EXCEEDED')
  })

  test('spending survives a restart, and reservations expire', async () => {
    const request = dollars(50)
    await bill(store, clock, (await outcome(budgets, request)) as Payment, request, 50)
    // The daemon is killed while this request runs.
    await outcome(budgets, dollars(50))
    const restarted = createBudgets({ db: store.db, clock, log })
    await endLeases(store)
    expect(await outcome(restarted, dollars(50))).not.toBeTypeOf('string')
    expect(await outcome(restarted, dollars(1))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
  })

  test('each month has its own budget; a request counts in the month of its start', async () => {
    const request = dollars(100)
    const november = (await outcome(budgets, request)) as Payment
    clock.advance(Date.parse('2026-12-01T00:00:00.000Z') - START)
    const december = (await outcome(budgets, dollars(100))) as Payment
    expect([november.period, december.period]).toEqual(['2026-11', '2026-12'])
    await bill(store, clock, november, request, 90)
    const key = { tenant_id: tenantId, holder: 'user', holder_id: payerId } as const
    expect(await findSpend(store.db, { ...key, period: '2026-11' })).toMatchObject({ nanos: 90 })
    expect(await findSpend(store.db, { ...key, period: '2026-12' })).toMatchObject({ nanos: 0 })
    expect(await outcome(budgets, dollars(1))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
  })

  test('a request that is stored twice is added once', async () => {
    const request = dollars(10)
    const payment = (await outcome(budgets, request)) as Payment
    await bill(store, clock, payment, request, 10)
    await expect(bill(store, clock, payment, request, 10)).rejects.toThrow()
    const key = { tenant_id: tenantId, holder: 'user', holder_id: payerId, period: '2026-11' } as const
    expect(await findSpend(store.db, key)).toMatchObject({ nanos: 10 })
  })

  test('concurrent bills are added up, those of one account in one row', async () => {
    const ledger = createLedger({ db: store.db, clock, log })
    const row = { tenant_id: tenantId, holder: 'user', holder_id: payerId, period: '2026-11' } as const
    const commits = Array.from({ length: 30 }, (_, at) =>
      ledger.commit({ incidents: [incidentRow(`r${at}`)], spend: [{ ...row, nanos: at, points: 1 }] }),
    )
    await Promise.all(commits)
    await ledger.close()
    expect(await findSpend(store.db, row)).toEqual({ ...row, nanos: 435, points: 30 })
  })

  test('sums above the number range stop at the largest number, and can be read', async () => {
    const ledger = createLedger({ db: store.db, clock, log })
    const row = { tenant_id: tenantId, holder: 'user', holder_id: payerId, period: '2026-11' } as const
    const most = Number.MAX_SAFE_INTEGER
    const spend = [{ ...row, nanos: most - 5, points: 1 }]
    await ledger.commit({ incidents: [incidentRow('first')], spend })
    await Promise.all(['second', 'third'].map((id) => ledger.commit({ incidents: [incidentRow(id)], spend })))
    await ledger.close()
    expect(await findSpend(store.db, row)).toEqual({ ...row, nanos: most, points: 3 })
    expect(await outcome(budgets, dollars(1))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
  })
})

describe('one daemon on SQLite', () => {
  test('knows the maximum cost of running requests when a limit is set meanwhile', async () => {
    const store = await sqliteEngine.open()
    const budgets = createBudgets({ db: store.db, clock: createFakeClock(START), log })
    await outcome(budgets, dollars(60, { userLimitNanos: null }))
    expect(await outcome(budgets, dollars(60))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
    await outcome(budgets, spendRequestOf({ ...account, points: 4 }))
    expect(await outcome(budgets, spendRequestOf({ ...account, points: 2, pointsLimit: 5 }))).toBe(
      'COMPLETION_LIMIT_EXCEEDED',
    )
    await store.close()
  })

  test('keeps the account of the new month when the look-up of the old one ends after midnight', async () => {
    const store = await sqliteEngine.open()
    const clock = createFakeClock(Date.parse('2026-11-30T23:59:59.999Z'))
    const isHeld = deferred()
    let slowest: object | undefined
    const db = store.db.withPlugin({
      transformQuery({ node, queryId }) {
        slowest ??= queryId
        return node
      },
      async transformResult({ result, queryId }) {
        if (queryId === slowest) await isHeld.promise
        return result
      },
    })
    const budgets = createBudgets({ db, clock, log })
    const november = outcome(budgets, dollars(1, { keyId: newId() }))
    clock.advance(1)
    expect(await outcome(budgets, dollars(100))).toMatchObject({ period: '2026-12' })
    isHeld.resolve()
    expect(await november).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
    expect(await outcome(budgets, dollars(1))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
    await store.close()
  })
})

test('evicted accounts are looked up again, those with a running request are kept', async () => {
  const clock = createFakeClock(START)
  const store = await sqliteEngine.open()
  const budgets = createBudgets({ db: store.db, clock, log, accountsInMemory: 2 })
  const running = (await outcome(budgets, dollars(60))) as Payment
  for (let at = 0; at < 5; at++) {
    const other = (await outcome(budgets, dollars(1, { payerId: newId(), keyId: newId() }))) as Payment
    await other.release()
  }
  expect(await outcome(budgets, dollars(60))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
  await running.release()
  await store.close()
})

describe('several daemons on one PostgreSQL', () => {
  const store = storeForEach(postgresEngine)

  test('together accept no more than the limit', async () => {
    const clock = createFakeClock(START)
    const daemons = Array.from({ length: 3 }, () => createBudgets({ db: store.db, clock, log }))
    const results = await Promise.all(
      Array.from({ length: 60 }, (_, at) => outcome(daemons[at % 3] as Budgets, dollars(7))),
    )
    expect(results.filter(isPayment)).toHaveLength(14)
  })

  test('requests without limits leave no reservation', async () => {
    const budgets = createBudgets({ db: store.db, clock: createFakeClock(START), log })
    await outcome(budgets, spendRequestOf(account))
    await outcome(budgets, dollars(0))
    expect(await reservations(store)).toEqual([])
  })

  test('reservations of a killed daemon are deleted when their lease expires, and not before', async () => {
    await outcome(createBudgets({ db: store.db, clock: createFakeClock(START), log }), dollars(5))
    await deleteExpiredReservations(store.db)
    expect(await reservations(store)).toHaveLength(2)
    await endLeases(store)
    await deleteExpiredReservations(store.db)
    expect(await reservations(store)).toEqual([])
  })
  test('a request that outlasts its lease keeps its reservation', async () => {
    const clock = createFakeClock(START)
    const budgets = createBudgets({ db: store.db, clock, log })
    const payment = (await outcome(budgets, dollars(100))) as Payment
    await endLeases(store)
    clock.advance(RESERVATION_RENEW_MS)
    const isRenewed = async () => (await reservations(store)).every(({ expires_at }) => expires_at > '2001')
    while (!(await isRenewed()));
    const other = createBudgets({ db: store.db, clock, log })
    expect(await outcome(other, dollars(1))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
    await payment.release()
    expect(await reservations(store)).toEqual([])
    expect(clock.pending).toBe(0)
  })

  test('a reservation of one daemon counts for another whose clock is an hour ahead', async () => {
    const [first, second] = [START, START + 3_600_000].map((start) =>
      createBudgets({ db: store.db, clock: createFakeClock(start), log }),
    ) as [Budgets, Budgets]
    await outcome(first, dollars(100))
    expect(await outcome(second, dollars(1))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
  })

  test('a reservation whose end could not be stored is ended later', async () => {
    const clock = createFakeClock(START)
    const budgets = createBudgets({ db: store.db, clock, log })
    const payment = (await outcome(budgets, dollars(100))) as Payment
    await sql`alter table spend_reservations rename to away`.execute(store.db)
    await payment.release()
    await sql`alter table away rename to spend_reservations`.execute(store.db)
    expect(await outcome(budgets, dollars(1))).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
    clock.advance(RESERVATION_RENEW_MS)
    while ((await reservations(store)).length > 0);
    expect(await outcome(budgets, dollars(100))).not.toBeTypeOf('string')
  })

  test('an account with a locked counter does not block others', async () => {
    const budgets = createBudgets({ db: store.db, clock: createFakeClock(START), log })
    await ((await outcome(budgets, dollars(1))) as Payment).release()
    const [isLocked, mayEnd] = [deferred(), deferred()]
    const holder = store.db.transaction().execute(async (tx) => {
      await tx.updateTable('spend_counters').set({ points: 0 }).where('holder_id', '=', payerId).execute()
      isLocked.resolve()
      await mayEnd.promise
    })
    await isLocked.promise
    const held = outcome(budgets, dollars(1)).catch((error: unknown) => error)
    expect(await outcome(budgets, dollars(1, { payerId: newId(), keyId: newId() }))).not.toBeTypeOf('string')
    expect(await held).toMatchObject({ code: '55P03' })
    mayEnd.resolve()
    await holder
    expect(await outcome(budgets, dollars(1))).not.toBeTypeOf('string')
  })
})
