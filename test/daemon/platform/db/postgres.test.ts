import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import { engineOf } from '../../../../src/daemon/platform/db/engine.ts'
import { deferred } from '../../../deferred.ts'
import { postgresEngine } from '../../../engines.ts'

test('an idle connection closed by the server is logged, and the next query gets a new one', async () => {
  const place = await postgresEngine.place()
  const logged = deferred<string>()
  const db = await openDatabase(place.options, {
    log: { error: (_: unknown, message?: string) => logged.resolve(message ?? '') },
  })
  const killer = await openDatabase(place.options)
  await sql`select 1`.execute(db)
  await sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`.execute(killer)
  expect(await logged.promise).toContain('connection broke')
  expect((await sql<{ one: number }>`select 1 as one`.execute(db)).rows).toEqual([{ one: 1 }])
  await Promise.all([db.destroy(), killer.destroy()])
  await place.remove()
})

test('opening an unreachable server fails', async () => {
  await expect(openDatabase({ kind: 'postgres', url: 'postgres://nobody@127.0.0.1:1/none' })).rejects.toThrow()
})

test('a number beyond 2^53 is an error and never a wrong number', async () => {
  const { db, close } = await postgresEngine.open()
  expect((await sql`select 9007199254740991::int8 as value`.execute(db)).rows).toEqual([{ value: 9007199254740991 }])
  await expect(sql`select 9007199254740993::int8 as value`.execute(db)).rejects.toThrow(RangeError)
  await close()
})

test('a database and its transactions know their engine', async () => {
  const { db, close } = await postgresEngine.open()
  expect(engineOf(db).name).toBe('postgres')
  await db.transaction().execute(async (tx) => expect(engineOf(tx).name).toBe('postgres'))
  await close()
})
