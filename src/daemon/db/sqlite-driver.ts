import { LRUCache } from 'lru-cache'
import sqlite3 from 'sqlite3'

export type SqliteValue = string | number | Uint8Array | null

/** One open connection. Its calls must not overlap: whoever holds it waits for one before making the next. */
export type SqliteConnection = {
  /** Runs a statement to its end and returns its rows. */
  all(sql: string, parameters: readonly SqliteValue[]): Promise<Record<string, unknown>[]>
  /** Runs a statement that returns no rows; `changes` means something for INSERT, UPDATE and DELETE only. */
  run(sql: string, parameters: readonly SqliteValue[]): Promise<{ changes: number }>
  /** Runs several statements without parameters. */
  exec(sql: string): Promise<void>
  close(): Promise<void>
}

/** What the store needs of a SQLite library, so that the library can be exchanged. */
export type SqliteDriver = { open(file: string, mode: 'read' | 'write'): Promise<SqliteConnection> }

/** Statements kept prepared on each connection: enough for every statement of the daemon, and a bound on memory. */
const STATEMENTS_PER_CONNECTION = 128

/** The `sqlite3` package. Its work happens on libuv's thread pool; each call costs one hop. */
export const sqlite3Driver: SqliteDriver = {
  async open(file, mode) {
    const access = mode === 'read' ? sqlite3.OPEN_READONLY : sqlite3.OPEN_READWRITE | sqlite3.OPEN_CREATE
    const database = await new Promise<sqlite3.Database>((resolve, reject) => {
      const opened = new sqlite3.Database(file, access | sqlite3.OPEN_FULLMUTEX, (error) =>
        error === null ? resolve(opened) : reject(error),
      )
    })
    return createConnection(database)
  },
}

function createConnection(database: sqlite3.Database): SqliteConnection {
  // Nobody uses a statement while another one is prepared (calls do not overlap), so the evicted one is idle.
  const statements = new LRUCache<string, sqlite3.Statement>({
    max: STATEMENTS_PER_CONNECTION,
    dispose: (statement) => statement.finalize(),
  })

  function prepare(sql: string): Promise<sqlite3.Statement> {
    return new Promise((resolve, reject) => {
      const statement = database.prepare(sql, (error: Error | null) => {
        if (error !== null) return reject(error)
        statements.set(sql, statement)
        resolve(statement)
      })
    })
  }

  return {
    async all(sql, parameters) {
      const statement = statements.get(sql) ?? (await prepare(sql))
      return new Promise((resolve, reject) => {
        statement.all<Record<string, unknown>>(parameters, (error, rows) =>
          error === null ? resolve(rows) : reject(error),
        )
      })
    },
    async run(sql, parameters) {
      const statement = statements.get(sql) ?? (await prepare(sql))
      return new Promise((resolve, reject) => {
        statement.run(parameters, function (this: sqlite3.RunResult, error: Error | null) {
          if (error === null) resolve({ changes: this.changes })
          else reject(error)
        })
      })
    },
    exec(sql) {
      return new Promise((resolve, reject) => {
        database.exec(sql, (error) => (error === null ? resolve() : reject(error)))
      })
    },
    close() {
      statements.clear()
      return new Promise((resolve, reject) => {
        database.close((error) => (error === null ? resolve() : reject(error)))
      })
    },
  }
}
