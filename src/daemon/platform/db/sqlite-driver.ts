// Runs statements on one SQLite connection for Kysely.
import { LRUCache } from 'lru-cache'
import sqlite3 from 'sqlite3'

export type SqliteValue = string | number | Uint8Array | null

/** An open connection. Calls must not overlap: await each call before making the next. */
export type SqliteConnection = {
  /** Runs a statement to completion and returns its rows. */
  all(sql: string, parameters: readonly SqliteValue[]): Promise<Record<string, unknown>[]>
  /** Runs a statement that returns no rows; `changes` is valid only for INSERT, UPDATE and DELETE. */
  run(sql: string, parameters: readonly SqliteValue[]): Promise<{ changes: number }>
  /** Runs several statements without parameters. */
  exec(sql: string): Promise<void>
  /** Loads the SQLite extension at this path. */
  loadExtension(path: string): Promise<void>
  close(): Promise<void>
}

/** The functions that the store needs from a SQLite library. This interface makes the library replaceable. */
export type SqliteDriver = { open(file: string, mode: 'read' | 'write'): Promise<SqliteConnection> }

/**
 * The maximum number of prepared statements per connection. The number is large enough for every statement of the
 * daemon, and limits the memory use.
 */
const STATEMENTS_PER_CONNECTION = 128

/** The `sqlite3` package. The library runs statements on libuv's thread pool; each call costs one thread switch. */
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

/**
 * A statement that occupies all lookaside slots, because each bound value takes one slot. A connection has 123 slots of
 * 128 or 1,200 bytes.
 */
const HOLDER = {
  sql: `select ${Array<string>(150).fill('?').join(',')}`,
  values: Array<string>(150).fill('x'.repeat(100)),
}

const CHANGES_SCHEMA = /^\s*(create|drop|alter|analyze)\b/i

function createConnection(database: sqlite3.Database): SqliteConnection {
  // A statement is cached at its second use, because many statements, such as migration statements, run only once.
  const statements = new LRUCache<string, sqlite3.Statement | 'used once'>({
    max: STATEMENTS_PER_CONNECTION,
    // The evicted statement is idle, because calls do not overlap.
    dispose: (statement) => {
      if (statement !== 'used once') statement.finalize()
    },
  })

  function prepare(sql: string): Promise<sqlite3.Statement> {
    return new Promise((resolve, reject) => {
      const statement = database.prepare(sql, (error: Error | null) =>
        error === null ? resolve(statement) : reject(error),
      )
    })
  }

  /**
   * Prepares a statement to be cached. Each SQLite connection has a few lookaside slots. If cached statements occupy
   * them, each column of each commit locks the allocator that all threads share (measured: a fifth of a commit's work).
   * A helper statement therefore occupies all slots during the preparation, so that the cached statement gets its
   * memory from the heap.
   */
  async function prepareToKeep(sql: string): Promise<sqlite3.Statement> {
    const holder = await prepare(HOLDER.sql)
    try {
      await new Promise<void>((resolve, reject) => {
        holder.bind(HOLDER.values, (error: Error | null) => (error === null ? resolve() : reject(error)))
      })
      return await prepare(sql)
    } finally {
      holder.finalize()
    }
  }

  async function use<Result>(sql: string, execute: (statement: sqlite3.Statement) => Promise<Result>): Promise<Result> {
    // Clear the cache before a schema change. Otherwise SQLite would re-prepare all cached statements by itself, and
    // they would occupy lookaside slots.
    if (CHANGES_SCHEMA.test(sql)) statements.clear()
    const known = statements.get(sql)
    if (known !== undefined && known !== 'used once') return execute(known)
    const statement = known === undefined ? await prepare(sql) : await prepareToKeep(sql)
    statements.set(sql, known === undefined ? 'used once' : statement)
    try {
      return await execute(statement)
    } finally {
      if (known === undefined) statement.finalize()
    }
  }

  return {
    all: (sql, parameters) => use(sql, (statement) => allRows(statement, parameters)),
    run: (sql, parameters) => use(sql, (statement) => runToEnd(statement, parameters)),
    exec(sql) {
      return new Promise((resolve, reject) => {
        database.exec(sql, (error) => (error === null ? resolve() : reject(error)))
      })
    },
    loadExtension(path) {
      return new Promise((resolve, reject) => {
        database.loadExtension(path, (error) => (error === null ? resolve() : reject(error)))
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

function allRows(statement: sqlite3.Statement, parameters: readonly SqliteValue[]): Promise<Record<string, unknown>[]> {
  return new Promise((resolve, reject) => {
    statement.all<Record<string, unknown>>(parameters, (error, rows) =>
      error === null ? resolve(rows) : reject(error),
    )
  })
}

function runToEnd(statement: sqlite3.Statement, parameters: readonly SqliteValue[]): Promise<{ changes: number }> {
  return new Promise((resolve, reject) => {
    statement.run(parameters, function (this: sqlite3.RunResult, error: Error | null) {
      if (error === null) resolve({ changes: this.changes })
      else reject(error)
    })
  })
}
