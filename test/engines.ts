import { randomUUID } from 'node:crypto'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, describe, inject } from 'vitest'
import { type DatabaseOptions, openDatabase } from '../src/daemon/platform/db/database.ts'
import type { Db } from '../src/daemon/platform/db/db.ts'
import { watchStore } from './kept-texts.ts'

/** The location of one store that is not open. It is migrated or empty, as requested. */
export type TestPlace = {
  options: DatabaseOptions
  /** The value of `AIGW_DATABASE_URL`. Undefined for SQLite. */
  databaseUrl: string | undefined
  /** A new directory for the other files of a daemon, on either engine. */
  dataDir: string
  /** Removes the store after searching it for secrets. */
  remove(): Promise<void>
}

export type TestStore = { db: Db; place: TestPlace; close(): Promise<void> }

export type TestEngine = {
  name: 'sqlite' | 'postgres'
  /** With `migrated: false` the store has no schema. */
  place(options?: { migrated?: boolean }): Promise<TestPlace>
  /** Opens a new, migrated store. `close` removes it. */
  open(): Promise<TestStore>
}

export const sqliteEngine: TestEngine = {
  name: 'sqlite',
  async place({ migrated = true } = {}) {
    const dataDir = await newDirectory()
    const options: DatabaseOptions = { kind: 'sqlite', dataDir }
    if (migrated) await copyFile(inject('sqliteTemplate'), join(dataDir, 'aigw.db'))
    return {
      options,
      databaseUrl: undefined,
      dataDir,
      async remove() {
        await watchStore(options)
        await removeDirectory(dataDir)
      },
    }
  },
  open: () => openStore(sqliteEngine),
}

export const postgresEngine: TestEngine = {
  name: 'postgres',
  async place({ migrated = true } = {}) {
    const server = inject('postgresServer')
    const name = `test_${randomUUID().replaceAll('-', '')}`
    const template = migrated ? inject('postgresTemplate') : 'template0'
    // Copying files takes half the time of logging every page. Dropping the copy is faster too.
    await administer(`create database ${name} template ${template} strategy file_copy`)
    const dataDir = await newDirectory()
    const options: DatabaseOptions = { kind: 'postgres', url: `${server}/${name}` }
    return {
      options,
      databaseUrl: options.url,
      dataDir,
      async remove() {
        await watchStore(options)
        await administer(`drop database ${name} with (force)`)
        await removeDirectory(dataDir)
      },
    }
  },
  open: () => openStore(postgresEngine),
}

export const engines: readonly TestEngine[] = [sqliteEngine, postgresEngine]

/** Declares the same tests for every engine. Both engines must behave alike. */
export function describeEachEngine(promise: string, tests: (engine: TestEngine) => void): void {
  describe.each(engines.map((engine) => [engine.name, engine] as const))(`${promise} (%s)`, (_, engine) =>
    tests(engine),
  )
}

/** A new, migrated store for each test of the enclosing `describe`. */
export function storeForEach(engine: TestEngine): Pick<TestStore, 'db' | 'place'> {
  let store: TestStore
  beforeEach(async () => {
    store = await engine.open()
  })
  afterEach(() => store.close())
  return {
    get db() {
      return store.db
    },
    get place() {
      return store.place
    },
  }
}

async function openStore(engine: TestEngine): Promise<TestStore> {
  const place = await engine.place()
  const db = await openDatabase(place.options)
  return {
    db,
    place,
    async close() {
      await db.destroy()
      await place.remove()
    },
  }
}

async function administer(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: `${inject('postgresServer')}/postgres` })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

const newDirectory = (): Promise<string> => mkdtemp(join(tmpdir(), 'aigw-test-'))
const removeDirectory = (path: string): Promise<void> => rm(path, { recursive: true, force: true })
