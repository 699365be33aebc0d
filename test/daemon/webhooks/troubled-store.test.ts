import { expect, test } from 'vitest'
import { newDelivery } from '../../../src/daemon/webhooks/delivery.ts'
import { fanOut } from '../../../src/daemon/webhooks/dispatch/fan-out.ts'
import { settle } from '../../../src/daemon/webhooks/dispatch/settle.ts'
import { isoTime } from '../../../src/shared/time.ts'
import { describeEachEngine, sqliteEngine } from '../../engines.ts'
import { all, openWorld, turns } from './dispatch-world.ts'
import { reply } from './receiver.ts'

describeEachEngine('deliveries', (engine) => {
  test.each([
    [200, '{"msg":"thanks \\ud83d\\ude00"}'],
    [500, '"\\u0000"'],
    [200, 'half a pair: \\ud83d'],
  ])('are settled for any response of a receiver: %i %s', async (status, body) => {
    const world = await openWorld(engine)
    const odd = await world.receiver(reply(status, body))
    const good = await world.receiver()
    const [first] = [await world.endpoint(odd.url), await world.endpoint(good.url)]
    const dispatcher = await world.start()
    for (const count of [3, 6]) {
      await world.events(3)
      dispatcher.wake()
      await world.until(
        (rows) =>
          rows.length === count * 2 &&
          rows.every(({ lease_owner, attempts }) => attempts === 1 && lease_owner === null),
      )
    }
    const told = (await world.deliveries()).filter(({ endpoint_id }) => endpoint_id === first.id)
    expect(told.map(({ last_response }) => last_response)).toEqual(Array.from({ length: 6 }, () => body))
    expect(world.log.filter(({ level }) => level === 'error')).toEqual([])
  })

  test('are settled even when the store rejects one response text', async () => {
    const world = await openWorld(engine)
    const endpoint = await world.endpoint('http://127.0.0.1:9/')
    const events = await world.events(3, { fanned_out_at: isoTime(world.clock.now()) })
    const rows = events.map((event) => ({ ...newDelivery(event, endpoint.id, world.clock.now()), fence: 1 }))
    await world.db.insertInto('webhook_deliveries').values(rows).execute()
    const outcomes = rows.map(({ id }, nth) => ({
      claim: {
        id,
        endpointId: endpoint.id,
        eventType: '',
        body: '',
        fence: 1,
        attempts: 0,
        counts: true,
        leaseEndsAt: 0,
      },
      attempt: {
        status: 200,
        error: null,
        durationMs: 1,
        response: nth === 1 ? 'a\0' : 'a',
        timedOut: false,
        endedAt: world.clock.now(),
      },
    }))
    const dropped: unknown[] = []
    const settled = await settle(world.db, outcomes, {
      now: world.clock.now(),
      dropped: (outcome) => void dropped.push(outcome),
    })
    expect(settled.outcomes.map(({ claim, state }) => [claim.id, state])).toEqual(
      rows.map(({ id }) => [id, 'delivered']),
    )
    const kept = new Map((await world.deliveries()).map((row) => [row.id, row.last_response]))
    expect([rows.map(({ id }) => kept.get(id)), dropped]).toEqual([['a', null, 'a'], []])
  })

  test.each([
    ['secret', { secret: `v1.${'A'.repeat(80)}` }],
    ['list of events', { events: 'oops' }],
  ])('reach the others when the %s of an endpoint cannot be read', async (what, broken) => {
    const world = await openWorld(engine)
    const good = await world.receiver()
    const [first, unreadable, last] = [
      await world.endpoint(good.url),
      await world.endpoint(good.url, broken),
      await world.endpoint(good.url),
    ]
    const events = await world.events(2)
    const dispatcher = await world.start()
    dispatcher.wake()
    const isOther = ({ endpoint_id }: { endpoint_id: string }) => endpoint_id !== unreadable.id
    await world.until((rows) => rows.filter(isOther).length === 4 && all('delivered')(rows.filter(isOther)))
    const told = world.log.filter(({ level }) => level === 'error')
    expect(told).toMatchObject([{ facts: { endpoint: unreadable.id }, message: expect.stringContaining(what) }])
    // Deliveries in flight when the store broke do not block the others either.
    const rows = [first, unreadable, last].map(({ id }) =>
      newDelivery(events[0] as (typeof events)[0], id, world.clock.now(), { resendOf: 'x' }),
    )
    await world.db.insertInto('webhook_deliveries').values(rows).execute()
    world.clock.advance(5_000)
    await world.until((found) => found.filter(isOther).length === 6 && all('delivered')(found.filter(isOther)))
    const states = new Set((await world.deliveries()).filter((row) => !isOther(row)).map(({ state }) => state))
    expect([...states]).toEqual(what === 'secret' ? ['held'] : ['delivered'])
  })

  test('are retried in time when the clock is set back meanwhile', async () => {
    const world = await openWorld(engine)
    let backMs = 0
    const { now } = world.clock
    world.clock.now = () => now() - backMs
    const target = await world.receiver(reply(500))
    await world.endpoint(target.url)
    await world.events(1)
    const dispatcher = await world.start()
    dispatcher.wake()
    for (const [attempts, waitMs] of [
      [1, 10_000],
      [2, 60_000],
    ] as const) {
      await world.until((rows) => rows[0]?.attempts === attempts && all('pending')(rows))
      backMs += 1_800_000
      await world.timerIn(waitMs)
      world.clock.advance(waitMs - 1)
      await turns(20)
      expect(target.received).toHaveLength(attempts)
      world.clock.advance(1)
    }
    await world.until(all('failed'))
    expect(target.received).toHaveLength(3)
  })

  test('with a due time too far ahead, from a clock that was ahead, are sent at once', async () => {
    const world = await openWorld(engine)
    const target = await world.receiver()
    const endpoint = await world.endpoint(target.url)
    const [event] = await world.events(1, { fanned_out_at: isoTime(world.clock.now()) })
    const later = isoTime(world.clock.now() + 3_600_000)
    await world.db
      .insertInto('webhook_deliveries')
      .values({ ...newDelivery(event as NonNullable<typeof event>, endpoint.id, 0), due_at: later, attempts: 1 })
      .execute()
    await world.start()
    await world.until(all('delivered'))
  })

  test.each([
    ['a test', { isTest: true }],
    ['sent again by hand', { resendOf: 'x' }],
  ])('count neither as a failure nor as a success when they are %s', async (_, kind) => {
    const world = await openWorld(engine)
    const target = await world.receiver((socket, received, nth) => reply(nth === 1 ? 500 : 200)(socket, received, nth))
    const endpoint = await world.endpoint(target.url, { failure_count: 19 })
    const events = await world.events(2, { fanned_out_at: isoTime(world.clock.now()) })
    const dispatcher = await world.start()
    for (const [nth, event] of events.entries()) {
      const row = { ...newDelivery(event, endpoint.id, world.clock.now(), kind), attempts: 2 }
      await world.db.insertInto('webhook_deliveries').values(row).execute()
      dispatcher.endpointChanged(endpoint.id)
      await world.until((rows) => rows.length === nth + 1 && all('failed', 'delivered')(rows))
      expect(await world.endpointNow(endpoint.id)).toMatchObject({
        failure_count: 19,
        enabled: 1,
        last_status: nth === 0 ? 500 : 200,
      })
    }
  })

  test('of one event to more endpoints than fit into a transaction are created in several, each once', async () => {
    const world = await openWorld(engine)
    const target = await world.receiver()
    for (let nth = 0; nth < 1_100; nth++) await world.endpoint(target.url, { enabled: 0 })
    await world.events(2)
    await world.start().then((dispatcher) => dispatcher.wake())
    const rows = await world.until((found) => found.length === 2_200)
    expect(new Set(rows.map(({ endpoint_id, event_id }) => `${endpoint_id} ${event_id}`)).size).toBe(2_200)
    const waiting = () => world.db.selectFrom('outbox_events').select('id').where('fanned_out_at', 'is', null).execute()
    while ((await waiting()).length > 0) await turns(2)
  })
})

test('a fan-out that stops inside an event leaves the event pending, and the rest is created later', async () => {
  const world = await openWorld(sqliteEngine)
  for (let nth = 0; nth < 1_100; nth++) await world.endpoint('http://127.0.0.1:9/', { enabled: 0 })
  await world.events(1)
  const now = isoTime(world.clock.now())
  const options = {
    now: world.clock.now(),
    lease: { owner: 'o', now, until: now },
    reader: { settingsOf: () => undefined, subscriptionsOf: () => () => true },
    takes: () => false,
  }
  const first = await fanOut(world.db, options)
  expect([first.made.length, first.more, first.passedOn !== undefined]).toEqual([1_000, true, true])
  const again = await fanOut(world.db, options)
  expect([again.made.length, again.passedOn]).toEqual([0, first.passedOn])
  const rest = await fanOut(world.db, { ...options, passedOn: again.passedOn })
  expect([rest.made.length, rest.more, rest.passedOn]).toEqual([100, false, undefined])
})
