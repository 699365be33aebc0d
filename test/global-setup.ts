import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { type DatabaseOptions, openDatabase } from '../src/daemon/platform/db/database.ts'
import { migrateDatabase } from '../src/daemon/platform/db/migrate.ts'
import { buildProject } from './built-project.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of the PostgreSQL server of this test run, without a database name. */
    postgresServer: string
    /** The name of a migrated database on that server without connections. */
    postgresTemplate: string
    /** A migrated SQLite file that no process has open. */
    sqliteTemplate: string
    /** A directory with bin/, dist/, deploy/, package.json and node_modules, built for this test run. */
    builtProject: string
  }
}

const TEMPLATE = 'aigw_template'

/** A file system in memory, where fsync is free. It needs enough free space: containers often have only 64 MB. */
const MEMORY_DIRECTORY = '/dev/shm'
const MEMORY_BYTES = 2_147_483_648

/** Creates the resources of a test run: temporary directory, built project, SQLite file and one real PostgreSQL. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const undo: (() => Promise<void>)[] = []
  const tearDown = async () => {
    for (const step of undo.reverse()) await step()
  }
  try {
    // All workers inherit it.
    process.env.TMPDIR = await temporaryDirectory()
    const built = await buildProject()
    undo.push(built.remove)
    project.provide('builtProject', built.directory)
    const sqlite = await mkdtemp(join(tmpdir(), 'aigw-template-'))
    undo.push(() => rm(sqlite, { recursive: true }))
    await migrate({ kind: 'sqlite', dataDir: sqlite })
    project.provide('sqliteTemplate', join(sqlite, 'aigw.db'))
    undo.push(await startPostgres(project))
  } catch (error) {
    await tearDown()
    throw error
  }
  return tearDown
}

async function temporaryDirectory(): Promise<string> {
  const memory = await statfs(MEMORY_DIRECTORY).catch(() => undefined)
  return memory && memory.bavail * memory.bsize >= MEMORY_BYTES ? MEMORY_DIRECTORY : tmpdir()
}

/** Starts one PostgreSQL on a free loopback port, in a temporary directory. */
async function startPostgres(project: TestProject): Promise<() => Promise<void>> {
  const program = fileURLToPath(new URL('postgres-process.mjs', import.meta.url))
  // Detached, so that Ctrl-C reaches only the tests. The server stops when its standard input ends.
  const server = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'pipe'], detached: true })
  const exited = once(server, 'exit')
  let messages = ''
  server.stderr.on('data', (chunk: Buffer) => {
    messages += chunk.toString()
  })
  const stop = async () => {
    server.stdin.end()
    await exited
  }
  try {
    const first = await createInterface(server.stdout)[Symbol.asyncIterator]().next()
    if (first.done) throw new Error('PostgreSQL ended before it was ready')
    const { url } = JSON.parse(first.value) as { url: string }
    await makeTemplate(url)
    project.provide('postgresServer', url)
    project.provide('postgresTemplate', TEMPLATE)
  } catch (error) {
    await stop()
    throw new Error(`PostgreSQL for the tests did not start:\n${messages}`, { cause: error })
  }
  return stop
}

async function makeTemplate(server: string): Promise<void> {
  const client = new pg.Client({ connectionString: `${server}/postgres` })
  await client.connect()
  await client.query(`create database ${TEMPLATE}`).finally(() => client.end())
  await migrate({ kind: 'postgres', url: `${server}/${TEMPLATE}` })
}

async function migrate(options: DatabaseOptions): Promise<void> {
  const db = await openDatabase(options)
  await migrateDatabase(db).finally(() => db.destroy())
}
