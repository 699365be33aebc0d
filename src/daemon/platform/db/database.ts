// Opens the store, on SQLite or PostgreSQL.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type Dialect, Kysely } from 'kysely'
import type { Db, StoreLog } from './db.ts'
import { openPostgresDialect, type SilenceTimeouts } from './postgres.ts'
import { openSqliteDialect } from './sqlite.ts'
import { sqlite3Driver } from './sqlite-driver.ts'
import type { Tables } from './tables.ts'

/** Times after which a PostgreSQL server counts as down. Tests shorten them. */
export type StoreTimeouts = Partial<SilenceTimeouts>

export type DatabaseOptions = { kind: 'sqlite'; dataDir: string } | { kind: 'postgres'; url: string }

/**
 * Opens the store: `<dataDir>/aigw.db` (created if missing), or a reachable PostgreSQL server. Runs no migrations.
 * `withVectors` loads sqlite-vec into SQLite if the extension exists for this platform. To close the store, call
 * `db.destroy()`. It waits for running statements and transactions.
 */
export async function openDatabase(
  options: DatabaseOptions,
  { log, withVectors = false, timeouts }: { log?: StoreLog; withVectors?: boolean; timeouts?: StoreTimeouts } = {},
): Promise<Db> {
  const dialect =
    options.kind === 'sqlite'
      ? await openFile(options.dataDir, withVectors)
      : await openPostgresDialect(options.url, log, timeouts)
  const db = new Kysely<Tables>({ dialect })
  try {
    // The PostgreSQL pool connects on demand. Connecting here reports a wrong URL immediately.
    await db.connection().execute(async () => undefined)
  } catch (error) {
    await db.destroy()
    throw options.kind === 'postgres' ? unreachableStore(options.url, error) : error
  }
  return db
}

/** Names the server, the cause and the setting, because the driver's error names only an address. */
function unreachableStore(url: string, cause: unknown): Error {
  const { host, pathname } = new URL(url)
  const reasons = cause instanceof AggregateError ? cause.errors : [cause]
  const text = [...new Set(reasons.map(toReason))].join('; ')
  return new Error(
    `The PostgreSQL database ${pathname.slice(1) || '(no name)'} at ${host || 'the default socket'} cannot be opened: ${text}. Check database.url or AIGW_DATABASE_URL.`,
    { cause },
  )
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'no such host',
  EAI_AGAIN: 'the name could not be resolved',
  EHOSTUNREACH: 'no route to the host',
  ETIMEDOUT: 'connection timed out',
}

function toReason(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return REASONS[code] ?? (error instanceof Error ? error.message.replace(/\.$/, '') : String(error))
}

async function openFile(dataDir: string, withVectors: boolean): Promise<Dialect> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  return openSqliteDialect(sqlite3Driver, join(dataDir, 'aigw.db'), withVectors ? await findSqliteVec() : undefined)
}

/** Returns the path of the sqlite-vec library, or undefined if the library does not exist for this platform. */
async function findSqliteVec(): Promise<string | undefined> {
  try {
    const { getLoadablePath } = await import('sqlite-vec')
    return getLoadablePath()
  } catch {
    return undefined
  }
}
