import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { describe, expect, test, vi } from 'vitest'
import { insertRows } from '../../../src/daemon/platform/db/insert-rows.ts'
import { listEvents } from '../../../src/daemon/records/events/outbox.ts'
import { LISTEN_EVENTS, LISTEN_LOOK_MS } from '../../../src/daemon/webhooks/event-feed.ts'
import { LISTENERS } from '../../../src/daemon/webhooks/listen.ts'
import { EVENT_CATALOG, SUBSCRIBABLE_EVENTS } from '../../../src/shared/event-catalog.ts'
import { EVENT_SAMPLES } from '../../../src/shared/event-samples.ts'
import { LISTEN_PING_MS } from '../../../src/shared/spec-limits.ts'
import { isoTime } from '../../../src/shared/time.ts'
import { EVENT_DATA } from '../../../src/shared/wire/events.ts'
import { addKey, addTenant, addUser } from '../../accounts.ts'
import { describeEachEngine } from '../../engines.ts'
import { createFakeClock, type FakeClock } from '../../fake-clock.ts'
import { type Gateway, startGateway } from '../../harness.ts'
import { queryPlans } from '../../query-plan.ts'

const FEED = '/api/admin/webhooks/recent-events'
const TRIGGER = '/api/admin/webhooks/trigger'

type Frame = { type: string; data: { cursor: string; event: { id: string; type: string; data: object } } }
type Feed = {
  status: number
  /** The next frame, or undefined at the end of the stream; advances the clock until there is one. */
  next(): Promise<Frame | undefined>
  /** All received frames, including pings. */
  text(): string
  close(): void
}

/** Opens the event stream on a separate connection. */
async function listen(gateway: Gateway, clock: FakeClock, { key = gateway.adminKey, since = '' } = {}): Promise<Feed> {
  const headers = { authorization: `Bearer ${key}`, accept: 'text/event-stream' }
  const query = since === '' ? '' : `?since=${encodeURIComponent(since)}`
  const request = get(`${gateway.url}${FEED}${query}`, { headers, agent: false })
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  let text = ''
  let ended = false
  let taken = 0
  let told = () => {}
  response.setEncoding('utf8')
  response.on('data', (chunk: string) => {
    text += chunk
    told()
  })
  response.on('error', () => {})
  response.on('close', () => {
    ended = true
    told()
  })
  const frames = (): Frame[] =>
    text
      .split('\n\n')
      .slice(0, -1)
      .filter((one) => one.startsWith('data: '))
      .map((one) => JSON.parse(one.slice('data: '.length)))
  return {
    status: response.statusCode ?? 0,
    async next() {
      while (frames().length === taken && !ended) {
        const more = new Promise<void>((resolve) => {
          told = resolve
        })
        // A poll starts when its timer is due, and the store responds at any time.
        if (clock.dueIn(LISTEN_LOOK_MS)) clock.advance(LISTEN_LOOK_MS)
        await Promise.race([more, new Promise(setImmediate)])
      }
      return frames()[taken++]
    },
    text: () => text,
    close: () => void request.destroy(),
  }
}

const trigger = (gateway: Gateway, type: string, more: object = {}, key = gateway.adminKey) =>
  gateway.call('POST', TRIGGER, { type, ...more }, { key })

describeEachEngine('the feed of events', (engine) => {
  const start = async () => {
    const clock = createFakeClock()
    return { clock, gateway: await startGateway({ engine, clock }) }
  }

  test('sends each event once as it happens, and no earlier one', async () => {
    const { clock, gateway } = await start()
    await trigger(gateway, 'dlp:incident')
    const feed = await listen(gateway, clock)
    expect(await feed.next()).toEqual({ type: 'ready', data: { cursor: isoTime(clock.now()) } })
    const first = await trigger(gateway, 'pii:incident', { data: { count: 7 } })
    const second = await trigger(gateway, 'api:limit_reached')
    expect(first.body.event).toMatchObject({ id: expect.stringMatching(/^evt_test_[0-9a-f]{24}$/), data: { count: 7 } })
    expect((await feed.next())?.data.event).toEqual(first.body.event)
    expect((await feed.next())?.data.event).toEqual(second.body.event)
    clock.advance(LISTEN_LOOK_MS)
    const third = await trigger(gateway, 'pii:incident')
    expect((await feed.next())?.data.event).toEqual(third.body.event)
    feed.close()
  })

  test('sends an event that is stored after later ones', async () => {
    const { clock, gateway } = await start()
    const feed = await listen(gateway, clock)
    await feed.next()
    clock.advance(2_000)
    await trigger(gateway, 'pii:incident')
    expect((await feed.next())?.data.event.type).toBe('pii:incident')
    const { tenant_id } = await gateway.app.db.selectFrom('tenants').select('id as tenant_id').executeTakeFirstOrThrow()
    const late = { id: `evt_${'1'.repeat(24)}`, tenant_id, type: 'dlp:incident', data: '{}' }
    await gateway.app.db
      .insertInto('outbox_events')
      .values({ ...late, created_at: isoTime(clock.now() - 3_000) })
      .execute()
    expect((await feed.next())?.data.event.id).toBe(late.id)
    feed.close()
  })

  test('sends events that follow an event of a daemon whose clock is ahead', async () => {
    const { clock, gateway } = await start()
    const feed = await listen(gateway, clock)
    await feed.next()
    const { id: tenant_id } = await gateway.app.db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
    const ahead = { id: `evt_${'1'.repeat(24)}`, tenant_id, type: 'dlp:incident', data: '{}' }
    await gateway.app.db
      .insertInto('outbox_events')
      .values({ ...ahead, created_at: isoTime(clock.now() + 60_000) })
      .execute()
    expect((await feed.next())?.data.event.id).toBe(ahead.id)
    const { body } = await trigger(gateway, 'pii:incident')
    expect((await feed.next())?.data.event.id).toBe(body.event.id)
    feed.close()
  })

  test('rejects an impossible time, both as a page and as a stream', async () => {
    const { gateway } = await start()
    for (const since of ['2026-13-01T00:00:00.000Z', '2026-01-01', 'evt_1', '2026-01-01T00:00:00.000Z/x']) {
      for (const accept of ['application/json', 'text/event-stream']) {
        const answer = await gateway.call('GET', `${FEED}?since=${since}`, undefined, { headers: { accept } })
        expect([since, answer.status]).toEqual([since, 400])
      }
    }
  })

  test("reads its tenant's events from an index, in order", async () => {
    const { gateway } = await start()
    const places = [undefined, { createdAt: '2026-01-01T00:00:00.000Z', id: '' }]
    for (const after of places) {
      const plans = await queryPlans(gateway.app.db, (db) => listEvents(db, 'tenant', { after, limit: 10 }))
      expect(plans.join('\n')).toContain('outbox_events_by_time')
      expect(plans.join('\n')).not.toMatch(/SCAN|Seq Scan|TEMP B-TREE/)
    }
  })

  test('resumes at a cursor after a break', async () => {
    const { clock, gateway } = await start()
    const feed = await listen(gateway, clock)
    await feed.next()
    await trigger(gateway, 'pii:incident')
    const cursor = (await feed.next())?.data.cursor
    feed.close()
    clock.advance(60_000)
    const missed = await trigger(gateway, 'dlp:incident')
    const again = await listen(gateway, clock, { since: cursor ?? '' })
    expect((await again.next())?.type).toBe('ready')
    const ids: (string | undefined)[] = []
    while (!ids.includes(missed.body.event.id)) ids.push((await again.next())?.data.event.id)
    expect(ids.length).toBeLessThanOrEqual(2)
    again.close()
  })

  // Only one daemon may use a SQLite store.
  if (engine.name !== 'sqlite')
    test('includes events that another daemon stores', async () => {
      const { clock, gateway } = await start()
      const beside = await startGateway({ engine, clock, beside: gateway })
      const feed = await listen(beside, clock)
      await feed.next()
      const { body } = await trigger(gateway, 'pii:incident')
      expect((await feed.next())?.data.event).toEqual(body.event)
      feed.close()
    })

  test('includes only events of its tenant', async () => {
    const { clock, gateway } = await start()
    const { db } = gateway.app
    const { id: tenant_id } = await addTenant(db, { name: 'other' })
    const { secret } = await addKey(db, await addUser(db, { tenant_id, role: 'admin' }))
    const feed = await listen(gateway, clock, { key: secret })
    await feed.next()
    await trigger(gateway, 'pii:incident')
    const own = await trigger(gateway, 'dlp:incident', {}, secret)
    expect((await feed.next())?.data.event).toEqual(own.body.event)
    const page = await gateway.call('GET', FEED, undefined, { key: secret })
    expect(page.body.events).toEqual([own.body.event])
    feed.close()
  })

  test('ends when the key loses its right to listen', async () => {
    const { clock, gateway } = await start()
    const made = await gateway.call('POST', '/api/admin/api-keys', { name: 'listener' })
    const feed = await listen(gateway, clock, { key: made.body.secret })
    await feed.next()
    await gateway.call('DELETE', `/api/admin/api-keys/${made.body.apiKey.id}`)
    expect(await feed.next()).toBeUndefined()
  })

  test('ends when the key expires, before the next event', async () => {
    const { clock, gateway } = await start()
    const expiresAt = isoTime(clock.now() + 60_000)
    const made = await gateway.call('POST', '/api/admin/api-keys', { name: 'listener', expiresAt })
    const feed = await listen(gateway, clock, { key: made.body.secret })
    await feed.next()
    await trigger(gateway, 'dlp:incident')
    expect((await feed.next())?.data.event.type).toBe('dlp:incident')
    clock.advance(60_000)
    await trigger(gateway, 'pii:incident')
    const last = await feed.next()
    feed.close()
    expect([last, feed.text()]).toEqual([undefined, expect.not.stringContaining('pii:incident')])
  })

  test('sends a backlog page by page, with little memory', async () => {
    const { clock, gateway } = await start()
    const { id: tenant_id } = await gateway.app.db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
    const count = 5 * LISTEN_EVENTS
    const since = isoTime(clock.now() - (count + 60) * 1_000)
    const rows = Array.from({ length: count }, (_, at) => ({
      id: `evt_${String(at).padStart(24, '0')}`,
      tenant_id,
      type: 'pii:incident',
      created_at: isoTime(Date.parse(since) + at * 1_000),
      data: JSON.stringify(EVENT_SAMPLES['pii:incident']),
    }))
    await insertRows(gateway.app.db, 'outbox_events', rows)
    let remembered = 0
    const set = Map.prototype.set
    const spy = vi.spyOn(Map.prototype, 'set').mockImplementation(function (this: Map<unknown, unknown>, key, value) {
      set.call(this, key, value)
      if (typeof key === 'string' && key.startsWith('evt_0')) remembered = Math.max(remembered, this.size)
      return this
    })
    const feed = await listen(gateway, clock, { since })
    await feed.next()
    const told: (string | undefined)[] = []
    while (told.length < count) told.push((await feed.next())?.data.event.id)
    spy.mockRestore()
    expect(told).toEqual(rows.map(({ id }) => id))
    expect(remembered).toBeGreaterThan(0)
    expect(remembered).toBeLessThan(2 * LISTEN_EVENTS)
    feed.close()
  })

  test('does not count towards the daily limit of a key, but a page does', async () => {
    const { clock, gateway } = await start()
    const { db } = gateway.app
    const { id: tenant_id } = await addTenant(db, { name: 'other' })
    const owner = await addUser(db, { tenant_id, role: 'admin' })
    const { secret: key } = await addKey(db, owner, { settings: { dailyLimit: 2 } })
    const page = async () => (await gateway.call('GET', FEED, undefined, { key })).status
    const stream = async () => {
      const feed = await listen(gateway, clock, { key })
      feed.close()
      return feed.status
    }
    expect([await stream(), await page(), await stream(), await page()]).toEqual([200, 200, 200, 200])
    expect([await page(), await stream()]).toEqual([429, 200])
  })

  test('ends when the daemon drains, without delaying it', async () => {
    const { clock, gateway } = await start()
    const feed = await listen(gateway, clock)
    await feed.next()
    const drained = gateway.app.drain()
    expect(await feed.next()).toBeUndefined()
    await drained
  })

  test('sends regular pings, so that proxies keep it open', async () => {
    const { clock, gateway } = await start()
    const feed = await listen(gateway, clock)
    await feed.next()
    for (let passed = 0; passed <= LISTEN_PING_MS; ) {
      if (clock.dueIn(LISTEN_LOOK_MS)) {
        clock.advance(LISTEN_LOOK_MS)
        passed += LISTEN_LOOK_MS
      }
      await new Promise(setImmediate)
    }
    await trigger(gateway, 'pii:incident')
    await feed.next()
    expect(feed.text()).toContain('\n\n: ')
    feed.close()
  })

  test('has a page of the latest events, and pages after a cursor', async () => {
    const { clock, gateway } = await start()
    expect((await gateway.call('GET', FEED)).body).toEqual({ success: true, events: [], next: null })
    const { id: tenant_id } = await gateway.app.db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
    const many = Array.from({ length: LISTEN_EVENTS + 5 }, (_, at) => ({
      id: `evt_${String(at).padStart(24, '0')}`,
      tenant_id,
      type: 'pii:incident',
      created_at: isoTime(clock.now() + Math.floor(at / 10)),
      data: JSON.stringify(EVENT_SAMPLES['pii:incident']),
    }))
    await gateway.app.db.insertInto('outbox_events').values(many).execute()
    const ids = (body: { events: { id: string }[] }) => body.events.map(({ id }) => id)
    const latest = await gateway.call('GET', FEED)
    expect(ids(latest.body)).toEqual(many.slice(5).map(({ id }) => id))
    const first = await gateway.call('GET', `${FEED}?since=${isoTime(clock.now() - 1)}`)
    const second = await gateway.call('GET', `${FEED}?since=${encodeURIComponent(first.body.next)}`)
    expect([...ids(first.body), ...ids(second.body)]).toEqual(many.map(({ id }) => id))
    const last = await gateway.call('GET', `${FEED}?since=${encodeURIComponent(second.body.next)}`)
    expect(last.body).toEqual({ success: true, events: [], next: second.body.next })
  })

  test('has a limit of listeners per tenant', async () => {
    const { clock, gateway } = await start()
    const feeds: Feed[] = []
    for (let at = 0; at < LISTENERS.perTenant; at++) feeds.push(await listen(gateway, clock))
    const refused = await listen(gateway, clock)
    expect(refused.status).toBe(429)
    for (const feed of feeds) feed.close()
  })
})

describe('trigger', () => {
  test('sends a sample to no endpoint by default, and to a named one', async () => {
    const gateway = await startGateway()
    const hook = { url: 'http://127.0.0.1:61999/hook', events: ['*'] }
    const { id } = (await gateway.call('POST', '/api/admin/webhooks', hook)).body.webhook
    await gateway.call('POST', '/api/admin/webhooks', hook)
    await trigger(gateway, 'pii:incident')
    const log = () => gateway.call('GET', '/api/admin/deliveries')
    expect((await log()).body.deliveries).toEqual([])
    const { status, body } = await trigger(gateway, 'pii:incident', { endpoint_id: id })
    expect(status).toBe(202)
    expect((await log()).body.deliveries).toMatchObject([
      { id: body.delivery_id, webhookId: id, eventId: body.event.id, eventType: 'pii:incident', isTest: true },
    ])
  })

  test('sends no sample when missed events are resent', async () => {
    const gateway = await startGateway()
    const hook = { url: 'http://127.0.0.1:61999/hook', events: ['*'] }
    const { id } = (await gateway.call('POST', '/api/admin/webhooks', hook)).body.webhook
    await trigger(gateway, 'pii:incident')
    const since = '2026-01-01T00:00:00Z'
    const recovered = await gateway.call('POST', `/api/admin/webhooks/${id}/recover`, { since })
    expect(recovered.body).toMatchObject({ recovered: 0 })
  })

  test('rejects other events, invalid data, and endpoints that are disabled or missing', async () => {
    const gateway = await startGateway()
    const hook = { url: 'http://127.0.0.1:61999/hook', events: ['*'], enabled: false }
    const { id } = (await gateway.call('POST', '/api/admin/webhooks', hook)).body.webhook
    expect((await trigger(gateway, 'webhook:test')).status).toBe(400)
    const wrong = await trigger(gateway, 'pii:incident', { data: { count: 'many' } })
    expect([wrong.status, wrong.body.error.details.field]).toEqual([400, 'data.count'])
    expect((await trigger(gateway, 'pii:incident', { endpoint_id: id })).body.error.code).toBe('WEBHOOK_DISABLED')
    const unknown = await trigger(gateway, 'pii:incident', { endpoint_id: 'f'.repeat(24) })
    expect(unknown.body.error.code).toBe('WEBHOOK_NOT_FOUND')
    expect((await gateway.call('GET', FEED)).body.events).toEqual([])
  })
})

describe('samples', () => {
  test('exist for every event of the catalog, with all fields of its data', () => {
    expect(Object.keys(EVENT_SAMPLES)).toEqual(Object.keys(EVENT_CATALOG))
    for (const event of SUBSCRIBABLE_EVENTS) {
      const { shape } = EVENT_DATA[event]
      expect(Object.keys(EVENT_SAMPLES[event]).sort()).toEqual(Object.keys(shape).sort())
      expect(EVENT_DATA[event].parse(EVENT_SAMPLES[event])).toEqual(EVENT_SAMPLES[event])
    }
  })
})
