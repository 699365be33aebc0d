import { randomUUID } from 'node:crypto'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { describe, inject } from 'vitest'
import { type DatabaseOptions, openDatabase } from '../src/daemon/platform/db/database.ts'
import type { Db } from '../src/daemon/platform/db/db.ts'
import { sayStore } from './kept-texts.ts'

/** A place for one store that nobody has opened, migrated or empty as asked. */
export type TestPlace = {
  options: DatabaseOptions
  /** What the daemon takes as `AIGW_DATABASE_URL`; undefined for SQLite. */
  databaseUrl: string | undefined
  /** A fresh directory, on either engine, for whatever else a daemon keeps. */
  dataDir: string
  /** What is kept there is searched for secrets first. */
  remove(): Promise<void>
}

export type TestStore = { db: Db; place: TestPlace; close(): Promise<void> }

export type TestEngine = {
  name: 'sqlite' | 'postgres'
  /** Without `migrated` there is no schema yet. */
  place(options?: { migrated?: boolean }): Promise<TestPlace>
  /** A fresh, migrated and opened store; `close` removes it. */
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
        await sayStore(options)
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
    // Copying files takes half the time of writing every page to the log, and so does dropping the copy.
    await administer(`create database ${name} template ${template} strategy file_copy`)
    const dataDir = await newDirectory()
    const options: DatabaseOptions = { kind: 'postgres', url: `${server}/${name}` }
    return {
      options,
      databaseUrl: options.url,
      dataDir,
      async remove() {
        await sayStore(options)
        await administer(`drop database ${name} with (force)`)
        await removeDirectory(dataDir)
      },
    }
  },
  open: () => openStore(postgresEngine),
}

export const engines: readonly TestEngine[] = [sqliteEngine, postgresEngine]

/** Declares the same tests for every engine: what holds on one must hold on the other. */
export function describeEachEngine(promise: string, tests: (engine: TestEngine) => void): void {
  describe.each(engines.map((engine) => [engine.name, engine] as const))(`${promise} (%s)`, (_, engine) =>
    tests(engine),
  )
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
