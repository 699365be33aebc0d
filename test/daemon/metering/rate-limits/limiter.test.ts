import fc from 'fast-check'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createRateLimiter } from '../../../../src/daemon/metering/rate-limits/limiter.ts'
import type { LimiterDeps, RateLimiter } from '../../../../src/daemon/metering/rate-limits/rate-limiter.ts'
import { WINDOWS, type WindowName } from '../../../../src/daemon/metering/rate-limits/windows.ts'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import type { Admission } from '../../../../src/daemon/platform/http/admission.ts'
import type { Caller } from '../../../../src/daemon/platform/http/caller.ts'
import type { Route } from '../../../../src/daemon/platform/http/route.ts'
import { createLedger, type Ledger } from '../../../../src/daemon/records/ledger/ledger.ts'
import { type Deferred, deferred } from '../../../deferred.ts'
import { describeEachEngine, postgresEngine, sqliteEngine, type TestEngine, type TestStore } from '../../../engines.ts'
import { createFakeClock, type FakeClock } from '../../../fake-clock.ts'
import { callerWith, type KeyLimits, routeOf } from './counted-key.ts'

const START = '2026-02-28T23:58:30.000Z'
const general = routeOf('general')

/** The limiter of one daemon. Its commits wait until `hold` is resolved. */
type Daemon = {
  limiter: RateLimiter
  ledger: Ledger
  db: Db
  log: unknown[]
  hold: Deferred<void>
  close(): Promise<void>
}

async function startDaemon(store: TestStore, clock: FakeClock, given: Partial<LimiterDeps> = {}): Promise<Daemon> {
  const log: unknown[] = []
  const db = await openDatabase(store.place.options)
  const logging = { error: (facts: object) => void log.push(facts), info: () => {} }
  const ledger = createLedger({ db, clock, log: logging })
  const hold = deferred()
  hold.resolve()
  const daemon: Daemon = {
    db,
    log,
    hold,
    ledger,
    limiter: createRateLimiter({
      db,
      clock,
      log: logging,
      ledger: { ...ledger, commit: (records) => daemon.hold.promise.then(() => ledger.commit(records)) },
      ...given,
    }),
    async close() {
      await ledger.close()
      await db.destroy()
    },
  }
  return daemon
}

/** Runs one request from admission until just before its answer is sent. */
async function request({ limiter }: Daemon, caller: Caller, route: Route = general): Promise<Admission> {
  const admission = await limiter.admit(caller, route)
  if (!admission.refusal) await admission.finish()
  return admission
}

const passes = async (daemon: Daemon, caller: Caller, route?: Route) =>
  (await request(daemon, caller, route)).refusal === undefined

const crowd = async (count: number, one: (at: number) => Promise<boolean>) =>
  (await Promise.all(Array.from({ length: count }, (_, at) => one(at)))).filter(Boolean).length

async function storedCounts(db: Db, { keyId }: Caller): Promise<Record<string, number>> {
  const rows = await db.selectFrom('rate_counters').selectAll().where('api_key_id', '=', keyId).execute()
  return Object.fromEntries(rows.map(({ counter, used }) => [counter, used]))
}

const events = (db: Db) => db.selectFrom('outbox_events').selectAll().orderBy('created_at').orderBy('id').execute()

/** A separate store, and a function that closes it and its daemons. */
function setup(engine: TestEngine) {
  const running: Daemon[] = []
  const context = {
    store: undefined as TestStore | undefined,
    clock: createFakeClock(),
    async start(given?: Partial<LimiterDeps> & { clock?: FakeClock }) {
      if (!context.store) throw new Error('only while a test runs')
      const daemon = await startDaemon(context.store, given?.clock ?? context.clock, given)
      running.push(daemon)
      return daemon
    },
    async stop(daemon: Daemon) {
      running.splice(running.indexOf(daemon), 1)
      await daemon.close()
    },
  }
  beforeEach(async () => {
    context.store = await engine.open()
    context.clock = createFakeClock(Date.parse(START))
  })
  afterEach(async () => {
    for (const daemon of running.splice(0)) await daemon.close()
    await context.store?.close()
  })
  return context
}

describeEachEngine('the limits of a key', (engine) => {
  const given = setup(engine)

  test.each([
    ['minute', { minute: 50 }, general],
    ['hour', { hour: 50 }, general],
    ['day', { day: 50 }, general],
    ['month', { month: 50 }, general],
    ['class', {}, routeOf('write')],
  ] as [string, KeyLimits, Route][])(
    'of 200 concurrent requests exactly 50 pass a limit of 50 per %s, and rejected ones do not count',
    async (_, limits, route) => {
      const daemon = await given.start()
      const caller = callerWith(limits)
      expect(await crowd(200, () => passes(daemon, caller, route))).toBe(50)
      const stored = await storedCounts(daemon.db, caller)
      expect(Object.values(stored)).toEqual(Object.values(stored).map(() => 50))
    },
  )

  test('the class limit applies to the operator key, which has no other limit, and counts each route separately', async () => {
    const daemon = await given.start()
    const operator = callerWith({ minute: 1, hour: 1, day: 1, month: 1 }, { isOperator: true })
    const [groups, roles] = [routeOf('write', '/groups'), routeOf('write', '/roles')]
    expect(await crowd(120, (at) => passes(daemon, operator, at % 2 ? groups : roles))).toBe(100)
    expect(await crowd(60, () => passes(daemon, operator))).toBe(60)
    expect(await daemon.limiter.usageOf(operator)).toEqual({ minute: 160, hour: 160, day: 160, month: 160 })
  })

  test('null means no limit', async () => {
    const daemon = await given.start()
    const caller = callerWith({ minute: null, hour: null, day: null, month: null })
    expect(await crowd(300, () => passes(daemon, caller))).toBe(300)
    expect((await request(daemon, caller)).headers).toEqual({})
  })

  test('0 rejects everything', async () => {
    const daemon = await given.start()
    const { refusal, headers } = await request(daemon, callerWith({ day: 0 }))
    expect(refusal?.code).toBe('RATE_LIMIT_EXCEEDED')
    expect(headers).toMatchObject({ 'ratelimit-limit': '0', 'ratelimit-remaining': '0' })
  })

  test.each([
    ['minute', '2026-02-28T23:59:00.000Z'],
    ['hour', '2026-03-01T00:00:00.000Z'],
    ['day', '2026-03-01T00:00:00.000Z'],
    ['month', '2026-03-01T00:00:00.000Z'],
  ] as const)('a %s ends at %s and not a millisecond earlier', async (window, end) => {
    const daemon = await given.start()
    const caller = callerWith({ [window]: 2 })
    expect(await crowd(5, () => passes(daemon, caller))).toBe(2)
    given.clock.advance(Date.parse(end) - Date.parse(START) - 1)
    const { refusal, headers } = await request(daemon, caller)
    expect([refusal?.retryAfterSeconds, refusal?.extra]).toEqual([1, { reset_time: end }])
    expect(headers).toMatchObject({ 'ratelimit-remaining': '0', 'ratelimit-reset': '1' })
    given.clock.advance(1)
    expect(await crowd(5, () => passes(daemon, caller))).toBe(2)
  })

  test('the strictest limit decides, is named, and is in the headers', async () => {
    const daemon = await given.start()
    const caller = callerWith({ minute: 3, hour: 2, day: 4, month: 100 })
    const first = await request(daemon, caller)
    expect(first.headers).toEqual({
      'ratelimit-limit': '2',
      'ratelimit-remaining': '1',
      'ratelimit-reset': '90',
      'ratelimit-policy': `3;w=60, 2;w=3600, 4;w=86400, 100;w=${28 * 86_400}`,
    })
    await request(daemon, caller)
    const { refusal } = await request(daemon, caller)
    expect(refusal?.message).toContain('2 requests per hour')
    expect([refusal?.retryAfterSeconds, refusal?.extra]).toEqual([90, { reset_time: '2026-03-01T00:00:00.000Z' }])
  })

  test('of several exhausted limits, the one with the longest wait is named', async () => {
    const daemon = await given.start()
    const caller = callerWith({ minute: 1, day: 1 })
    await request(daemon, caller)
    expect((await request(daemon, caller)).refusal?.message).toContain('1 request per day')
  })

  test('a rejection by a class limit names its route, and leaves the counters of the key unchanged', async () => {
    const daemon = await given.start()
    const caller = callerWith({ minute: 1000 })
    const groups = routeOf('write', '/groups')
    expect(await crowd(60, () => passes(daemon, caller, groups))).toBe(50)
    expect((await request(daemon, caller, groups)).refusal?.message).toContain('50 requests per minute to POST /groups')
    expect(await daemon.limiter.usageOf(caller)).toMatchObject({ minute: 50, month: 50 })
  })

  test('an unmetered request counts only in the minute and the hour', async () => {
    const daemon = await given.start()
    const caller = callerWith({ minute: 2, day: 1 })
    await request(daemon, caller, routeOf('unmetered'))
    expect(await daemon.limiter.usageOf(caller)).toEqual({ minute: 1, hour: 1, day: 0, month: 0 })
    expect(await passes(daemon, caller)).toBe(true)
    expect(await passes(daemon, caller, routeOf('unmetered'))).toBe(false)
  })

  test('keys do not share counters', async () => {
    const daemon = await given.start()
    const one = callerWith({ minute: 5 })
    const other = callerWith({ minute: 5 }, { tenantId: one.tenantId })
    expect(await crowd(40, (at) => passes(daemon, at % 2 ? one : other))).toBe(10)
  })

  test('changed limits apply from the next request on, and the counters stay', async () => {
    const daemon = await given.start()
    const caller = callerWith({ minute: 10 })
    expect(await crowd(5, () => passes(daemon, caller))).toBe(5)
    const { tenantId, keyId } = caller
    expect(await passes(daemon, callerWith({ minute: 5 }, { tenantId, keyId }))).toBe(false)
    expect(await crowd(10, () => passes(daemon, callerWith({ minute: 8 }, { tenantId, keyId })))).toBe(3)
    const lowered = await request(daemon, callerWith({ minute: 2 }, { tenantId, keyId }))
    expect(lowered.headers).toMatchObject({ 'ratelimit-limit': '2', 'ratelimit-remaining': '0' })
  })

  test('a restart keeps every counter, also those of an hour that has ended', async () => {
    const before = await given.start()
    const caller = callerWith({ minute: 5, month: 8 })
    expect(await crowd(5, () => passes(before, caller))).toBe(5)
    await given.stop(before)
    const after = await given.start()
    expect(await after.limiter.usageOf(caller)).toEqual({ minute: 5, hour: 5, day: 5, month: 5 })
    expect(await passes(after, caller)).toBe(false)
    given.clock.advance(30_000)
    expect(await after.limiter.usageOf(caller)).toEqual({ minute: 0, hour: 5, day: 5, month: 5 })
    expect(await crowd(10, () => passes(after, caller))).toBe(3)
  })

  test('the counters of a request are in the store before its response is sent', async () => {
    const daemon = await given.start()
    const other = await openDatabase((given.store as TestStore).place.options)
    const caller = callerWith({})
    for (let count = 1; count <= 3; count++) {
      await request(daemon, caller, routeOf('read', '/groups'))
      expect(await storedCounts(other, caller)).toEqual({
        ...Object.fromEntries(WINDOWS.map((window) => [window, count])),
        'POST /groups minute': count,
        'POST /groups day': count,
        'POST /groups month': count,
      })
    }
    await other.destroy()
  })

  test('counters continue after the clock is set back', async () => {
    const daemon = await given.start()
    const caller = callerWith({ minute: 2, day: 3 })
    expect(await crowd(2, () => passes(daemon, caller))).toBe(2)
    const late = createFakeClock(Date.parse(START) - 40_000)
    await given.stop(daemon)
    const behind = await given.start({ clock: late })
    expect(await passes(behind, caller)).toBe(false)
  })

  test('any sequence of requests and pauses matches the counts per window', async () => {
    const daemon = await given.start()
    const limit = fc.option(fc.integer({ min: 0, max: 4 }), { nil: null })
    const limits = fc.record({ minute: limit, hour: limit, day: limit, month: limit })
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.constant(0) },
      fc.constantFrom(999, 30_000, 60_000, 1_800_000, 3_600_000, 43_200_000, 86_400_000, 1_300_000_000),
    )
    const prefix: Record<WindowName, number> = { minute: 16, hour: 13, day: 10, month: 7 }
    await fc.assert(
      fc.asyncProperty(limits, fc.array(step, { maxLength: 25 }), async (allowed, pauses) => {
        const caller = callerWith(allowed)
        const passed: string[] = []
        for (const pause of pauses) {
          given.clock.advance(pause)
          const now = new Date(given.clock.now()).toISOString()
          const isFree = WINDOWS.every((window) => {
            const span = now.slice(0, prefix[window])
            return allowed[window] === null || passed.filter((at) => at.startsWith(span)).length < allowed[window]
          })
          expect(await passes(daemon, caller)).toBe(isFree)
          if (isFree) passed.push(now)
        }
      }),
      { numRuns: 40 },
    )
  })
})

describeEachEngine('api:limit_reached', (engine) => {
  const given = setup(engine)

  test('is written once per window, before the first rejection is sent, and names the exhausted limit', async () => {
    const daemon = await given.start()
    const caller = callerWith({ minute: 2 })
    expect(await crowd(2, () => passes(daemon, caller))).toBe(2)
    expect(await events(daemon.db)).toEqual([])
    await request(daemon, caller)
    const [event, ...others] = await events(daemon.db)
    expect(others).toEqual([])
    expect(event).toMatchObject({ tenant_id: caller.tenantId, type: 'api:limit_reached', created_at: START })
    expect(JSON.parse(String(event?.data))).toEqual({
      apiKeyId: caller.keyId,
      keyName: 'scripts',
      userId: caller.userId,
      limitType: 'minute',
      endpoint: null,
      limit: 2,
      used: 2,
      resetTime: '2026-02-28T23:59:00.000Z',
    })
    await crowd(50, () => passes(daemon, caller))
    expect(await events(daemon.db)).toHaveLength(1)
    given.clock.advance(60_000)
    await crowd(50, () => passes(daemon, caller))
    expect(await events(daemon.db)).toHaveLength(2)
  })

  test('is written for every exhausted counter, and for every key', async () => {
    const daemon = await given.start()
    const [one, other] = [callerWith({ minute: 1, day: 1, month: 1 }), callerWith({ hour: 1 })]
    await crowd(60, (at) => passes(daemon, at % 2 ? one : other))
    const operator = callerWith({}, { isOperator: true })
    await crowd(60, () => passes(daemon, operator, routeOf('write', '/groups')))
    const reached = (await events(daemon.db)).map(({ data }) => JSON.parse(data))
    expect(reached.map(({ apiKeyId, limitType }) => `${apiKeyId} ${limitType}`).sort()).toEqual(
      [
        `${one.keyId} minute`,
        `${one.keyId} daily`,
        `${one.keyId} monthly`,
        `${other.keyId} hour`,
        `${operator.keyId} minute`,
      ].sort(),
    )
  })

  test('is not written again after a restart in the same window', async () => {
    const caller = callerWith({ hour: 1 })
    for (let start = 0; start < 2; start++) {
      const daemon = await given.start()
      await crowd(3, () => passes(daemon, caller))
      expect(await events(daemon.db)).toHaveLength(1)
      await given.stop(daemon)
    }
  })
})

test('two daemons on one PostgreSQL together accept exactly 50, and write one event', async () => {
  const store = await postgresEngine.open()
  const clock = createFakeClock(Date.parse(START))
  const daemons = await Promise.all([startDaemon(store, clock), startDaemon(store, clock)])
  const callers = [callerWith({ minute: 50 }), callerWith({ day: 50 }), callerWith({}, { isOperator: true })]
  const routes = [general, general, routeOf('write', '/groups')]
  const passed = await Promise.all(
    callers.map((caller, at) => crowd(200, (turn) => passes(daemons[turn % 2] as Daemon, caller, routes[at] as Route))),
  )
  expect(passed).toEqual([50, 50, 50])
  expect(await events(store.db)).toHaveLength(3)
  for (const daemon of daemons) await daemon.close()
  await store.close()
})

test('two daemons whose clocks differ by a window still count together', async () => {
  const store = await postgresEngine.open()
  const ahead = await startDaemon(store, createFakeClock(Date.parse(START) + 30_000))
  const behind = await startDaemon(store, createFakeClock(Date.parse(START)))
  const caller = callerWith({ minute: 4 })
  expect(await passes(behind, caller)).toBe(true)
  expect(await crowd(2, () => passes(ahead, caller))).toBe(2)
  expect(await crowd(8, (at) => passes(at % 2 ? ahead : behind, caller))).toBe(2)
  for (const daemon of [ahead, behind]) await daemon.close()
  await store.close()
})

test('a store outage fails only the current request; the next one is decided again', async () => {
  const store = await postgresEngine.open()
  const daemon = await startDaemon(store, createFakeClock(Date.parse(START)))
  const caller = callerWith({ minute: 2 })
  await sql`alter table rate_counters rename to away`.execute(store.db)
  const failed = await Promise.allSettled([request(daemon, caller), request(daemon, caller)])
  expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  await sql`alter table away rename to rate_counters`.execute(store.db)
  expect(await crowd(3, () => passes(daemon, caller))).toBe(2)
  await daemon.close()
  await store.close()
})

describe('in-memory counters', () => {
  const given = setup(sqliteEngine)

  test('are decided without waiting, once the key is cached', async () => {
    const { limiter } = await given.start()
    const caller = callerWith({ minute: 2 })
    await (await limiter.admit(caller, general)).finish()
    expect(limiter.admit(caller, general)).not.toBeInstanceOf(Promise)
  })

  test('are not awaited by a handler that commits them itself', async () => {
    const daemon = await given.start()
    const caller = callerWith({})
    const admission = await daemon.limiter.admit(caller, general)
    const counters = admission.unstoredCounters()
    expect(counters.map(({ counter, used }) => [counter, used])).toEqual(WINDOWS.map((window) => [window, 1]))
    admission.countersStored()
    expect(admission.unstoredCounters()).toEqual([])
    expect(admission.finish()).toBeUndefined()
    expect(await storedCounts(daemon.db, caller)).toEqual({})
  })

  test('are stored even when their handler fails before its commit', async () => {
    const daemon = await given.start()
    const caller = callerWith({})
    const admission = await daemon.limiter.admit(caller, general)
    admission.unstoredCounters()
    await admission.finish()
    expect(await storedCounts(daemon.db, caller)).toEqual({ minute: 1, hour: 1, day: 1, month: 1 })
  })

  test('of idle keys are evicted, and read again from the store', async () => {
    const daemon = await given.start({ keysInMemory: 6 })
    const callers = Array.from({ length: 6 }, () => callerWith({ month: 3 }))
    for (const caller of callers) await request(daemon, caller)
    given.clock.advance(60_000)
    await request(daemon, callerWith({}))
    // Changed in the store only: a key that is still in memory would not read it.
    await daemon.db.updateTable('rate_counters').set({ used: 2 }).where('counter', '=', 'month').execute()
    for (const caller of callers) {
      expect(await daemon.limiter.usageOf(caller)).toEqual({ minute: 0, hour: 1, day: 1, month: 2 })
      expect(await crowd(5, () => passes(daemon, caller))).toBe(1)
    }
  })

  test('of a key with a running commit are not evicted', async () => {
    const daemon = await given.start({ keysInMemory: 1 })
    const caller = callerWith({ month: 2 })
    await request(daemon, caller)
    daemon.hold = deferred()
    const slow = request(daemon, caller)
    given.clock.advance(60_000)
    // Each of these finds the memory full; the first one is idle except for its commit.
    await daemon.limiter.usageOf(callerWith({}))
    await daemon.limiter.usageOf(callerWith({}))
    expect(await storedCounts(daemon.db, caller)).toMatchObject({ month: 1 })
    expect((await daemon.limiter.admit(caller, general)).refusal?.code).toBe('RATE_LIMIT_EXCEEDED')
    daemon.hold.resolve()
    await slow
    expect(await storedCounts(daemon.db, caller)).toMatchObject({ month: 2 })
  })

  test('that could not be stored are kept, and stored with the next request of the key on any route', async () => {
    const daemon = await given.start({ keysInMemory: 1 })
    const caller = callerWith({ month: 10 })
    const groups = routeOf('read', '/groups')
    await sql`alter table rate_counters rename to away`.execute(daemon.db)
    // An unknown key is not cached, so it must be looked up first.
    await expect(request(daemon, caller, groups)).rejects.toThrow(/rate_counters/)
    await sql`alter table away rename to rate_counters`.execute(daemon.db)
    await request(daemon, caller)
    await sql`alter table rate_counters rename to away`.execute(daemon.db)
    expect(await passes(daemon, caller, groups)).toBe(true)
    expect(daemon.log).not.toEqual([])
    await sql`alter table away rename to rate_counters`.execute(daemon.db)
    given.clock.advance(60_000)
    await daemon.limiter.usageOf(callerWith({}))
    await daemon.limiter.usageOf(callerWith({}))
    await request(daemon, caller)
    expect(await storedCounts(daemon.db, caller)).toMatchObject({ month: 3, 'POST /groups month': 1 })
  })

  test('that are exhausted reject even when the event cannot be stored, which is retried', async () => {
    const daemon = await given.start()
    const caller = callerWith({ month: 1 })
    await request(daemon, caller)
    await sql`alter table outbox_events rename to away`.execute(daemon.db)
    expect(await passes(daemon, caller)).toBe(false)
    expect(daemon.log).toHaveLength(1)
    await sql`alter table away rename to outbox_events`.execute(daemon.db)
    expect(await passes(daemon, caller)).toBe(false)
    expect(await events(daemon.db)).toHaveLength(1)
    expect(daemon.limiter.admit(caller, general)).not.toBeInstanceOf(Promise)
  })
})

describeEachEngine('when a key was last used', (engine) => {
  const given = setup(engine)

  test('is stored to the minute, for accepted requests', async () => {
    const daemon = await given.start()
    const caller = callerWith({ month: 2 })
    const lastUsed = async () =>
      (
        await daemon.db.selectFrom('rate_counters').select('last_used_at').where('counter', '=', 'minute').execute()
      ).map((row) => row.last_used_at)
    await request(daemon, caller)
    expect(await lastUsed()).toEqual(['2026-02-28T23:58:00.000Z'])
    given.clock.advance(61_000)
    await request(daemon, caller, routeOf('unmetered'))
    expect(await lastUsed()).toEqual(['2026-02-28T23:59:00.000Z'])
    await request(daemon, caller)
    given.clock.advance(10_000)
    expect(await passes(daemon, caller)).toBe(false)
    expect(await lastUsed()).toEqual(['2026-02-28T23:59:00.000Z'])
  })
})
