import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { migrateDatabase, openDatabase } from '../src/daemon/db/database.ts'
import { buildProject } from './built-project.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of the PostgreSQL server of this test run, without a database name. */
    postgresServer: string
    /** A migrated database on it that nobody is connected to. */
    postgresTemplate: string
    /** A directory with bin/, dist/, deploy/, package.json and node_modules, built for this test run. */
    builtProject: string
  }
}

const TEMPLATE = 'aigw_template'

/** What a whole test run shares: the built project and one real PostgreSQL. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const built = await buildProject()
  project.provide('builtProject', built.directory)
  try {
    const stopPostgres = await startPostgres(project)
    return async () => {
      await stopPostgres()
      await built.remove()
    }
  } catch (error) {
    await built.remove()
    throw error
  }
}

/** One server on a free loopback port and in a temporary directory. */
async function startPostgres(project: TestProject): Promise<() => Promise<void>> {
  const program = fileURLToPath(new URL('postgres-process.mjs', import.meta.url))
  // Detached, so that Ctrl-C reaches the tests and not the server; the end of its input stops it.
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
  const db = await openDatabase({ kind: 'postgres', url: `${server}/${TEMPLATE}` })
  await migrateDatabase(db).finally(() => db.destroy())
}
