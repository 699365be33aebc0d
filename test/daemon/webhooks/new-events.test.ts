import { sql } from 'kysely'
import { afterEach, expect, test } from 'vitest'
import { CIRCUIT_FAILURES, CIRCUIT_PROBE_MS } from '../../../src/daemon/models/breaker.ts'
import { addKey, addUser } from '../../accounts.ts'
import { describeEachEngine, postgresEngine } from '../../engines.ts'
import { createFakeClock } from '../../fake-clock.ts'
import { type Gateway, type GatewayOptions, startGateway } from '../../harness.ts'
import { chatJson, replyJson } from '../../upstream.ts'
import { MULTIPART, multipart } from '../knowledge/ingest/multipart.ts'
import { type Receiver, startReceiver } from './receiver.ts'

const NOW = Date.parse('2026-11-20T12:00:00.000Z')
const DAY_MS = 86_400_000

let receiver: Receiver
afterEach(() => receiver.close())

async function start(events: string[], options: GatewayOptions = {}) {
  receiver = await startReceiver()
  const gateway = await startGateway(options)
  const endpoint = { url: receiver.url, description: 'mine', events, enabled: true }
  expect((await gateway.call('POST', '/api/admin/webhooks', endpoint)).status).toBe(201)
  const { id: tenantId } = await gateway.app.db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
  return { gateway, db: gateway.app.db, tenantId }
}

const received = () => receiver.received.map(({ body }) => JSON.parse(body))
const eventsIn = async (gateway: Gateway, type: string) =>
  (await gateway.app.db.selectFrom('outbox_events').select(['id', 'data']).where('type', '=', type).execute()).map(
    ({ data }) => JSON.parse(data),
  )

describeEachEngine('a real receiver gets', (engine) => {
  test('budget:threshold at 50, 80 and 100 percent, each once, also after a crash lost it', async () => {
    const { gateway, db, tenantId } = await start(['budget:threshold'], { engine, points: { Essential: 0 } })
    const user = await addUser(db, { tenant_id: tenantId, usage_by_model: 1, dollar_limit_nanos: null })
    const { secret: key } = await addKey(db, user)
    // An answer costs 21,000 nano-dollars.
    const { body } = await gateway.call('POST', '/api/admin/budgets', {
      ...{ scope: 'tag', subject: 'team-a', dollarLimit: 0.042 },
    })
    const setSpend = (nanos: number) =>
      db.updateTable('spend_counters').set({ nanos }).where('holder', '=', 'budget').execute()
    await setSpend(20_979_000)
    const ask = async () =>
      (await gateway.chat({ prompt: 'hi', max_tokens: 5 }, { key, headers: { 'x-aigw-tag': 'team-a' } })).status
    expect(await ask()).toBe(200)
    expect(await ask()).toBe(200)
    await receiver.arrived(1)
    expect(received()[0]).toMatchObject({
      type: 'budget:threshold',
      data: {
        scope: 'tag',
        subject: 'team-a',
        budgetId: body.budget.id,
        threshold: 50,
        dollarLimit: 0.042,
        currentSpend: 0.021,
      },
    })
    // As if the daemon was killed after the spend was stored, and before the event was.
    await setSpend(42_000_000)
    await gateway.restart()
    await receiver.arrived(3)
    await gateway.restart()
    expect((await eventsIn(gateway, 'budget:threshold')).map(({ threshold }) => threshold).sort()).toEqual([
      100, 50, 80,
    ])
    expect(receiver.received).toHaveLength(3)
  })

  test('budget:threshold at 100 percent when the rest is too little for any request', async () => {
    const { gateway, db, tenantId } = await start(['budget:threshold'], { engine, points: { Essential: 0 } })
    const user = await addUser(db, { tenant_id: tenantId, usage_by_model: 1, dollar_limit_nanos: null })
    const { secret: key } = await addKey(db, user)
    await gateway.call('POST', '/api/admin/budgets', { scope: 'tag', subject: 'team-a', dollarLimit: 0.042 })
    const spend = (nanos: number) =>
      db.updateTable('spend_counters').set({ nanos }).where('holder', '=', 'budget').execute()
    const ask = async (body: object) =>
      (await gateway.chat({ prompt: 'hi', ...body }, { key, headers: { 'x-aigw-tag': 'team-a' } })).status
    await spend(41_990_000)
    // A dry run tells only its caller.
    const dryRun = { prompt: 'hi', index: 'Zero-Knowledge', model: 'test/any' }
    const options = { key, headers: { 'x-aigw-tag': 'team-a' } }
    expect((await gateway.call('POST', '/api/external/policy-check', dryRun, options)).body.checks.quota.passed).toBe(
      false,
    )
    expect(await ask({})).toBe(429)
    await receiver.arrived(3)
    expect(await ask({})).toBe(429)
    const data = received().map((event) => event.data)
    expect(data.map(({ threshold }) => threshold).sort()).toEqual([100, 50, 80])
    expect(data[0]).toMatchObject({ scope: 'tag', subject: 'team-a', dollarLimit: 0.042, currentSpend: 0.04199 })
    // One request that costs more than the rest does not show that a budget is used up.
    await gateway.call('POST', '/api/admin/budgets', { scope: 'tag', subject: 'team-b', dollarLimit: 0.001 })
    const large = await gateway.chat({ prompt: 'hi', max_tokens: 4_000 }, { key, headers: { 'x-aigw-tag': 'team-b' } })
    expect(large.status).toBe(429)
    await gateway.restart()
    expect(await eventsIn(gateway, 'budget:threshold')).toHaveLength(3)
  })

  test('budget:threshold of the last month on the first day of a month, and despite unreadable settings', async () => {
    const clock = createFakeClock(Date.parse('2026-12-01T00:30:00.000Z'))
    const { gateway, db, tenantId } = await start(['budget:threshold'], { engine, clock })
    const user = await addUser(db, { tenant_id: tenantId, usage_by_model: 1, dollar_limit_nanos: 1_000 })
    const { row } = await addKey(db, user, { settings: { usageByModel: { enabled: true, dollarLimit: 0.004 } } })
    await db.updateTable('api_keys').set({ settings: '{"usageByModel":7}' }).where('id', '=', row.id).execute()
    const { body } = await gateway.call('POST', '/api/admin/budgets', {
      scope: 'tag',
      subject: 'a',
      dollarLimit: 0.000001,
    })
    const spent = { tenant_id: tenantId, period: '2026-11', points: 0 }
    await db
      .insertInto('spend_counters')
      .values([
        { ...spent, holder: 'user', holder_id: user.id, nanos: 500 },
        { ...spent, holder: 'key', holder_id: row.id, nanos: 4_000_000 },
        { ...spent, holder: 'budget', holder_id: body.budget.id, nanos: 499 },
      ])
      .execute()
    await gateway.restart()
    await expect
      .poll(() => eventsIn(gateway, 'budget:threshold'), { timeout: 10_000 })
      .toMatchObject([{ scope: 'user', subject: user.id, threshold: 50, period: '2026-11' }])
    await receiver.arrived(1)
  })

  test('budget:threshold for the budgets of an account and of a key', async () => {
    const { gateway, db, tenantId } = await start(['budget:threshold'], { engine, points: { Essential: 0 } })
    const user = await addUser(db, { tenant_id: tenantId, usage_by_model: 1, dollar_limit_nanos: 5_000_000 })
    const { secret: key, row } = await addKey(db, user, {
      settings: { usageByModel: { enabled: true, dollarLimit: 0.004 } },
    })
    const period = new Date().toISOString().slice(0, 7)
    const spent = { tenant_id: tenantId, period, nanos: 2_600_000, points: 0 }
    await db
      .insertInto('spend_counters')
      .values([
        { ...spent, holder: 'user', holder_id: user.id },
        { ...spent, holder: 'key', holder_id: row.id },
      ])
      .execute()
    expect((await gateway.chat({ prompt: 'hi', max_tokens: 5 }, { key })).status).toBe(200)
    await receiver.arrived(2)
    expect(
      received()
        .map(({ data: { scope, subject, threshold } }) => [scope, subject, threshold])
        .sort(),
    ).toEqual(
      [
        ['key', row.id, 50],
        ['user', user.id, 50],
      ].sort(),
    )
  })

  test('provider:down and provider:recovered, once per outage, also after a restart', async () => {
    const clock = createFakeClock(NOW)
    const { gateway } = await start(['provider:down', 'provider:recovered'], { engine, clock })
    gateway.upstream.fallback(replyJson({ error: { message: 'down' } }, { status: 500 }))
    for (let at = 0; at < CIRCUIT_FAILURES + 2; at++) await gateway.chat({ prompt: 'hi' })
    await receiver.arrived(1)
    expect(received()[0]).toMatchObject({
      type: 'provider:down',
      data: { provider: 'test', model: 'test/any', reason: 'server_error', since: '2026-11-20T12:00:00.000Z' },
    })
    await gateway.restart()
    await clock.advance(60_000 + CIRCUIT_PROBE_MS.max)
    gateway.upstream.fallback(replyJson(chatJson('yes', { usage: { prompt_tokens: 1, completion_tokens: 1 } })))
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
    await receiver.arrived(2)
    expect(received()[1]).toMatchObject({
      type: 'provider:recovered',
      data: { provider: 'test', model: 'test/any', since: '2026-11-20T12:00:00.000Z', downSeconds: 70 },
    })
    expect(receiver.received).toHaveLength(2)
  })

  test('key:expiring once per key and time of expiry', async () => {
    const { gateway, db, tenantId } = await start(['key:expiring'], { engine })
    const user = await addUser(db, { tenant_id: tenantId })
    const expiresAt = new Date(Date.now() + 3 * DAY_MS).toISOString()
    const created_at = new Date(Date.now() - 30 * DAY_MS).toISOString()
    const { row } = await addKey(db, user, { created_at, expires_at: expiresAt, name: 'ci' })
    // A key that was created for less time than KEY_EXPIRING_DAYS needs no notice.
    await addKey(db, user, { created_at: new Date().toISOString(), expires_at: expiresAt, name: 'short-lived' })
    await addKey(db, user, { expires_at: new Date(Date.now() + 30 * DAY_MS).toISOString() })
    await addKey(db, user, { expires_at: new Date(Date.now() - DAY_MS).toISOString() })
    await gateway.restart()
    await receiver.arrived(1)
    await gateway.restart()
    expect(await eventsIn(gateway, 'key:expiring')).toEqual([
      { apiKeyId: row.id, keyName: 'ci', userId: user.id, expiresAt },
    ])
    expect(receiver.received).toHaveLength(1)
  })

  test('evidence:degraded once per loss', async () => {
    const { gateway, db } = await start(['evidence:degraded'], { engine })
    const found_at = new Date().toISOString()
    const loss = { id: 'store', cause: 'store_replaced' as const, tenant_id: null, chain: null, successor: null }
    await db
      .insertInto('evidence_losses')
      .values({ ...loss, detail: 'The store is older.', found_at, acknowledged_at: null })
      .execute()
    await gateway.restart()
    await receiver.arrived(1)
    await gateway.restart()
    expect(await eventsIn(gateway, 'evidence:degraded')).toEqual([
      { lossId: 'store', cause: 'store_replaced', tenantId: null, chain: null, foundAt: found_at },
    ])
    expect(receiver.received).toHaveLength(1)
  })

  test('index:failed once per training with documents that cannot be added', async () => {
    const { gateway } = await start(['index:failed'], { engine })
    const made = await gateway.call('POST', '/api/external/indexes', { name: 'handbook', description: 'Ours' })
    expect(made.status, made.text).toBe(201)
    const train = (parts: Parameters<typeof multipart>[0]) =>
      gateway.call('POST', '/api/external/indexes/handbook/train', multipart(parts), { headers: MULTIPART })
    const good = { fileName: 'good.md', content: '# Good\n\nThe lift is in the hall.' }
    expect((await train([good])).status).toBe(200)
    const mixed = await train([
      { fileName: '../bad.md', content: 'x' },
      { ...good, fileName: 'more.md' },
    ])
    expect(mixed.status, mixed.text).toBe(200)
    await receiver.arrived(1)
    expect(received()[0]).toMatchObject({ type: 'index:failed', data: { indexName: 'handbook', documents: 1 } })
    expect(await eventsIn(gateway, 'index:failed')).toHaveLength(1)
    // The documents are stored even if the event cannot be stored.
    const { db } = gateway.app
    await sql`alter table outbox_events rename to hidden_events`.execute(db)
    const unreported = await train([
      { fileName: '../bad.md', content: 'x' },
      { ...good, fileName: 'third.md' },
    ])
    await sql`alter table hidden_events rename to outbox_events`.execute(db)
    expect(unreported.status, unreported.text).toBe(200)
  })
})

test('two daemons on PostgreSQL send each threshold and each outage once', async () => {
  const options = { engine: postgresEngine, points: { Essential: 0 } }
  const { gateway, db, tenantId } = await start(['*'], options)
  const other = await startGateway({ ...options, beside: gateway })
  const user = await addUser(db, { tenant_id: tenantId, usage_by_model: 1, dollar_limit_nanos: 10_000_000 })
  const period = new Date().toISOString().slice(0, 7)
  const spent = {
    tenant_id: tenantId,
    holder: 'user' as const,
    holder_id: user.id,
    period,
    nanos: 7_900_000,
    points: 0,
  }
  await db.insertInto('spend_counters').values(spent).execute()
  const { secret: key } = await addKey(db, user)
  const daemons = [gateway, other]
  await Promise.all(
    Array.from({ length: 20 }, (_, at) => (daemons[at % 2] as Gateway).chat({ prompt: 'hi', max_tokens: 5 }, { key })),
  )
  gateway.upstream.fallback(replyJson({ error: { message: 'down' } }, { status: 500 }))
  for (let at = 0; at < 2 * CIRCUIT_FAILURES; at++)
    await (daemons[at % 2] as Gateway).chat({ prompt: 'hi', max_tokens: 5 }, { key })
  await expect.poll(() => eventsIn(gateway, 'budget:threshold'), { timeout: 10_000 }).toHaveLength(2)
  await expect.poll(() => eventsIn(gateway, 'provider:down'), { timeout: 10_000 }).toHaveLength(1)
  await receiver.arrived(3)
  await other.close()
  expect(receiver.received).toHaveLength(3)
})
