import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Kysely, sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openSqliteDialect } from '../../../../src/daemon/platform/db/sqlite.ts'
import { type SqliteDriver, sqlite3Driver } from '../../../../src/daemon/platform/db/sqlite-driver.ts'
import { deferred } from '../../../deferred.ts'

/** The number of writes that triggers a checkpoint. */
const WRITES = 32

let directory: string
let file: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'aigw-test-'))
  file = join(directory, 'aigw.db')
})
afterEach(() => rm(directory, { recursive: true }))

/** A store that calls `around` for each checkpoint of the log. */
async function open(around: (writeBack: () => Promise<void>) => Promise<void>) {
  const driver: SqliteDriver = {
    async open(name, mode) {
      const connection = await sqlite3Driver.open(name, mode)
      const exec = (statements: string) => {
        const run = () => connection.exec(statements)
        return statements.includes('wal_checkpoint') ? around(run) : run()
      }
      return { ...connection, exec }
    },
  }
  const db = new Kysely<{ texts: { body: string } }>({ dialect: await openSqliteDialect(driver, file) })
  await sql`create table texts (body text)`.execute(db)
  return db
}

async function write(db: Kysely<{ texts: { body: string } }>, count: number): Promise<void> {
  for (let at = 0; at < count; at++)
    await db
      .insertInto('texts')
      .values({ body: 'x'.repeat(3_000) })
      .execute()
}

const rowsOf = async (db: Kysely<{ texts: { body: string } }>) =>
  (await db.selectFrom('texts').selectAll().execute()).length

test('the log is checkpointed concurrently with commits, and restarts', async () => {
  let done = deferred()
  const db = await open((writeBack) => writeBack().then(() => done.resolve()))
  const sizes: number[] = []
  for (let round = 0; round < 20; round++) {
    // The first write was the table.
    await write(db, round === 0 ? WRITES - 1 : WRITES)
    await done.promise
    done = deferred()
    sizes.push((await stat(`${file}-wal`)).size)
  }
  // As much as one round writes; 20 rounds were written.
  expect(Math.max(...sizes)).toBeLessThan(2 * (sizes[0] ?? 0))
  expect(await rowsOf(db)).toBe(20 * WRITES - 1)
  await db.destroy()
})

test('commits and reads continue during a checkpoint, and only one runs at a time', async () => {
  const begun = deferred()
  const goOn = deferred()
  let count = 0
  const db = await open(async (writeBack) => {
    count++
    begun.resolve()
    await goOn.promise
    await writeBack()
  })
  await write(db, WRITES)
  await begun.promise
  await write(db, 3 * WRITES)
  expect([await rowsOf(db), count]).toEqual([4 * WRITES, 1])
  goOn.resolve()
  await db.destroy()
})

test('under continuous commits, the log is limited to 32 MB', async () => {
  const db = await open((writeBack) => writeBack())
  let size = 0
  for (let count = 0; count < 12_000; count += 100) {
    await db.transaction().execute((tx) => write(tx, 100))
    size = Math.max(size, (await stat(`${file}-wal`)).size)
  }
  expect(size).toBeLessThan(36_000_000)
  await db.destroy()
})

test('closing waits for the running checkpoint, and writes back the rest', async () => {
  const begun = deferred()
  const goOn = deferred()
  const order: string[] = []
  const db = await open(async (writeBack) => {
    begun.resolve()
    await goOn.promise
    await writeBack()
    order.push('written back')
  })
  await write(db, WRITES)
  await begun.promise
  await write(db, 5)
  const closed = db.destroy().then(() => order.push('closed'))
  goOn.resolve()
  await closed
  expect(order).toEqual(['written back', 'closed'])
  await expect(stat(`${file}-wal`)).rejects.toMatchObject({ code: 'ENOENT' })
})

test('a failing checkpoint does not affect commits, and is retried', async () => {
  let count = 0
  let tried = deferred()
  const db = await open(async () => {
    count++
    tried.resolve()
    throw new Error('SQLITE_IOERR')
  })
  await write(db, WRITES)
  await tried.promise
  tried = deferred()
  await write(db, 2 * WRITES)
  await tried.promise
  expect(count).toBeGreaterThan(1)
  expect(await rowsOf(db)).toBe(3 * WRITES)
  await db.destroy()
})
