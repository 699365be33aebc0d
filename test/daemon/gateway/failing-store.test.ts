import { join } from 'node:path'
import { sql } from 'kysely'
import sqlite3 from 'sqlite3'
import { expect, inject, test } from 'vitest'
import { SILENCE_TIMEOUTS } from '../../../src/daemon/platform/db/postgres.ts'
import { describeEachEngine, postgresEngine, type TestEngine } from '../../engines.ts'
import { createFakeClock } from '../../fake-clock.ts'
import { type Gateway, startGateway } from '../../harness.ts'
import { startTcpProxy } from '../../tcp-proxy.ts'

const calls = ({ upstream }: Gateway) => upstream.requests.length
const isReady = async (gateway: Gateway) =>
  (await gateway.call('GET', '/readyz', undefined, { key: null })).status === 200

/** Makes the store reject the commits of requests, while reads still work. Returns the function that ends it. */
async function breakWrites(gateway: Gateway): Promise<() => Promise<void>> {
  const { db } = gateway.app
  const { config } = gateway
  if (config.database.kind === 'sqlite') {
    await sql`pragma busy_timeout = 20`.execute(db)
    return lockFile(join(config.dataDir, 'aigw.db'))
  }
  await sql`create function full_disk() returns trigger language plpgsql as
    $$ begin raise exception 'no space left on device' using errcode = '53100'; end $$`.execute(db)
  const tables = ['evidence_entries', 'store_probes'].map((name) => sql.raw(name))
  for (const table of tables) {
    await sql`create trigger full_disk before insert on ${table} execute function full_disk()`.execute(db)
  }
  return async () => {
    for (const table of tables) await sql`drop trigger full_disk on ${table}`.execute(db)
  }
}

/** Takes the write lock of this file on a connection of its own, as another process would. */
async function lockFile(file: string): Promise<() => Promise<void>> {
  const other = new sqlite3.Database(file)
  const run = (statement: string) =>
    new Promise<void>((resolve, reject) => other.exec(statement, (error) => (error ? reject(error) : resolve())))
  await run('begin immediate')
  return async () => {
    await run('rollback')
    await new Promise((resolve) => other.close(resolve))
  }
}

describeEachEngine('while the store rejects writes', (engine) => {
  test('one answer is lost, then no model is called until a write succeeds', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, clock })
    const headers = { 'idempotency-key': 'kept' }
    const kept = await gateway.chat({ prompt: 'hi' }, { headers })
    expect([kept.status, calls(gateway)]).toEqual([200, 1])

    const repair = await breakWrites(gateway)
    const lost = await gateway.chat({ prompt: 'hi' })
    expect([lost.status, lost.headers['retry-after'], calls(gateway)]).toEqual([503, '1', 2])
    for (const body of [{}, { stream: true }]) {
      const rejected = await gateway.chat({ prompt: 'hi', ...body })
      expect([rejected.status, rejected.headers['retry-after']]).toEqual([503, '1'])
      expect(rejected.body).toMatchObject({ error: 'Service unavailable', message: expect.stringContaining('store') })
    }
    const embedded = await gateway.call('POST', '/api/external/v1/embeddings', { model: 'test/any', input: 'hi' })
    expect([embedded.status, embedded.headers['retry-after']]).toEqual([503, '1'])
    expect((await gateway.chat({ prompt: 'hi' }, { headers })).text).toBe(kept.text)
    expect(calls(gateway)).toBe(2)
    const { status, body } = await gateway.call('GET', '/readyz', undefined, { key: null })
    expect([status, body.checks]).toEqual([
      503,
      {
        ...{ store: false, migrations: true, master_key: true, accepting: true, evidence: true, secrets: true },
      },
    ])

    // Probes fail as long as the store does.
    for (let probe = 0; probe < 3; probe++) {
      clock.advance(1_000)
      expect(await isReady(gateway)).toBe(false)
    }
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(503)
    expect(calls(gateway)).toBe(2)

    await repair()
    do clock.advance(1_000)
    while (!(await isReady(gateway)))
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
    expect(calls(gateway)).toBe(3)
    const levels = gateway.log.filter(({ message }) => message.startsWith('the store ')).map(({ level }) => level)
    expect(levels).toEqual(['error', 'info'])
  })

  test('/readyz notices it without any request, and so do later requests', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, clock })
    expect(await isReady(gateway)).toBe(true)
    const repair = await breakWrites(gateway)
    clock.advance(5_000)
    expect(await isReady(gateway)).toBe(false)
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(503)
    expect(calls(gateway)).toBe(0)
    await repair()
    do clock.advance(1_000)
    while (!(await isReady(gateway)))
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
  })

  test('/readyz writes at most once in five seconds, and not after a request has written', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, clock })
    const writtenAt = async () =>
      (await gateway.app.db.selectFrom('store_probes').select('written_at').execute()).map((row) =>
        Date.parse(row.written_at),
      )
    const startedAt = clock.now()
    const probes: number[][] = []
    for (const ms of [0, 4_999, 1, 4_999]) {
      clock.advance(ms)
      expect(await isReady(gateway)).toBe(true)
      probes.push((await writtenAt()).map((at) => at - startedAt))
    }
    expect(probes).toEqual([[0], [0], [5_000], [5_000]])
    await gateway.chat({ prompt: 'hi' })
    clock.advance(4_999)
    expect(await isReady(gateway)).toBe(true)
    expect((await writtenAt()).map((at) => at - startedAt)).toEqual([5_000])
  })
})

/** A PostgreSQL store behind this proxy. */
async function frozenEngine(): Promise<{ engine: TestEngine; freeze(): void; thaw(): void }> {
  const direct = new URL(inject('postgresServer'))
  const proxy = await startTcpProxy({ host: direct.hostname, port: Number(direct.port) })
  const place: TestEngine['place'] = async (options) => {
    const made = await postgresEngine.place(options)
    const url = new URL(String(made.databaseUrl))
    url.port = String(proxy.port)
    return {
      ...made,
      databaseUrl: url.href,
      async remove() {
        await proxy.close()
        await made.remove()
      },
    }
  }
  return { engine: { ...postgresEngine, place }, freeze: proxy.freeze, thaw: proxy.thaw }
}

test('while PostgreSQL is frozen, requests get 503 and no model is called; then all is as before', async () => {
  const { engine, freeze, thaw } = await frozenEngine()
  const storeTimeouts = { runningMs: 600_000, closingMs: 50, suspectMs: 200, probeMs: 2_000, retryMs: 10 }
  const gateway = await startGateway({ engine, storeTimeouts })
  expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
  freeze()
  const answers = await Promise.all([
    gateway.chat({ prompt: 'hi' }),
    gateway.chat({ prompt: 'hi' }, { headers: { 'idempotency-key': 'k' } }),
    gateway.call('GET', '/api/external/groups'),
    gateway.call('POST', '/api/external/groups', { name: 'ops', description: 'On call' }),
  ])
  for (const { status, headers, text } of answers)
    expect([status, headers['retry-after'], text]).toEqual([503, '1', expect.stringContaining('store')])
  expect((await gateway.chat({ prompt: 'hi' })).status).toBe(503)
  expect([await isReady(gateway), calls(gateway)]).toEqual([false, 1])
  thaw()
  while (!(await isReady(gateway)));
  expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
  expect(calls(gateway)).toBe(2)
})

test('by default, a frozen PostgreSQL is detected within 10 s', () => {
  expect(SILENCE_TIMEOUTS.suspectMs + SILENCE_TIMEOUTS.probeMs).toBeLessThan(10_000)
})
