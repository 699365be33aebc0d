import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import sqlite3 from 'sqlite3'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import { engineOf } from '../../../../src/daemon/platform/db/engine.ts'
import { sqlite3Driver } from '../../../../src/daemon/platform/db/sqlite-driver.ts'
import { isStoreFailure } from '../../../../src/daemon/platform/db/store-failure.ts'
import { tenantRow, userRow } from '../../../accounts.ts'
import { deferred } from '../../../deferred.ts'
import { sqliteEngine, type TestStore } from '../../../engines.ts'

let store: TestStore
beforeEach(async () => {
  store = await sqliteEngine.open()
})
afterEach(async () => {
  vi.restoreAllMocks()
  await store.close()
})

const addTenant = (name: string, db = store.db) =>
  db
    .insertInto('tenants')
    .values(tenantRow({ id: name, name }))
    .execute()
const tenantNames = async (db = store.db) =>
  (await db.selectFrom('tenants').select('name').orderBy('name').execute()).map(({ name }) => name)
const pragma = async (name: string) => {
  // Not a SELECT, because this statement must run on the writer.
  const { rows } = await sql<Record<string, unknown>>`pragma ${sql.raw(name)}`.execute(store.db)
  return Object.values(rows[0] ?? {})[0]
}

/** A transaction that has inserted a tenant and stays open until released. */
async function openTransaction(name: string) {
  const started = deferred()
  const finish = deferred()
  const done = store.db.transaction().execute(async (tx) => {
    await addTenant(name, tx)
    expect(await tenantNames(tx)).toContain(name)
    started.resolve()
    await finish.promise
  })
  await started.promise
  return { done, finish }
}

test('a commit is on disk when it returns: write-ahead log, synchronous FULL, foreign keys on', async () => {
  expect(await pragma('journal_mode')).toBe('wal')
  expect(await pragma('synchronous')).toBe(2)
  expect(await pragma('foreign_keys')).toBe(1)
})

test('concurrent read-modify-write transactions lose no update', async () => {
  await addTenant('0')
  await Promise.all(
    Array.from({ length: 50 }, () =>
      store.db.transaction().execute(async (tx) => {
        const { name } = await tx.selectFrom('tenants').select('name').executeTakeFirstOrThrow()
        await tx
          .updateTable('tenants')
          .set({ name: String(Number(name) + 1) })
          .execute()
      }),
    ),
  )
  expect(await tenantNames()).toEqual(['50'])
})

test('reads continue during a transaction and see it only after its commit', async () => {
  await addTenant('before')
  const { done, finish } = await openTransaction('inside')
  const reads = await Promise.all(Array.from({ length: 20 }, () => tenantNames()))
  for (const names of reads) expect(names).toEqual(['before'])
  finish.resolve()
  await done
  expect(await tenantNames()).toEqual(['before', 'inside'])
})

test('a plain write waits for the earlier transaction', async () => {
  const { done, finish } = await openTransaction('first')
  const order: string[] = []
  const write = addTenant('second').then(() => order.push('write'))
  await tenantNames()
  order.push('read')
  finish.resolve()
  await done.then(() => order.push('transaction'))
  await write
  expect(order).toEqual(['read', 'transaction', 'write'])
})

test('a transaction that throws leaves nothing, and the writer continues', async () => {
  const failing = store.db.transaction().execute(async (tx) => {
    await addTenant('lost', tx)
    throw new Error('changed my mind')
  })
  await expect(failing).rejects.toThrow('changed my mind')
  await addTenant('kept')
  expect(await tenantNames()).toEqual(['kept'])
})

test('a COMMIT that fails is reported as itself, leaves nothing, and the writer continues', async () => {
  const failing = store.db.transaction().execute(async (tx) => {
    await sql`pragma defer_foreign_keys = on`.execute(tx)
    await tx
      .insertInto('users')
      .values(userRow({ tenant_id: 'nobody' }))
      .execute()
  })
  await expect(failing).rejects.toThrow('FOREIGN KEY constraint failed')
  expect(await store.db.selectFrom('users').selectAll().execute()).toEqual([])
  await addTenant('kept')
  expect(await tenantNames()).toEqual(['kept'])
})

test('a full disk in a transaction is reported as itself although SQLite has rolled back already', async () => {
  await sql`pragma max_page_count = ${sql.lit((await pragma('page_count')) as number)}`.execute(store.db)
  const failing = store.db.transaction().execute(async (tx) => {
    for (let count = 0; count < 1000; count++) await addTenant(`${count} ${'x'.repeat(4000)}`, tx)
  })
  await expect(failing).rejects.toMatchObject({ code: 'SQLITE_FULL' })
  expect(await tenantNames()).toEqual([])
  await sql`pragma max_page_count = 4294967294`.execute(store.db)
  await addTenant('kept')
  expect(await tenantNames()).toEqual(['kept'])
})

test('a read-only transaction sees one snapshot, blocks no writer and cannot write', async () => {
  await addTenant('before')
  await store.db
    .transaction()
    .setAccessMode('read only')
    .execute(async (tx) => {
      expect(await tenantNames(tx)).toEqual(['before'])
      await addTenant('meanwhile')
      expect(await tenantNames(tx)).toEqual(['before'])
      await expect(addTenant('refused', tx)).rejects.toMatchObject({ code: 'SQLITE_READONLY' })
    })
  expect(await tenantNames()).toEqual(['before', 'meanwhile'])
})

test('closing waits for a running transaction, and rejects later ones', async () => {
  const { done, finish } = await openTransaction('last')
  const closed = store.db.destroy()
  await expect(addTenant('late')).rejects.toThrow(/destroyed|closed/)
  finish.resolve()
  await Promise.all([done, closed])
  const again = await openDatabase(store.place.options)
  expect(await tenantNames(again)).toEqual(['last'])
  await again.destroy()
})

test('changed rows are counted, and RETURNING returns the rows', async () => {
  await addTenant('a')
  await addTenant('b')
  const updated = await store.db
    .updateTable('tenants')
    .set({ status: 'Disabled' })
    .where('id', '<>', 'none')
    .executeTakeFirst()
  expect(updated.numUpdatedRows).toBe(2n)
  const ignored = await store.db
    .insertInto('tenants')
    .values(tenantRow({ id: 'a', name: 'again' }))
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  expect(ignored.numInsertedOrUpdatedRows).toBe(0n)
  const deleted = await store.db.deleteFrom('tenants').returning('id').execute()
  expect(deleted.map(({ id }) => id).sort()).toEqual(['a', 'b'])
})

test('values that the two engines would read differently are rejected as parameters', async () => {
  for (const value of [undefined, Number.NaN, Number.POSITIVE_INFINITY, true, new Date(0), {}, 1n]) {
    await expect(sql`select ${value}`.execute(store.db)).rejects.toThrow(TypeError)
  }
})

test('a file that is not a database is rejected when it is opened', async () => {
  const place = await sqliteEngine.place({ migrated: false })
  await writeFile(join(place.dataDir, 'aigw.db'), 'this is no database, and it is long enough to be one'.repeat(20))
  await expect(openDatabase(place.options)).rejects.toMatchObject({ code: 'SQLITE_NOTADB' })
  await place.remove()
})

test('a statement stays prepared from its second use on, up to a maximum number', async () => {
  const connection = await sqlite3Driver.open(':memory:', 'write')
  const prepare = vi.spyOn(sqlite3.Database.prototype, 'prepare')
  const finalize = vi.spyOn(sqlite3.Statement.prototype, 'finalize')
  /** Prepared statements that still exist, without those that only occupy memory. */
  const counts = () => {
    const holders = prepare.mock.calls.filter(([query]) => query.startsWith('select ?')).length
    const prepared = prepare.mock.calls.length - holders
    return { prepared, kept: prepared - (finalize.mock.calls.length - holders) }
  }
  await connection.all('select 1', [])
  expect(counts()).toEqual({ prepared: 1, kept: 0 })
  for (let count = 0; count < 5; count++) await connection.all('select 1', [])
  expect(counts()).toEqual({ prepared: 2, kept: 1 })
  for (let count = 0; count < 500; count++) {
    const query = `select ${count + 2} as value`
    for (let use = 0; use < 2; use++) expect(await connection.all(query, [])).toEqual([{ value: count + 2 }])
  }
  expect(counts()).toEqual({ prepared: 1002, kept: 128 })
  await connection.run('create table later (id integer)', [])
  expect(counts()).toEqual({ prepared: 1003, kept: 0 })
  for (let use = 0; use < 2; use++) await connection.all('select * from later', [])
  expect(counts()).toEqual({ prepared: 1005, kept: 1 })
  await expect(connection.run('select missing', [])).rejects.toThrow('no such column')
  // SQLite refuses to close with open statements, so this shows that all are finalized.
  await connection.close()
  // A statement that cannot be prepared never existed.
  expect(counts()).toEqual({ prepared: 1006, kept: 1 })
})

test('a database and its transactions know their engine', async () => {
  expect(engineOf(store.db).name).toBe('sqlite')
  await store.db.transaction().execute(async (tx) => expect(engineOf(tx).name).toBe('sqlite'))
})

test('statements that wait behind a locked file fail with the first one, not one busy_timeout after the other', async () => {
  await sql`pragma busy_timeout = 50`.execute(store.db)
  const other = new sqlite3.Database(join(store.place.dataDir, 'aigw.db'))
  const run = (statement: string) => new Promise((resolve) => other.exec(statement, resolve))
  await run('begin immediate')
  const writes = await Promise.allSettled([
    ...['a', 'b', 'c'].map((name) => addTenant(name)),
    store.db.transaction().execute((tx) => addTenant('d', tx)),
  ])
  const errors = writes.map((write) => (write as PromiseRejectedResult).reason)
  // Each further wait would end with an error of its own.
  expect(new Set(errors).size).toBe(1)
  expect(errors[0]).toMatchObject({ code: 'SQLITE_BUSY' })
  expect(isStoreFailure(errors[0])).toBe(true)
  await run('rollback')
  await addTenant('later')
  expect(await tenantNames()).toEqual(['later'])
  await new Promise((resolve) => other.close(resolve))
})
