import type { Socket } from 'node:net'
import {
  type Dialect,
  PostgresAdapter,
  PostgresDriver,
  PostgresIntrospector,
  type PostgresPool,
  type PostgresPoolClient,
  PostgresQueryCompiler,
} from 'kysely'
import type { CustomTypesConfig, PoolClient } from 'pg'
import type { StoreLog } from './db.ts'
import { type Engine, UnstorableValueError } from './engine.ts'
import { createServerWatch, type WatchTimes } from './postgres-watch.ts'
import { markStoreFailure } from './store-failure.ts'

const POOL_CONNECTIONS = 10
const CONNECT_TIMEOUT_MS = 5_000
const IDLE_TIMEOUT_MS = 30_000
/**
 * The maximum run time of a statement. This is also the maximum idle time of a transaction, because an idle transaction
 * may have locks.
 */
const STATEMENT_TIMEOUT_MS = 30_000
/**
 * The defaults. By `runningMs`, a live server would have ended the statement, so the connection is closed. A frozen
 * server is detected after `suspectMs` and `probeMs` together.
 */
export const SILENCE_TIMEOUTS: SilenceTimeouts = {
  runningMs: STATEMENT_TIMEOUT_MS + 2_000,
  closingMs: 5_000,
  suspectMs: 2_000,
  probeMs: 3_000,
  retryMs: 1_000,
}

/** The type ids (pg_type) of int8 and numeric. sum() over an int8 column returns numeric. */
const INT8 = 20
const NUMERIC = 1700

/** Maximum time without data from the server: while a query is running, and while the store closes. */
export type SilenceTimeouts = { runningMs: number; closingMs: number } & WatchTimes

/**
 * Kysely's dialect for a PostgreSQL server. If a connection breaks or times out, the error is logged, the running query
 * rejects, and the connection is replaced.
 */
export async function openPostgresDialect(
  url: string,
  log: StoreLog | undefined,
  timeouts: Partial<SilenceTimeouts> = {},
): Promise<Dialect> {
  const silence = { ...SILENCE_TIMEOUTS, ...timeouts }
  // Imported here, so a daemon on SQLite does not load the package.
  const { default: pg } = await import('pg')
  const types = typesOf(pg)
  const pool = new pg.Pool({
    connectionString: url,
    application_name: 'aigwd',
    max: POOL_CONNECTIONS,
    idleTimeoutMillis: IDLE_TIMEOUT_MS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    idle_in_transaction_session_timeout: STATEMENT_TIMEOUT_MS,
    keepAlive: true,
    types,
  })
  const sockets = new Map<PoolClient, Socket>()
  const lent = new Set<PoolClient>()
  // If a borrowed connection breaks, its client emits `error`, but the pool does not. Without a listener, `error` would
  // end the process, so every client gets a listener.
  pool.on('connect', (client) => {
    client.on('error', (error) => log?.error({ err: error }, 'a PostgreSQL connection broke'))
    // A socket timeout costs nothing per query, and closes the connection. pg's query_timeout would return the
    // connection to the pool while the lost query still runs, and the next query would wait for it.
    const socket = client.connection.stream as Socket
    socket.setTimeout(silence.runningMs, () => socket.destroy(new Error('PostgreSQL did not answer in time')))
    sockets.set(client, socket)
    socket.once('close', () => sockets.delete(client))
  })
  pool.on('error', () => undefined)
  pool.on('acquire', (client) => lent.add(client))
  pool.on('release', (_error, client) => lent.delete(client))

  async function probe(processIds: readonly number[]): Promise<ReadonlySet<number>> {
    const client = new pg.Client({ connectionString: url, application_name: 'aigwd' })
    client.on('error', () => undefined)
    const late = setTimeout(() => client.connection.stream.destroy(), silence.probeMs)
    try {
      await client.connect()
      const sql = `select pid from pg_stat_activity where pid = any($1::int[]) and state like 'idle%'`
      const { rows } = await client.query<{ pid: number }>(sql, [processIds])
      return new Set(rows.map(({ pid }) => pid))
    } catch (error) {
      // For example, the server has too many clients. But it answers.
      if (SQL_STATE.test(codeOf(error))) return new Set()
      throw error
    } finally {
      clearTimeout(late)
      client.end().catch(() => undefined)
    }
  }

  const watch = createServerWatch({
    times: silence,
    log,
    probe,
    disconnect(clients, error) {
      for (const [client, socket] of sockets) {
        if (clients === 'all' || clients.includes(client) || !lent.has(client)) socket.destroy(error)
      }
    },
  })
  const watched = new WeakMap<PoolClient, PostgresPoolClient>()
  const watchedPool: PostgresPool = {
    async connect() {
      const client = await watch
        .run(
          undefined,
          () => pool.connect(),
          (unused) => unused.release(),
        )
        .catch(markAndThrow)
      const known = watched.get(client) ?? watchClient(client)
      watched.set(client, known)
      return known
    },
    end: () => pool.end(),
  }
  const watchClient = (client: PoolClient): PostgresPoolClient => ({
    query: (sql: unknown, parameters?: readonly unknown[]): never =>
      // Kysely's cursors are not used.
      watch.run(client, () => client.query(sql as string, parameters as unknown[])).catch(markAndThrow) as never,
    release: () => client.release(),
  })

  class Driver extends PostgresDriver {
    override async destroy(): Promise<void> {
      watch.close()
      for (const socket of sockets.values()) socket.setTimeout(silence.closingMs)
      await super.destroy()
    }
  }
  return {
    createDriver: () => new Driver({ pool: watchedPool }),
    createAdapter: () => new PostgresEngineAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  }
}

/** Reads integers as numbers. */
export const typesOf = ({ types }: Pick<typeof import('pg'), 'types'>): CustomTypesConfig => ({
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    oid === INT8 || oid === NUMERIC
      ? toNumber
      : types.getTypeParser(oid, format)) as CustomTypesConfig['getTypeParser'],
})

/** A dialect in which every query runs on one connection, and therefore in its transaction. */
export function dialectOfConnection(connection: Pick<PoolClient, 'query'>): Dialect {
  const client = { query: connection.query.bind(connection), release: () => undefined } as PostgresPoolClient
  return {
    createDriver: () => new PostgresDriver({ pool: { connect: async () => client, end: async () => undefined } }),
    createAdapter: () => new PostgresEngineAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  }
}

const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '')

/** Every SQLSTATE contains a digit, unlike EPIPE. */
const SQL_STATE = /^(?=.*\d)[0-9A-Z]{5}$/

/** SQLSTATE classes of a server that works but cannot write: 53 no resources, 58 system error, 25006 read-only. */
const CANNOT_WRITE = /^(53|58)...$|^25006$/

function markAndThrow(error: unknown): never {
  const failure = postgresEngine.failureOf(error)
  const isOfStore = failure === 'transient' || failure === 'busy' || CANNOT_WRITE.test(codeOf(error))
  throw isOfStore ? markStoreFailure(error) : error
}

class PostgresEngineAdapter extends PostgresAdapter {
  readonly engine = postgresEngine
}

const postgresEngine: Engine = {
  name: 'postgres',
  sizeQuery: 'select pg_database_size(current_database()) as bytes',
  bulkInsert(table, columns, onConflict) {
    const names = columns.join(', ')
    return {
      // The row type of the table defines the type of each column.
      sql: `insert into ${table} (${names}) select ${names} from json_populate_recordset(null::${table}, $1::json) ${onConflict}`,
      toParameters: (rows) => [JSON.stringify(rows)],
    }
  },
  rowList(columns) {
    const values = Object.entries(columns).map(([name, type], position) =>
      // Uses the same collation as our columns, because PostgreSQL cannot compare texts with different collations.
      type === 'text' ? `(value->>${position}) collate "C" as ${name}` : `(value->>${position})::bigint as ${name}`,
    )
    return { before: `(select ${values.join(', ')} from json_array_elements(`, after: '::json))' }
  },
  // PostgreSQL executes a subquery with a limit once for each row.
  joinByKey: (table, key) => `cross join lateral (select * from ${table} where ${key} limit 1) as ${table}`,
  // Escaped NULs are replaced first, because PostgreSQL rejects a JSON text that contains one anywhere.
  jsonMember: (column, name) => `(replace(${column}, '\\u0000', '\\ufffd')::json ->> '${name}')`,
  failureOf(error) {
    if (error instanceof UnstorableValueError || error instanceof RangeError) return 'row'
    const code = codeOf(error)
    // SQLSTATE classes: 22 data, 23 constraint, 54 limits; 08 connection, 40 deadlock, 57P0 shutdown. Any other code
    // comes from the socket.
    if (/^(22|23|54)...$/.test(code)) return 'row'
    // 55P03 is a lock timeout, and 57014 is a statement timeout.
    if (code === '55P03' || code === '57014') return 'busy'
    return /^(08|40)...$|^57P0.$/.test(code) || !SQL_STATE.test(code) ? 'transient' : 'other'
  },
  uniqueKeyOf(error) {
    // SQLSTATE unique_violation. The name of the constraint is used, because the message depends on the server's
    // language.
    if (!(error instanceof Error && 'code' in error && error.code === '23505')) return undefined
    return 'constraint' in error ? String(error.constraint) : undefined
  },
}

/**
 * PostgreSQL returns counts and sums as text, because they could exceed 2^53. A number that would be rounded is
 * rejected.
 */
function toNumber(text: string): number {
  const value = Number(text)
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    throw new RangeError(`${text} does not fit a number`)
  }
  return value
}
