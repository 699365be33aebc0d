import { afterEach, expect, test } from 'vitest'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { createRejectionReports } from '../../../../src/daemon/records/events/rejections.ts'
import { newApiKey } from '../../../../src/shared/ids.ts'
import {
  BUNDLE_ID_CHARS,
  PUBLIC_PROOF_RATE,
  REJECTED_KEYS,
  REJECTION_REPORTS_PER_MINUTE,
  UNKNOWN_BUNDLE_IDS,
} from '../../../../src/shared/spec-limits.ts'
import type { EventData } from '../../../../src/shared/wire/events.ts'
import { describeEachEngine } from '../../../engines.ts'
import { addEntries, newRequestChain, requestPayload } from '../../../evidence-rows.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, startGateway } from '../../../harness.ts'
import { addTestTenant } from '../../../tenant-admin.ts'
import { type Receiver, startReceiver } from '../../webhooks/receiver.ts'

const WINDOW_START = '2026-05-01T00:00:00.000Z'
const TYPE = 'security:rejected_requests'

let receiver: Receiver | undefined
afterEach(async () => {
  await receiver?.close()
  receiver = undefined
})

/** A gateway behind a proxy, with an endpoint of the operator. */
async function start(options: Parameters<typeof startGateway>[0] = {}) {
  const clock = createFakeClock(Date.parse(WINDOW_START) + 30_000)
  const receiving = await startReceiver()
  receiver = receiving
  const gateway = await startGateway({ clock, trustedProxies: ['127.0.0.1'], ...options })
  const endpoint = { url: receiving.url, description: '', events: [TYPE], enabled: true }
  expect((await gateway.call('POST', '/api/admin/webhooks', endpoint)).status).toBe(201)
  const bodies = () => receiving.received.map(({ body }) => body)
  return { clock, gateway, receiving, bodies }
}

const operatorTenant = async (db: Db) => {
  const found = await db.selectFrom('api_keys').select('tenant_id').where('is_operator', '=', 1).executeTakeFirst()
  return found?.tenant_id
}
const stored = (db: Db) =>
  db.selectFrom('outbox_events').select(['id', 'tenant_id', 'data']).where('type', '=', TYPE).execute()

const present = (gateway: Gateway, address: string, headers: Record<string, string>) =>
  gateway.call('GET', '/api/external/whoami', undefined, {
    key: null,
    headers: { 'x-forwarded-for': address, ...headers },
  })
const verify = (gateway: Gateway, address: string, id: string, path = '/api/public/verify') =>
  gateway.call('GET', `${path}/${id}`, undefined, { key: null, headers: { 'x-forwarded-for': address } })

describeEachEngine('rejected keys', (engine) => {
  test('of one address create one event a minute for the operator, which contains no key', async () => {
    const { clock, gateway, receiving, bodies } = await start({ engine })
    const repeated = newApiKey()
    const kinds = [
      () => ({ authorization: `Bearer ${newApiKey()}` }),
      () => ({ authorization: `Bearer ${repeated}` }),
      () => ({ authorization: 'Basic YWRtaW46YWRtaW4=' }),
      () => ({ 'x-api-key': 'one', 'x-goog-api-key': 'other' }),
    ]
    let sent = 0
    const reject = async (times: number, address = () => `2001:db8::${sent}`) => {
      for (let count = 0; count < times; count++) {
        const headers = (kinds[sent++ % kinds.length] as (typeof kinds)[number])()
        expect((await present(gateway, address(), headers)).status).toBe(401)
      }
    }
    expect((await present(gateway, '2001:db8::1', {})).status).toBe(401)
    await reject(REJECTED_KEYS.reportedAt)
    await receiving.arrived(1)
    const event = JSON.parse(bodies()[0] as string)
    expect(event).toMatchObject({ id: expect.stringMatching(/^evt_[0-9a-f]{24}$/), type: TYPE })
    expect(event.data).toEqual({
      address: '2001:db8::/64',
      routes: 'authenticated',
      count: REJECTED_KEYS.reportedAt,
      windowStart: WINDOW_START,
      windowSeconds: 60,
    })
    expect(gateway.log).toContainEqual(
      expect.objectContaining({ level: 'warn', facts: expect.objectContaining({ address: '2001:db8::/64' }) }),
    )

    await reject(REJECTED_KEYS.reportedAt + 1)
    await reject(REJECTED_KEYS.reportedAt, () => '192.0.2.1')
    await receiving.arrived(2)
    clock.advance(30_000)
    await reject(REJECTED_KEYS.reportedAt, () => '192.0.2.1')
    await receiving.arrived(3)
    const facts = bodies().map((body) => (JSON.parse(body) as { data: EventData<typeof TYPE> }).data)
    expect(facts.map(({ address, windowStart }) => [address, windowStart])).toEqual([
      ['2001:db8::/64', WINDOW_START],
      ['192.0.2.1', WINDOW_START],
      ['192.0.2.1', '2026-05-01T00:01:00.000Z'],
    ])
    const rows = await stored(gateway.app.db)
    expect(rows.map(({ tenant_id }) => tenant_id)).toEqual(Array(3).fill(await operatorTenant(gateway.app.db)))
  })

  test('below the threshold, and requests without a key, create no event', async () => {
    const { gateway } = await start({ engine })
    for (let count = 1; count < REJECTED_KEYS.reportedAt; count++) {
      expect((await present(gateway, '192.0.2.1', { authorization: 'Bearer' })).status).toBe(401)
    }
    for (let count = 0; count < 3; count++) expect((await present(gateway, '192.0.2.1', {})).status).toBe(401)
    const { db } = gateway.app
    await gateway.call('GET', '/api/admin/webhooks')
    expect(await stored(db)).toEqual([])
    expect(gateway.log.filter(({ level }) => level === 'warn')).toEqual([])
  })
})

test('malformed keys count toward the limit of an address, and accepted keys still work', async () => {
  const { clock, gateway } = await start()
  const malformed = () => present(gateway, '192.0.2.1', { authorization: 'Basic YWRtaW46YWRtaW4=' })
  expect((await present(gateway, '192.0.2.1', { authorization: `Bearer ${gateway.adminKey}` })).status).toBe(200)
  for (let count = 0; count < REJECTED_KEYS.perMinute; count++) expect((await malformed()).status).toBe(401)
  const refused = await malformed()
  expect([refused.status, refused.headers['retry-after']]).toEqual([429, '30'])
  const unknown = { authorization: `Bearer ${newApiKey()}` }
  expect((await present(gateway, '192.0.2.1', unknown)).status).toBe(429)
  expect((await present(gateway, '192.0.2.1', {})).status).toBe(401)
  expect((await present(gateway, '192.0.2.2', unknown)).status).toBe(401)
  expect((await present(gateway, '192.0.2.1', { authorization: `Bearer ${gateway.adminKey}` })).status).toBe(200)
  clock.advance(30_000)
  expect((await malformed()).status).toBe(401)
})

describeEachEngine('a client with a large network', (engine) => {
  test('is reported, although each of its addresses sends one request', async () => {
    const { gateway, receiving, bodies } = await start({ engine })
    const id = 'x'.repeat(BUNDLE_ID_CHARS + 1)
    for (let count = 1; count <= 4 * PUBLIC_PROOF_RATE.reportedAt; count++)
      expect((await verify(gateway, `2001:db8:7:${count.toString(16)}::1`, id)).status).toBe(400)
    await receiving.arrived(1)
    expect(JSON.parse(bodies()[0] as string).data).toMatchObject({ address: '2001:db8:7::/48', count: 240 })
    for (let count = 4 * PUBLIC_PROOF_RATE.reportedAt; count < 4 * PUBLIC_PROOF_RATE.perMinute; count++)
      expect((await verify(gateway, `2001:db8:7:${count.toString(16)}::2`, id)).status).toBe(400)
    expect((await verify(gateway, '2001:db8:7:ffff::1', id)).status).toBe(429)
    expect((await verify(gateway, '2001:db8:8::1', id)).status).toBe(400)
  })
})

describeEachEngine('the public verification route', (engine) => {
  test('reports an address with many unknown and malformed bundle ids', async () => {
    const { gateway, receiving, bodies } = await start({ engine })
    const ids = ['jti-nothing', 'nothing', 'x'.repeat(BUNDLE_ID_CHARS + 1)]
    for (let count = 0; count < PUBLIC_PROOF_RATE.reportedAt; count++) {
      const path = count % 2 === 0 ? '/api/public/verify' : '/verify'
      const answer = await verify(gateway, '192.0.2.7', ids[count % 3] as string, path)
      expect(answer.status).toBe(count % 3 === 2 ? 400 : 404)
    }
    await receiving.arrived(1)
    expect(JSON.parse(bodies()[0] as string).data).toEqual({
      address: '192.0.2.7',
      routes: 'public_verification',
      count: PUBLIC_PROOF_RATE.reportedAt,
      windowStart: WINDOW_START,
      windowSeconds: 60,
    })
  })

  test('caches an unknown bundle id for a short time', async () => {
    const { clock, gateway } = await start({ engine })
    const tenant = await addTestTenant(gateway)
    const id = 'jti-0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b'
    const status = async () => (await verify(gateway, '192.0.2.7', id)).status
    expect(await status()).toBe(404)
    await addEntries(tenant.db, tenant.id, newRequestChain(), [{ payload: requestPayload(), id }])
    clock.advance(UNKNOWN_BUNDLE_IDS.ms - 1)
    expect(await status()).toBe(404)
    clock.advance(1)
    expect(await status()).toBe(200)
  })
})

test('malformed bundle ids and requests over the limit of the public route count too', async () => {
  const { gateway, receiving } = await start()
  const malformed = 'x'.repeat(BUNDLE_ID_CHARS + 1)
  for (let count = 0; count < PUBLIC_PROOF_RATE.perMinute; count++) {
    expect((await verify(gateway, '192.0.2.7', malformed)).status).toBe(400)
  }
  expect((await verify(gateway, '192.0.2.7', malformed)).status).toBe(429)

  const { headers } = await gateway.chat({ prompt: 'hi' })
  const id = String(headers['x-smltp-bundle-id'])
  for (let count = 0; count < PUBLIC_PROOF_RATE.perMinute; count++) {
    expect((await verify(gateway, '192.0.2.8', id)).status).toBe(200)
  }
  await receiving.arrived(1)
  expect(await stored(gateway.app.db)).toHaveLength(1)
  for (let count = 0; count < PUBLIC_PROOF_RATE.reportedAt; count++) {
    expect((await verify(gateway, '192.0.2.8', id)).status).toBe(429)
  }
  await receiving.arrived(2)
})

describeEachEngine('reports of rejected requests', (engine) => {
  test('of two daemons are one event, and their number per minute is limited', async () => {
    const clock = createFakeClock(Date.parse(WINDOW_START))
    const gateway = await startGateway({ engine, clock })
    const { db } = gateway.app
    const log = { debug() {}, info() {}, warn() {}, error() {} }
    const daemons = [1, 2].map(() => createRejectionReports({ db, clock, log, announceEvents() {} }))
    const limits = { reportedAt: 1, addresses: 1_000 }
    for (const daemon of daemons) daemon.counter('authenticated', limits)('192.0.2.1')
    await Promise.all(daemons.map((daemon) => daemon.close()))
    expect(await stored(db)).toHaveLength(1)

    const [daemon] = daemons
    const count = daemon?.counter('public_verification', limits)
    const all = () => {
      for (let at = 0; at < 2 * REJECTION_REPORTS_PER_MINUTE; at++) count?.(`198.51.100.${at}`)
    }
    all()
    await daemon?.close()
    expect(await stored(db)).toHaveLength(REJECTION_REPORTS_PER_MINUTE)
    clock.advance(60_000)
    all()
    await daemon?.close()
    expect(await stored(db)).toHaveLength(2 * REJECTION_REPORTS_PER_MINUTE)
  })

  test('are logged and dropped if the store is unavailable', async () => {
    const store = await engine.open()
    await store.close()
    const errors: string[] = []
    const log = { debug() {}, info() {}, warn() {}, error: (_: object, message: string) => void errors.push(message) }
    const clock = createFakeClock()
    const reports = createRejectionReports({ db: store.db, clock, log, announceEvents() {} })
    reports.counter('authenticated', { reportedAt: 1, addresses: 10 })(undefined)
    await reports.close()
    expect(errors).toEqual(['events about rejected requests could not be stored'])
  })
})
