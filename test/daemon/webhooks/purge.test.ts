import { expect, test } from 'vitest'
import { insertRows } from '../../../src/daemon/platform/db/insert-rows.ts'
import type { OutboxEventRow, WebhookDeliveryRow } from '../../../src/daemon/platform/db/tables.ts'
import { newDelivery } from '../../../src/daemon/webhooks/delivery.ts'
import { purgeWebhooks, trimHeldDeliveries, WEBHOOK_PURGE_ROWS } from '../../../src/daemon/webhooks/purge.ts'
import { deliverMissed, requeueDeliveries } from '../../../src/daemon/webhooks/store.ts'
import { SUBSCRIBABLE_EVENTS } from '../../../src/shared/event-catalog.ts'
import { WEBHOOK_HELD } from '../../../src/shared/spec-limits.ts'
import { DAY_MS, isoTime } from '../../../src/shared/time.ts'
import { describeEachEngine, type TestEngine } from '../../engines.ts'
import { openWorld } from './dispatch-world.ts'

/** A world with an endpoint at a closed port, and the data that these tests check. */
async function openLog(engine: TestEngine) {
  const world = await openWorld(engine)
  const target = await world.endpoint('http://127.0.0.1/')
  return {
    ...world,
    target,
    fannedOut: (count: number) => world.events(count, { fanned_out_at: isoTime(world.clock.now()) }),
    async deliver(event: OutboxEventRow | undefined, fields: Partial<WebhookDeliveryRow>) {
      if (event === undefined) throw new Error('there is no such event')
      const row = { ...newDelivery(event, target.id, world.clock.now()), ...fields }
      await world.db.insertInto('webhook_deliveries').values(row).execute()
      return row
    },
    eventIds: async () =>
      (await world.db.selectFrom('outbox_events').select('id').execute()).map(({ id }) => id).sort(),
    recover: async () => {
      const now = world.clock.now()
      const requeued = await requeueDeliveries(world.db, target, { since: isoTime(0), now: isoTime(now) })
      const types = SUBSCRIBABLE_EVENTS
      return {
        requeued,
        missed: await deliverMissed(world.db, target, { types, since: isoTime(0), now, limit: 100 }),
      }
    },
  }
}

describeEachEngine('after 30 days', (engine) => {
  test('old deliveries are deleted, and a day later their events; undelivered ones stay with their event', async () => {
    const world = await openLog(engine)
    const [sent, waiting, recent] = await world.fannedOut(3)
    for (const [event, state] of [
      [sent, 'delivered'],
      [sent, 'failed'],
      [sent, 'held'],
      [sent, 'cancelled'],
      [waiting, 'pending'],
    ] as const)
      await world.deliver(event, { resend_of: state, state })
    const states = async () => (await world.deliveries()).map(({ state }) => state)
    const events = [sent?.id, waiting?.id, recent?.id].sort()
    world.clock.advance(30 * DAY_MS)
    await purgeWebhooks(world)
    expect(await states()).toHaveLength(5)
    world.clock.advance(1)
    await purgeWebhooks(world)
    expect([await states(), await world.eventIds()]).toEqual([['pending'], events])
    world.clock.advance(DAY_MS)
    await purgeWebhooks(world)
    expect([await states(), await world.eventIds()]).toEqual([['pending'], [waiting?.id]])
  })

  test('a delivered event is not resent as missed, although its delivery was deleted', async () => {
    const world = await openLog(engine)
    const [event] = await world.fannedOut(1)
    await world.deliver(event, { state: 'delivered' })
    world.clock.advance(30 * DAY_MS + 1)
    await purgeWebhooks(world)
    expect([await world.deliveries(), await world.eventIds()]).toEqual([[], [event?.id]])
    expect(await world.recover()).toEqual({ requeued: 0, missed: 0 })
  })

  test('missed events can be resent until they are deleted', async () => {
    const world = await openLog(engine)
    await world.fannedOut(1)
    world.clock.advance(30 * DAY_MS)
    expect(await world.recover()).toEqual({ requeued: 0, missed: 1 })
  })

  test('an event stays as long as a late resend of it, which can then be recovered', async () => {
    const world = await openLog(engine)
    const [event] = await world.fannedOut(1)
    world.clock.advance(29 * DAY_MS)
    await world.deliver(event, { state: 'failed', resend_of: 'earlier' })
    world.clock.advance(2 * DAY_MS + 1)
    await purgeWebhooks(world)
    expect(await world.eventIds()).toEqual([event?.id])
    expect(await world.recover()).toEqual({ requeued: 1, missed: 0 })
    await world.db.updateTable('webhook_deliveries').set({ state: 'delivered' }).execute()
    world.clock.advance(28 * DAY_MS + 1)
    await purgeWebhooks(world)
    expect([await world.deliveries(), await world.eventIds()]).toEqual([[], []])
  })

  test('no delivery waits for a deleted event', async () => {
    const world = await openLog(engine)
    const [lost, kept] = await world.fannedOut(2)
    await world.deliver(lost, { state: 'pending' })
    await world.deliver(kept, { state: 'pending' })
    await world.db
      .deleteFrom('outbox_events')
      .where('id', '=', lost?.id ?? '')
      .execute()
    await purgeWebhooks(world)
    const told = (await world.deliveries()).map(({ event_id, state, last_error }) => ({ event_id, state, last_error }))
    expect(told).toEqual(
      expect.arrayContaining([
        { event_id: lost?.id, state: 'cancelled', last_error: 'its event is past the retention time' },
        { event_id: kept?.id, state: 'pending', last_error: null },
      ]),
    )
  })
})

describeEachEngine('what is held for a disabled endpoint', (engine) => {
  test(`is limited to the latest ${WEBHOOK_HELD}; older ones are cancelled, and the endpoint counts them`, async () => {
    const world = await openLog(engine)
    const other = await world.endpoint('http://127.0.0.1/other')
    const [event] = await world.fannedOut(1)
    if (event === undefined) throw new Error('there is no event')
    const over = WEBHOOK_PURGE_ROWS + 3
    const held = (endpointId: string, count: number): WebhookDeliveryRow[] =>
      Array.from({ length: count }, (_, at) => ({
        ...newDelivery({ ...event, id: `${event.id}-${at}` }, endpointId, world.clock.now() + at),
        state: 'held',
      }))
    const rows = held(world.target.id, WEBHOOK_HELD + over)
    await insertRows(world.db, 'webhook_deliveries', rows)
    await insertRows(world.db, 'webhook_deliveries', held(other.id, WEBHOOK_HELD))
    await trimHeldDeliveries(world)
    await trimHeldDeliveries(world)
    const cancelled = await world.db
      .selectFrom('webhook_deliveries')
      .select(['id', 'last_error'])
      .where('state', '=', 'cancelled')
      .orderBy('created_at')
      .execute()
    expect(cancelled.map(({ id }) => id)).toEqual(rows.slice(0, over).map(({ id }) => id))
    expect(new Set(cancelled.map(({ last_error }) => last_error))).toEqual(
      new Set([`more than ${WEBHOOK_HELD} deliveries were held`]),
    )
    expect([
      (await world.endpointNow(world.target.id)).held_dropped,
      (await world.endpointNow(other.id)).held_dropped,
    ]).toEqual([over, 0])
  })
})
