import { Kysely, sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import type { Db, StoreLog } from '../../../../src/daemon/platform/db/db.ts'
import { openPostgresDialect, type SilenceTimeouts } from '../../../../src/daemon/platform/db/postgres.ts'
import { createStoreCheck } from '../../../../src/daemon/platform/db/store-check.ts'
import { isStoreFailure } from '../../../../src/daemon/platform/db/store-failure.ts'
import type { Tables } from '../../../../src/daemon/platform/db/tables.ts'
import { deferred } from '../../../deferred.ts'
import { postgresEngine, sqliteEngine, type TestPlace } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { startTcpProxy, type TcpProxy } from '../../../tcp-proxy.ts'

const STORE_CHECK_MS = 1_500

let place: TestPlace
let proxy: TcpProxy
let url: string
let db: Db
const open = async (silence: Partial<SilenceTimeouts>, log?: StoreLog) =>
  new Kysely<Tables>({ dialect: await openPostgresDialect(url, log, silence) })
beforeEach(async () => {
  place = await postgresEngine.place()
  const direct = new URL(String(place.databaseUrl))
  proxy = await startTcpProxy({ host: direct.hostname, port: Number(direct.port) })
  direct.port = String(proxy.port)
  url = direct.href
})
afterEach(async () => {
  await db.destroy()
  await proxy.close()
  await place.remove()
})

test('a probe of a hanging store is answered in time, and the next one after its recovery', async () => {
  db = await open({ runningMs: 600_000, closingMs: 20 })
  const clock = createFakeClock()
  const check = createStoreCheck({ db, clock, isWritable: async () => true })
  expect(await check()).toEqual({ store: true, migrations: true })
  proxy.silence()
  const hanging = Array.from({ length: 20 }, check)
  clock.advance(STORE_CHECK_MS - 1)
  clock.advance(1)
  for (const state of await Promise.all(hanging)) expect(state).toEqual({ store: false, migrations: false })
  expect(clock.pending).toBe(0)
  // The probes share one connection; the others stay available.
  expect((await sql<{ one: number }>`select 1 as one`.execute(db)).rows).toEqual([{ one: 1 }])
})

test('an unmigrated store differs from a closed one', async () => {
  const empty = await sqliteEngine.place({ migrated: false })
  db = await openDatabase(empty.options)
  const check = createStoreCheck({ db, clock: createFakeClock(), isWritable: async () => true })
  expect(await check()).toEqual({ store: true, migrations: false })
  await db.destroy()
  expect(await check()).toEqual({ store: false, migrations: false })
  await empty.remove()
})

test('a query on a silent connection fails, also in a transaction, and the next gets a new one', async () => {
  const logged: unknown[] = []
  const log = { error: (facts: object) => void logged.push(facts) }
  db = await open({ runningMs: 50, closingMs: 20 }, log)
  await sql`select 1`.execute(db)
  proxy.silence()
  await expect(sql`select 2`.execute(db)).rejects.toThrow('PostgreSQL did not answer in time')
  const transaction = db.transaction().execute(async (tx) => {
    await sql`select 3`.execute(tx)
    proxy.silence()
    await sql`select 4`.execute(tx)
  })
  await expect(transaction).rejects.toThrow()
  expect((await sql<{ five: number }>`select 5 as five`.execute(db)).rows).toEqual([{ five: 5 }])
  expect(logged).toHaveLength(2)
})

test('a statement on a lost connection fails early, and the other lost connections are closed too', async () => {
  db = await open({ runningMs: 600_000, closingMs: 20, suspectMs: 300 })
  await Promise.all([1, 2, 3].map(() => sql`select 1`.execute(db)))
  proxy.silence()
  await expect(sql`select 2`.execute(db)).rejects.toThrow('PostgreSQL did not answer in time')
  const answers = await Promise.all([1, 2, 3].map(() => sql<{ three: number }>`select 3 as three`.execute(db)))
  expect(answers.map(({ rows }) => rows)).toEqual([1, 2, 3].map(() => [{ three: 3 }]))
})

test('a statement that the server still runs is not interrupted', async () => {
  db = await open({ runningMs: 600_000, closingMs: 20, suspectMs: 5 })
  const running = sql<{ slept: string }>`select pg_sleep(0.2)::text as slept`.execute(db)
  expect((await running).rows).toEqual([{ slept: '' }])
})

test('while the server answers nobody, statements fail immediately; afterwards they work again', async () => {
  db = await open({ runningMs: 600_000, closingMs: 20, suspectMs: 200, probeMs: 1_000, retryMs: 5 })
  await sql`select 1`.execute(db)
  proxy.freeze()
  const failures = await Promise.allSettled([1, 2, 3].map(() => sql`select 2`.execute(db)))
  for (const failure of failures) {
    expect(failure.status).toBe('rejected')
    expect(isStoreFailure((failure as PromiseRejectedResult).reason)).toBe(true)
  }
  await expect(sql`select 3`.execute(db)).rejects.toThrow('PostgreSQL did not answer in time')
  proxy.thaw()
  const answer = async (): Promise<unknown> => {
    try {
      return (await sql`select 4 as four`.execute(db)).rows
    } catch {
      await new Promise(setImmediate)
      return answer()
    }
  }
  expect(await answer()).toEqual([{ four: 4 }])
})

test('a hanging store can be closed, and its running query fails', async () => {
  db = await open({ runningMs: 600_000, closingMs: 20 })
  await sql`select 1`.execute(db)
  const lent = deferred()
  const hanging = db
    .connection()
    .execute((connection) => {
      proxy.silence()
      lent.resolve()
      return sql`select 2`.execute(connection)
    })
    .catch((error: Error) => error)
  await lent.promise
  await db.destroy()
  expect(await hanging).toBeInstanceOf(Error)
})
