// SQLite: opens the file and commits in groups. The file is long because the connection, its dialect and its error
// handling belong together.
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type TransactionSettings,
} from 'kysely'
import { type ConnectionPool, createConnectionPool } from './connection-pool.ts'
import type { Engine } from './engine.ts'
import { createCheckpoints } from './sqlite-checkpoints.ts'
import type { SqliteConnection, SqliteDriver, SqliteValue } from './sqlite-driver.ts'
import { markStoreFailure } from './store-failure.ts'

/**
 * libuv has four threads by default. Even if three reads are slow, one thread remains for commits. This matters because
 * every request waits for a commit.
 */
const READERS = 3
/** The maximum wait for a lock that another process, such as a backup, has taken. */
const BUSY_TIMEOUT_MS = 5_000
/**
 * After a checkpoint, the write-ahead log is truncated to this size. Otherwise the log of a large import would occupy
 * the disk permanently.
 */
const WAL_BYTES = 67_108_864
/**
 * A commit checkpoints the log if the log has at least this number of pages (32 MB). The log reaches this length only
 * if the parallel checkpoints never find a moment without a write. Most pages are then already written back, so little
 * work remains.
 */
const WAL_PAGES_OF_COMMITS = 8_000

// With FULL, a commit is on disk when it returns, even after a power cut. NORMAL could lose the last commits.
const WRITER_SETUP = `
  pragma busy_timeout = ${BUSY_TIMEOUT_MS};
  pragma journal_mode = wal;
  pragma synchronous = full;
  pragma foreign_keys = on;
  pragma journal_size_limit = ${WAL_BYTES};
  pragma wal_autocheckpoint = ${WAL_PAGES_OF_COMMITS};`
const CHECKPOINTER_SETUP = 'pragma synchronous = full;'
const READER_SETUP = `pragma busy_timeout = ${BUSY_TIMEOUT_MS};`

type Pools = {
  writer: ConnectionPool<SqliteConnection>
  readers: ConnectionPool<SqliteConnection>
  /** This connection is used only for checkpoints (createCheckpoints). */
  checkpointer: SqliteConnection
}

/**
 * Opens `file` and returns Kysely's dialect for it: one writer and a few readers on a write-ahead log. A SELECT outside
 * a transaction uses a reader and never waits for a writer. All other statements queue for the writer. A transaction
 * keeps the writer until it ends. A transaction declared `read only` keeps a reader instead and reads one snapshot.
 * Readers load the library at the path `extension`, if possible.
 */
export async function openSqliteDialect(driver: SqliteDriver, file: string, extension?: string): Promise<Dialect> {
  const writer = await driver.open(file, 'write')
  const others: SqliteConnection[] = []
  const open = async (mode: 'read' | 'write', setup: string) => {
    const connection = await driver.open(file, mode)
    others.push(connection)
    await connection.exec(setup)
    return connection
  }
  try {
    await writer.exec(WRITER_SETUP)
    const checkpointer = await open('write', CHECKPOINTER_SETUP)
    const readers: SqliteConnection[] = []
    for (let count = 0; count < READERS; count++) {
      const reader = await open('read', READER_SETUP)
      readers.push(reader)
      // If the extension cannot be loaded, the error is ignored, because callers check whether it was loaded.
      if (extension !== undefined) await reader.loadExtension(extension).catch(() => undefined)
    }
    return dialectOf(toPools(writer, readers, checkpointer))
  } catch (error) {
    await Promise.allSettled([...others, writer].map((connection) => connection.close()))
    throw error
  }
}

function toPools(writer: SqliteConnection, idle: readonly SqliteConnection[], checkpointer: SqliteConnection): Pools {
  const writers = createConnectionPool([writer])
  const readers = createConnectionPool(idle)
  const checkpoints = createCheckpoints(checkpointer, readers)
  const release = (connection: SqliteConnection) => {
    writers.release(connection)
    checkpoints.written()
  }
  return { writer: { ...writers, release }, readers, checkpointer }
}

function dialectOf(pools: Pools): Dialect {
  return {
    createDriver: () => new SqliteKyselyDriver(pools),
    createAdapter: () => new SqliteEngineAdapter(),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  }
}

class SqliteEngineAdapter extends SqliteAdapter {
  readonly engine = sqliteEngine
  // SQLite can roll back CREATE TABLE, but Kysely's own adapter returns false here.
  override get supportsTransactionalDdl(): boolean {
    return true
  }
}

const sqliteEngine: Engine = {
  name: 'sqlite',
  sizeQuery: 'select page_count * page_size as bytes from pragma_page_count(), pragma_page_size()',
  bulkInsert(table, columns, onConflict, { longText, common = [] } = {}) {
    const own = columns.filter((column) => !common.includes(column))
    const long = longText === undefined ? -1 : own.indexOf(longText)
    const values = columns
      .map((column) => {
        if (common.includes(column)) return `?${common.indexOf(column) + (long < 0 ? 2 : 3)}`
        const position = own.indexOf(column)
        const value = `value->>p${position}`
        // In the row, a long text is replaced by its start position. The row's last element is the length of the text.
        return position === long ? `cast(substr(?2, ${value}, value->>p${own.length}) as text)` : value
      })
      .join(', ')
    // The JSON paths are columns, not constants. If a function call has a constant argument, SQLite keeps registers for
    // the call until the statement ends, and each register contains a copy of the whole row. These copies exhaust the
    // connection's lookaside memory, so every call locks the allocator that all threads share (measured: a third of a
    // commit's work).
    const paths = Array.from({ length: own.length + 1 }, (_, at) => `'$[${at}]' as p${at}`).join(', ')
    // Without WHERE, the parser would read ON CONFLICT as a join condition.
    const conflict = onConflict === '' ? '' : ` where true ${onConflict}`
    return {
      // jsonb_each parses the text once. json_each would parse each row again for each of its columns. This would
      // double the cost of a row.
      sql: `insert into ${table} (${columns.join(', ')}) select ${values} from (select ${paths}) cross join jsonb_each(?1)${conflict}`,
      toParameters([first], values) {
        const once = common.map((column) => first?.[column] as string | number | null)
        if (common.length > 0) for (const row of values) removeColumns(row, columns, common)
        return long < 0 ? [JSON.stringify(values), ...once] : [...withSeparateTexts(values, long), ...once]
      },
    }
  },
  rowList(columns) {
    const values = Object.keys(columns).map((name, position) => `value->>'$[${position}]' as ${name}`)
    return { before: `(select ${values.join(', ')} from jsonb_each(`, after: '))' }
  },
  // Creates a view whose trigger runs the statements with the view's columns. With BEGIN and COMMIT, four or five
  // thread switches would be needed instead of one. These switches take a third of a commit's CPU time (measured).
  joinInserts(name, statements) {
    const columns: string[] = []
    const steps = statements.map((statement, position) => {
      const parameter = (number: number) => `parameter_${position}_${number}`
      const numbers = (statement.match(PARAMETER) ?? []).map((found) => Number(found.slice(1)))
      for (let number = 1; number <= Math.max(...numbers); number++) columns.push(parameter(number))
      return `${statement.replace(PARAMETER, (found) => `new.${parameter(Number(found.slice(1)))}`)};`
    })
    return {
      setUp: [
        `create temp view ${name} as select ${columns.map((column) => `null as ${column}`).join(', ')}`,
        `create temp trigger ${name}_rows instead of insert on ${name} begin ${steps.join(' ')} end`,
      ],
      sql: `insert into ${name} (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`,
    }
  },
  // SQLite reads the tables of a cross join in this order.
  joinByKey: (table, key) => `cross join ${table} on ${key}`,
  jsonMember: (column, name) => `cast(${column} ->> '$.${name}' as text)`,
  failureOf(error) {
    const code = codeOf(error)
    // An error without an SQLite code comes from our own checks, which reject the value of a row.
    return !code.startsWith('SQLITE_') || ROW_FAULTS.has(code) ? 'row' : 'other'
  },
  uniqueKeyOf(error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'SQLITE_CONSTRAINT')) return undefined
    return /UNIQUE constraint failed: (.*)$/.exec(error.message)?.[1]
  },
}

/** A numbered parameter in a statement of `bulkInsert`. */
const PARAMETER = /\?[1-9]\d*/g

/** Removes the values of these columns from a row. */
function removeColumns(row: unknown[], columns: readonly string[], names: readonly string[]): void {
  let kept = 0
  for (let at = 0; at < columns.length; at++) {
    if (!names.includes(columns[at] as string)) row[kept++] = row[at]
  }
  row.length = kept
}

/**
 * Concatenates the long texts of a column and replaces each text in its row by its start position. If the texts were
 * JSON strings, they would have to be escaped and unescaped (20 µs per 2 KB).
 */
function withSeparateTexts(values: unknown[][], column: number): [json: string, texts: Buffer] {
  const texts = values.map((row) => row[column])
  // The library binds an empty buffer as NULL, so the buffer starts with a full stop. A full stop also separates the
  // texts: otherwise, a high surrogate at the end of one text and a low surrogate at the start of the next would merge
  // into one character.
  const together = `.${texts.map((text) => (typeof text === 'string' ? `${text}.` : '')).join('')}`
  const bytes = Buffer.from(together)
  // Most texts are ASCII. In ASCII, every character is one byte, so positions in the text equal positions in the
  // buffer.
  const isAscii = bytes.length === together.length
  let begin = 1
  for (let at = 0; at < values.length; at++) {
    const [row, text] = [values[at] as unknown[], texts[at]]
    if (typeof text !== 'string') row.push(0)
    else {
      const length = isAscii ? text.length : Buffer.byteLength(text)
      row[column] = begin + 1
      row.push(length)
      begin += length + 1
    }
  }
  return [JSON.stringify(values), bytes]
}

const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '')

/** Error codes that mean that the statement itself is wrong. */
const STATEMENT_FAULTS: ReadonlySet<string> = new Set(['SQLITE_ERROR', 'SQLITE_MISUSE', 'SQLITE_RANGE'])
const ROW_FAULTS: ReadonlySet<string> = new Set(['SQLITE_CONSTRAINT', 'SQLITE_MISMATCH', 'SQLITE_TOOBIG'])

class SqliteKyselyDriver {
  readonly #pools: Pools

  constructor(pools: Pools) {
    this.#pools = pools
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return new SqliteSession(this.#pools)
  }

  async releaseConnection(session: DatabaseConnection): Promise<void> {
    ;(session as SqliteSession).end()
  }

  beginTransaction(session: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    return (session as SqliteSession).begin(settings.accessMode === 'read only')
  }

  commitTransaction(session: DatabaseConnection): Promise<void> {
    return (session as SqliteSession).commit()
  }

  rollbackTransaction(session: DatabaseConnection): Promise<void> {
    return (session as SqliteSession).rollback()
  }

  async destroy(): Promise<void> {
    const { readers, writer, checkpointer } = this.#pools
    const [idle, writers] = await Promise.all([readers.drain(), writer.drain()])
    // Close the readers first. The last connection to close checkpoints the log, and a reader cannot do this.
    for (const connection of [...idle, checkpointer, ...writers]) await connection.close()
  }
}

/** A Kysely connection that borrows an SQLite connection for each statement, or for the duration of a transaction. */
class SqliteSession implements DatabaseConnection {
  readonly #pools: Pools
  #transaction: { pool: ConnectionPool<SqliteConnection>; connection: SqliteConnection } | undefined

  constructor(pools: Pools) {
    this.#pools = pools
  }

  async begin(readOnly: boolean): Promise<void> {
    const pool = readOnly ? this.#pools.readers : this.#pools.writer
    const connection = await pool.acquire()
    this.#transaction = { pool, connection }
    // IMMEDIATE takes the file's write lock now. A deferred transaction could fail half-way if another process has the
    // lock.
    await watched(pool, connection.run(readOnly ? 'begin' : 'begin immediate', []))
  }

  async commit(): Promise<void> {
    if (this.#transaction) await watched(this.#transaction.pool, this.#transaction.connection.run('commit', []))
  }

  async rollback(): Promise<void> {
    try {
      await this.#transaction?.connection.run('rollback', [])
    } catch (error) {
      // SQLite rolls back by itself after a full disk or an I/O error. The caller must get the original error, not the
      // error of ROLLBACK.
      if (!(error instanceof Error && error.message.includes('no transaction is active'))) throw error
    }
  }

  /** Returns the transaction's connection to the pool. Does nothing if there is no transaction. */
  end(): void {
    this.#transaction?.pool.release(this.#transaction.connection)
    this.#transaction = undefined
  }

  async executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    const kind = kindOf(query)
    if (this.#transaction !== undefined) {
      const { pool, connection } = this.#transaction
      return watched(pool, execute(connection, kind, query))
    }
    const pool = kind === 'read' ? this.#pools.readers : this.#pools.writer
    const connection = await pool.acquire()
    try {
      return await watched(pool, execute(connection, kind, query))
    } finally {
      pool.release(connection)
    }
  }

  // biome-ignore lint/correctness/useYield: the interface asks for a generator
  async *streamQuery<Row>(): AsyncIterableIterator<QueryResult<Row>> {
    throw new Error(
      'streaming queries are not supported, because a slow reader would block a connection; page by key instead',
    )
  }
}

/**
 * Marks errors of the store. If another process has locked the file for BUSY_TIMEOUT_MS, also rejects the statements
 * that wait for a connection. Otherwise, each of them would wait for BUSY_TIMEOUT_MS again, one after the other.
 */
async function watched<T>(pool: ConnectionPool<SqliteConnection>, running: Promise<T>): Promise<T> {
  try {
    return await running
  } catch (error) {
    const code = codeOf(error)
    if (code.startsWith('SQLITE_') && !ROW_FAULTS.has(code) && !STATEMENT_FAULTS.has(code)) markStoreFailure(error)
    if (code === 'SQLITE_BUSY') pool.rejectWaiting(error)
    throw error
  }
}

/** `read`: only reads. `change`: returns the number of changed rows. `other`: may do anything and return rows. */
type QueryKind = 'read' | 'change' | 'other'

function kindOf({ query, sql }: CompiledQuery): QueryKind {
  switch (query.kind) {
    case 'SelectQueryNode':
      return 'read'
    case 'InsertQueryNode':
    case 'UpdateQueryNode':
    case 'DeleteQueryNode':
      return query.returning === undefined ? 'change' : 'other'
    case 'RawNode':
      if (/^\s*select\b/i.test(sql)) return 'read'
      return /^\s*(insert|update|delete)\b/i.test(sql) && !/\breturning\b/i.test(sql) ? 'change' : 'other'
    default:
      return 'other'
  }
}

async function execute<Row>(
  connection: SqliteConnection,
  kind: QueryKind,
  { sql, parameters }: CompiledQuery,
): Promise<QueryResult<Row>> {
  const values = parameters.map(toSqliteValue)
  if (kind === 'change') {
    const { changes } = await connection.run(sql, values)
    return { numAffectedRows: BigInt(changes), rows: [] }
  }
  const rows = (await connection.all(sql, values)) as Row[]
  return kind === 'read' ? { rows } : { numAffectedRows: BigInt(rows.length), rows }
}

/**
 * Only values that both engines bind in the same way are allowed. Unlike PostgreSQL, the library would bind a Date as a
 * number and NaN as NULL.
 */
function toSqliteValue(value: unknown): SqliteValue {
  if (value === null || typeof value === 'string' || value instanceof Uint8Array) return value
  if (typeof value === 'number' && Number.isFinite(value)) return value
  throw new TypeError(`cannot bind a ${value === undefined ? 'missing value' : typeof value} as an SQL parameter`)
}
