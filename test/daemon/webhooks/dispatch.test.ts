import type { QueryId } from 'kysely'
import { expect, test } from 'vitest'
import { newDelivery } from '../../../src/daemon/webhooks/delivery.ts'
import { verify } from '../../../src/shared/webhook-signature.ts'
import { deferred } from '../../deferred.ts'
import { describeEachEngine, postgresEngine } from '../../engines.ts'
import { all, openWorld, SECRET, turns } from './dispatch-world.ts'
import { reply } from './receiver.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

describeEachEngine('a delivery', (engine) => {
  test('has exactly the documented envelope, headers and signature', async () => {
    const world = await openWorld(engine)
    const target = await world.receiver()
    await world.endpoint(target.url)
    const [event] = await world.events(1)
    const dispatcher = await world.start()
    dispatcher.wake()
    const [row] = await world.until(all('delivered'))
    expect(target.received).toHaveLength(1)
    const { head, headers, body } = target.received[0] ?? { head: '', headers: {}, body: '' }
    expect(head).toBe('POST /hook HTTP/1.1')
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'x-service-event': 'api:model_failover',
      'x-service-delivery': row?.id,
    })
    expect(row?.id).toMatch(UUID)
    expect(JSON.parse(body)).toEqual({
      id: event?.id,
      type: 'api:model_failover',
      created: Math.floor(world.clock.now() / 1000),
      data: JSON.parse(event?.data ?? ''),
    })
    const now = Math.floor(world.clock.now() / 1000)
    expect(headers['x-service-signature']).toMatch(/^t=\d+,v1=[0-9a-f]{64}$/)
    expect(verify(body, headers['x-service-signature'], [SECRET], { toleranceSeconds: 0, now })).toMatchObject({
      valid: true,
    })
    expect(row).toMatchObject({ attempts: 1, last_status: 200, last_error: null, resend_of: null })
  })

  test('is sent to every endpoint of the tenant that subscribes to its event, once, and to no other', async () => {
    const world = await openWorld(engine)
    const target = await world.receiver()
    const other = await world.receiver()
    const everything = await world.endpoint(target.url)
    const named = await world.endpoint(target.url, { events: '["pii:incident","api:model_failover"]' })
    await world.endpoint(other.url, { events: '["pii:incident"]' })
    const events = await world.events(3)
    const first = await world.start()
    const second = await world.start()
    first.wake()
    second.wake()
    const rows = await world.until((found) => found.length === 6 && all('delivered')(found))
    const pairs = rows.map(({ endpoint_id, event_id }) => `${endpoint_id} ${event_id}`).sort()
    expect(pairs).toEqual([everything, named].flatMap(({ id }) => events.map((event) => `${id} ${event.id}`)).sort())
    expect([target.received.length, other.connections]).toEqual([6, 0])
  })

  test('is attempted at 0 s, 10 s after the first and 60 s after the second attempt ended; one id, fresh signatures', async () => {
    const world = await openWorld(engine)
    const target = await world.receiver(reply(500, 'no'))
    const endpoint = await world.endpoint(target.url)
    await world.events(1)
    const dispatcher = await world.start()
    dispatcher.wake()
    for (const [attempts, waitMs] of [
      [1, 10_000],
      [2, 60_000],
    ] as const) {
      await target.arrived(attempts)
      const [row] = await world.until((rows) => rows[0]?.attempts === attempts && all('pending')(rows))
      expect(row?.due_at).toBe(new Date(world.clock.now() + waitMs).toISOString())
      await world.timerIn(waitMs)
      world.clock.advance(waitMs - 1)
      await turns(20)
      expect(target.received).toHaveLength(attempts)
      world.clock.advance(1)
    }
    const [row] = await world.until(all('failed'))
    expect(row).toMatchObject({ attempts: 3, last_status: 500, last_error: 'status 500', last_response: 'no' })
    expect(await world.endpointNow(endpoint.id)).toMatchObject({ failure_count: 1, enabled: 1, last_status: 500 })
    const { received } = target
    expect(received).toHaveLength(3)
    expect(new Set(received.map(({ body }) => body)).size).toBe(1)
    expect(new Set(received.map(({ headers }) => headers['x-service-delivery'])).size).toBe(1)
    const stamps = received.map(({ headers }) => Number(/t=(\d+)/.exec(headers['x-service-signature'] ?? '')?.[1]))
    expect([(stamps[1] ?? 0) - (stamps[0] ?? 0), (stamps[2] ?? 0) - (stamps[1] ?? 0)]).toEqual([10, 60])
  })

  test('that succeeds at the second attempt is done, and not a failure', async () => {
    const world = await openWorld(engine)
    const target = await world.receiver((socket, _, nth) => reply(nth === 1 ? 503 : 204)(socket, _, nth))
    const endpoint = await world.endpoint(target.url, { failure_count: 7 })
    await world.events(1)
    const dispatcher = await world.start()
    dispatcher.wake()
    await world.until((rows) => rows[0]?.attempts === 1 && all('pending')(rows))
    await world.timerIn(10_000)
    world.clock.advance(10_000)
    const [row] = await world.until(all('delivered'))
    expect(row).toMatchObject({ attempts: 2, last_status: 204, last_error: null })
    expect(await world.endpointNow(endpoint.id)).toMatchObject({ failure_count: 0 })
  })

  test('is found by the next daemon when its creator has stopped', async () => {
    const world = await openWorld(engine)
    const target = await world.receiver(() => undefined)
    await world.endpoint(target.url)
    await world.events(2)
    const first = await world.start()
    first.wake()
    await target.arrived(2)
    const closed = first.close()
    await world.timerIn(1_000)
    world.clock.advance(1_000)
    await closed
    expect(await world.deliveries()).toMatchObject([
      { state: 'pending', attempts: 0, lease_owner: null },
      { state: 'pending', attempts: 0, lease_owner: null },
    ])
    const bodies = target.received.map(({ body }) => body).sort()
    const second = await world.start()
    await target.arrived(4)
    expect(
      target.received
        .slice(2)
        .map(({ body }) => body)
        .sort(),
    ).toEqual(bodies)
    expect(second).toBeDefined()
  })

  test('has both signatures during the overlap of a rotation, and only the new one afterwards', async () => {
    const world = await openWorld(engine)
    const target = await world.receiver()
    const endpoint = await world.endpoint(target.url)
    const until = new Date(world.clock.now() + 60_000).toISOString()
    await world.db
      .updateTable('webhook_endpoints')
      .set({ previous_secret: endpoint.secret, previous_secret_until: until })
      .execute()
    const dispatcher = await world.start()
    await world.events(1)
    dispatcher.wake()
    await target.arrived(1)
    await world.until(all('delivered'))
    world.clock.advance(60_000)
    await world.events(1)
    dispatcher.wake()
    await target.arrived(2)
    await world.until((rows) => rows.length === 2 && all('delivered')(rows))
    const signatures = target.received.map(({ headers }) => headers['x-service-signature']?.split(',').length)
    expect(signatures).toEqual([3, 2])
  })
})

describeEachEngine('an endpoint', (engine) => {
  /** Deliveries with one attempt left; the receiver decides whether it fails. */
  async function lastAttempts(count: number, failure_count: number) {
    const world = await openWorld(engine)
    const target = await world.receiver(reply(500))
    const endpoint = await world.endpoint(target.url, { failure_count })
    const dispatcher = await world.start()
    await world.events(count)
    dispatcher.wake()
    await world.until((rows) => rows.length === count && rows.every(({ attempts }) => attempts === 1))
    await world.db.updateTable('webhook_deliveries').set({ attempts: 2, due_at: '2026-01-01T00:00:00.000Z' }).execute()
    return { world, target, endpoint, dispatcher }
  }

  test.each([
    { failures: 0, count: 19, enabled: 1 },
    { failures: 0, count: 20, enabled: 0 },
    { failures: 0, count: 30, enabled: 0 },
    { failures: 19, count: 1, enabled: 0 },
    { failures: 18, count: 1, enabled: 1 },
  ])(
    'with $failures failures and a burst of $count more is enabled: $enabled',
    async ({ failures, count, enabled }) => {
      const { world, endpoint, dispatcher } = await lastAttempts(count, failures)
      dispatcher.endpointChanged(endpoint.id)
      await world.until(all('failed', 'held'))
      const now = await world.endpointNow(endpoint.id)
      const expected = Math.min(failures + count, 20)
      expect(now).toMatchObject({ enabled, failure_count: expected })
      expect(now.disabled_reason).toBe(enabled ? null : 'failures')
      const states = (await world.deliveries()).map(({ state }) => state)
      expect(states.filter((state) => state === 'failed').length).toBeGreaterThanOrEqual(expected - failures)
      const disabled = world.log.filter(({ message }) => message.includes('was disabled'))
      expect(disabled).toHaveLength(enabled ? 0 : 1)
    },
  )

  test('that fails 19 times and then succeeds starts from 0', async () => {
    let fail = 19
    const world = await openWorld(engine)
    const target = await world.receiver((socket, _, nth) => reply(fail-- > 0 ? 500 : 200)(socket, _, nth))
    const endpoint = await world.endpoint(target.url)
    const dispatcher = await world.start()
    for (let nth = 0; nth < 20; nth++) {
      await world.events(1)
      await world.db
        .updateTable('outbox_events')
        .set({ fanned_out_at: null })
        .where('fanned_out_at', 'is', null)
        .execute()
      dispatcher.wake()
      await world.until((rows) => rows.length === nth + 1 && rows.every(({ lease_owner }) => lease_owner === null))
      if (nth < 19) {
        // The two earlier attempts are recorded as made.
        await world.db
          .updateTable('webhook_endpoints')
          .set({ failure_count: nth + 1 })
          .execute()
        await world.db
          .updateTable('webhook_deliveries')
          .set({ state: 'failed' })
          .where('state', '=', 'pending')
          .execute()
      }
    }
    expect(await world.endpointNow(endpoint.id)).toMatchObject({ failure_count: 0, enabled: 1, last_status: 200 })
  })

  test('logs a warning at 10 and at 15 consecutive failures', async () => {
    const { world, endpoint, dispatcher } = await lastAttempts(16, 0)
    dispatcher.endpointChanged(endpoint.id)
    await world.until(all('failed'))
    const warned = world.log.filter(({ message }) => message.includes('keeps failing'))
    expect(warned.map(({ facts }) => facts.failuresInARow)).toEqual([10, 15])
  })

  test('that is disabled gets nothing: waiting and new deliveries are held', async () => {
    const world = await openWorld(engine)
    const target = await world.receiver()
    const endpoint = await world.endpoint(target.url, { enabled: 0, disabled_reason: 'manual' })
    const dispatcher = await world.start()
    await world.events(2)
    dispatcher.wake()
    await world.until((rows) => rows.length === 2 && all('held')(rows))
    await world.db.updateTable('webhook_deliveries').set({ state: 'pending' }).execute()
    dispatcher.endpointChanged(endpoint.id)
    await world.until(all('held'))
    expect(target.connections).toBe(0)
    // After it is enabled and recovered, it receives them.
    await world.db.updateTable('webhook_endpoints').set({ enabled: 1, disabled_reason: null }).execute()
    await world.db.updateTable('webhook_deliveries').set({ state: 'pending' }).execute()
    dispatcher.endpointChanged(endpoint.id)
    await world.until(all('delivered'))
    expect(target.received).toHaveLength(2)
  })

  test('that changes its address gets the next delivery there', async () => {
    const world = await openWorld(engine)
    const before = await world.receiver()
    const after = await world.receiver()
    const endpoint = await world.endpoint(before.url)
    const dispatcher = await world.start()
    await world.events(1)
    dispatcher.wake()
    await world.until(all('delivered'))
    await world.db.updateTable('webhook_endpoints').set({ url: after.url }).execute()
    dispatcher.endpointChanged(endpoint.id)
    await world.events(1)
    dispatcher.wake()
    await after.arrived(1)
    expect(before.received).toHaveLength(1)
  })

  test('has at most two attempts in flight, and does not block another', async () => {
    const world = await openWorld(engine)
    const silent = await world.receiver(() => undefined)
    const good = await world.receiver()
    const stuck = await world.endpoint(silent.url)
    await world.endpoint(good.url)
    const dispatcher = await world.start()
    await world.events(50)
    dispatcher.wake()
    await good.arrived(50)
    await silent.arrived(2)
    await turns(50)
    expect(silent.received).toHaveLength(2)
    await world.until((rows) => rows.every((row) => row.endpoint_id === stuck.id || row.state === 'delivered'))
  })
})

describeEachEngine('a dispatcher', (engine) => {
  test('shows depth, age, attempts and disabled endpoints as metrics', async () => {
    const world = await openWorld(engine)
    const target = await world.receiver(reply(500))
    await world.endpoint(target.url)
    await world.endpoint(target.url, { enabled: 0 })
    const dispatcher = await world.start()
    await world.events(1)
    dispatcher.wake()
    await world.until((rows) => rows.some(({ attempts }) => attempts === 1))
    const text = await world.metrics.metrics()
    expect(text).toContain('aigw_webhook_attempts_total{outcome="refused"} 1')
    expect(text).toContain('aigw_webhook_queue_depth 1')
    expect(text).toContain('aigw_webhook_oldest_due_seconds 0')
    expect(text).toContain('aigw_webhook_endpoints_disabled 1')
  })

  test('sends 1,000 events to 5 endpoints, each exactly once', async () => {
    const world = await openWorld(engine)
    const target = await world.receiver()
    for (let nth = 0; nth < 5; nth++) await world.endpoint(target.url)
    const dispatcher = await world.start()
    await world.events(1_000)
    dispatcher.wake()
    await target.arrived(5_000)
    await world.until((rows) => rows.length === 5_000 && all('delivered')(rows))
    expect(new Set(target.received.map(({ headers }) => headers['x-service-delivery'])).size).toBe(5_000)
    expect(target.received).toHaveLength(5_000)
  })

  test('finds deliveries without a notification', async () => {
    const world = await openWorld(engine)
    const target = await world.receiver()
    await world.endpoint(target.url)
    await world.start()
    await turns(20)
    await world.events(1)
    await turns(20)
    expect(target.received).toHaveLength(0)
    world.clock.advance(5_000)
    await target.arrived(1)
  })

  test('loses its claims to another when it stops renewing them, and its late result is ignored', async () => {
    const world = await openWorld(engine)
    const answers: (() => void)[] = []
    const target = await world.receiver((socket, received, nth) => {
      answers.push(() => reply(nth === 1 ? 500 : 200)(socket, received, nth))
    })
    const endpoint = await world.endpoint(target.url)
    await world.events(1)
    const first = await world.start()
    first.wake()
    await target.arrived(1)
    // As if the first daemon had been paused for longer than its lease.
    await world.db.updateTable('webhook_deliveries').set({ lease_until: '2020-01-01T00:00:00.000Z' }).execute()
    const second = await world.start()
    second.endpointChanged(endpoint.id)
    await target.arrived(2)
    answers[1]?.()
    await world.until(all('delivered'))
    answers[0]?.()
    await turns(100)
    expect(await world.deliveries()).toMatchObject([{ state: 'delivered', attempts: 1, last_status: 200 }])
    expect(await world.endpointNow(endpoint.id)).toMatchObject({ failure_count: 0 })
  })
})

test('an event that is stored during the search for others is sent at once', async () => {
  const world = await openWorld(postgresEngine)
  const target = await world.receiver()
  const endpoint = await world.endpoint(target.url)
  let search: QueryId | undefined
  const mayAnswer = deferred()
  const dispatcher = await world.start({
    transformQuery({ node, queryId }) {
      if (JSON.stringify(node).includes('from webhook_deliveries as d join outbox_events')) search ??= queryId
      return node
    },
    async transformResult({ result, queryId }) {
      if (queryId === search) await mayAnswer.promise
      return result
    },
  })
  dispatcher.endpointChanged(endpoint.id)
  while (!search) await turns(1)
  await world.events(1)
  dispatcher.wake()
  await world.until((rows) => rows.length === 1)
  await turns(20)
  mayAnswer.resolve()
  await target.arrived(1)
})

// SQLite allows one daemon; the bursts above cover two concurrent attempts.
test('an endpoint is disabled once when two daemons see its 20th failure at the same time', async () => {
  const world = await openWorld(postgresEngine)
  const gates: (() => void)[] = []
  const target = await world.receiver((socket, received, nth) => {
    gates.push(() => reply(500)(socket, received, nth))
    if (gates.length === 4) for (const open of gates) open()
  })
  const endpoint = await world.endpoint(target.url, { failure_count: 18 })
  const events = await world.events(4)
  await world.db.updateTable('outbox_events').set({ fanned_out_at: '2026-01-01T00:00:00.000Z' }).execute()
  const due = async (event: (typeof events)[number]) => {
    const row = { ...newDelivery(event, endpoint.id, world.clock.now()), attempts: 2 }
    await world.db.insertInto('webhook_deliveries').values(row).execute()
  }
  for (const event of events.slice(0, 2)) await due(event)
  await world.start()
  await target.arrived(2)
  // The first deliveries are not announced, and the second daemon finds them at its start.
  for (const event of events.slice(2)) await due(event)
  await world.start()
  await target.arrived(4)
  await world.until(all('failed'))
  expect(await world.endpointNow(endpoint.id)).toMatchObject({ failure_count: 20, enabled: 0 })
  expect(world.log.filter(({ message }) => message.includes('was disabled'))).toHaveLength(1)
})
