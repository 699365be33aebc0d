import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, expect, test } from 'vitest'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { isMigrated, migrateDatabase, NewerSchemaError } from '../../../../src/daemon/platform/db/migrate.ts'
import { describeEachEngine, postgresEngine, sqliteEngine, type TestPlace } from '../../../engines.ts'

const cleanUp: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const step of cleanUp.splice(0).reverse()) await step()
})

const keep = (place: TestPlace): TestPlace => {
  cleanUp.push(() => place.remove())
  return place
}

const open = async (place: TestPlace): Promise<Db> => {
  const db = await openDatabase(place.options)
  cleanUp.push(() => db.destroy())
  return db
}

const nameNewerMigration = (db: Db, name = '9999-from-the-future') =>
  sql`insert into kysely_migration (name, timestamp) values (${name}, '2999-01-01T00:00:00.000Z')`.execute(db)

describeEachEngine('migrations', (engine) => {
  test('an empty database is ready only after its migration, and migrating again changes nothing', async () => {
    const db = await open(keep(await engine.place({ migrated: false })))
    expect(await isMigrated(db)).toBe(false)
    await migrateDatabase(db)
    expect(await isMigrated(db)).toBe(true)
    const before = await sql`select name, timestamp from kysely_migration order by name`.execute(db)
    await migrateDatabase(db)
    expect(await sql`select name, timestamp from kysely_migration order by name`.execute(db)).toEqual(before)
  })

  test('concurrent migrations of one database by several daemons all succeed', async () => {
    const place = keep(await engine.place({ migrated: false }))
    // On SQLite the lock of the data directory admits one daemon, so the callers share a process.
    const shared = engine.name === 'sqlite' ? await open(place) : undefined
    const daemons = await Promise.all(Array.from({ length: 4 }, () => shared ?? open(place)))
    await Promise.all(daemons.map((db) => migrateDatabase(db)))
    for (const db of daemons) expect(await isMigrated(db)).toBe(true)
  })

  test.each(['9999-from-the-future', 'toString', '__proto__'])(
    'a database with the newer migration %s is rejected by name, and is not ready',
    async (name) => {
      const db = await open(keep(await engine.place()))
      await nameNewerMigration(db, name)
      const refusal = await migrateDatabase(db).catch((error: unknown) => error)
      expect(refusal).toBeInstanceOf(NewerSchemaError)
      expect(String(refusal)).toContain(name)
      expect(await isMigrated(db)).toBe(false)
    },
  )

  test('a newer database that lacks one of our migrations is left unchanged too', async () => {
    const db = await open(keep(await engine.place({ migrated: false })))
    await sql`create table kysely_migration (name varchar(255) primary key, timestamp varchar(255) not null)`.execute(
      db,
    )
    await nameNewerMigration(db)
    await expect(migrateDatabase(db)).rejects.toThrow(NewerSchemaError)
    const tables = await db.introspection.getTables({ withInternalKyselyTables: true })
    expect(tables.map(({ name }) => name)).toEqual(['kysely_migration'])
  })
})

test('rejecting a newer SQLite database leaves its file unchanged, byte for byte', async () => {
  const place = keep(await sqliteEngine.place())
  const newer = await openDatabase(place.options)
  await nameNewerMigration(newer)
  await newer.destroy()
  const file = join(place.dataDir, 'aigw.db')
  const before = await readFile(file)
  const db = await openDatabase(place.options)
  await expect(migrateDatabase(db)).rejects.toThrow(NewerSchemaError)
  await db.destroy()
  expect(before.equals(await readFile(file))).toBe(true)
})

test('a search on PostgreSQL has its index even if pg_trgm is in another schema', async () => {
  const db = await open(keep(await postgresEngine.place({ migrated: false })))
  await sql`create schema "Extra ones"`.execute(db)
  await sql`create extension pg_trgm schema "Extra ones"`.execute(db)
  await migrateDatabase(db)
  const { rows } = await sql<{ indexdef: string }>`
    select indexdef from pg_indexes where indexname in ('users_by_text', 'groups_by_text')`.execute(db)
  expect(rows.map(({ indexdef }) => indexdef.includes('gin_trgm_ops'))).toEqual([true, true])
})
