// Copies a PostgreSQL store into a backup, and back into an empty database.
import type { Client, ClientBase } from 'pg'
import { typesOf } from '../postgres.ts'
import type { AddFile } from './archive.ts'
import { BackupError } from './backup-error.ts'
import { type CopiedTable, TABLES } from './description.ts'

/** The rows of a table are stored in parts of about this size, because a tar archive needs the size of each file. */
const PART_BYTES = 4 * 1024 * 1024
const CONNECT_TIMEOUT_MS = 10_000

/** Runs `work` on a connection of its own, without the timeouts of requests. */
export async function withPostgres<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const { default: pg } = await import('pg')
  const client = new pg.Client({
    connectionString: url,
    application_name: 'aigwd db',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    types: typesOf(pg),
  })
  // A broken connection also rejects the running query.
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Begins the transaction of a backup. All its reads see the same snapshot, and it locks no rows. */
export const beginSnapshot = async (client: ClientBase): Promise<void> => {
  await client.query('begin transaction isolation level repeatable read read only')
}

/** Returns the tables of the store with their columns. A table comes after the tables that it refers to. */
export async function findTables(client: ClientBase): Promise<CopiedTable[]> {
  const { rows } = await client.query<CopiedTable>(`
    select relname as name, array_agg(attname::text order by attnum) as columns
    from pg_class join pg_attribute on attrelid = pg_class.oid
    where relnamespace = current_schema()::regnamespace and relkind = 'r'
      and attnum > 0 and not attisdropped and attgenerated = ''
    group by relname order by relname`)
  const { rows: references } = await client.query<{ from: string; to: string }>(`
    select conrelid::regclass::text as from, confrelid::regclass::text as to
    from pg_constraint where contype = 'f' and connamespace = current_schema()::regnamespace
      and conrelid <> confrelid`)
  const ordered: CopiedTable[] = []
  const left = new Map(rows.map((table) => [table.name, table]))
  while (left.size > 0) {
    const free = [...left.values()].filter(
      ({ name }) => !references.some(({ from, to }) => unquoted(from) === name && left.has(unquoted(to))),
    )
    if (free.length === 0) throw new Error(`the tables refer to each other: ${[...left.keys()].join(', ')}`)
    for (const table of free) {
      ordered.push(table)
      left.delete(table.name)
    }
  }
  return ordered
}

/** `groups` is a word of SQL, so PostgreSQL quotes it. */
const unquoted = (name: string): string => name.replaceAll('"', '')
const quoted = (name: string): string => `"${name}"`
const columnsOf = ({ name, columns }: CopiedTable): string => `${quoted(name)} (${columns.map(quoted).join(', ')})`

/** Adds the rows of all tables to an archive. */
export async function addTables(client: ClientBase, tables: readonly CopiedTable[], add: AddFile): Promise<void> {
  const { to: copyTo } = await import('pg-copy-streams')
  for (const table of tables) {
    let part: Buffer[] = []
    let bytes = 0
    let count = 0
    const flush = async () => {
      await add(`${TABLES}${table.name}/${String(count++).padStart(8, '0')}`, bytes, part)
      part = []
      bytes = 0
    }
    for await (const chunk of client.query(copyTo(`copy ${columnsOf(table)} to stdout`))) {
      part.push(chunk as Buffer)
      bytes += (chunk as Buffer).length
      if (bytes >= PART_BYTES) await flush()
    }
    if (bytes > 0) await flush()
  }
}

/** Inserts the rows of an archive. Call `add` for each part in order, then `end`. */
export type TableLoader = { add(table: string, content: AsyncIterable<Buffer>): Promise<void>; end(): Promise<void> }

/** The tables must be empty. Uses the transaction of `client`. */
export async function createTableLoader(client: ClientBase, tables: readonly CopiedTable[]): Promise<TableLoader> {
  const { from: copyFrom } = await import('pg-copy-streams')
  let current: { name: string; stream: ReturnType<typeof copyFrom>; done: Promise<void> } | undefined

  async function end(): Promise<void> {
    current?.stream.end()
    await current?.done
    current = undefined
  }

  function begin(name: string) {
    const table = tables.find((one) => one.name === name)
    if (table === undefined) throw new BackupError(`The backup is damaged: it does not describe the table ${name}.`)
    const stream = client.query(copyFrom(`copy ${columnsOf(table)} from stdin`))
    const done = new Promise<void>((resolve, reject) => stream.once('finish', resolve).once('error', reject))
    // Reported when the stream is awaited.
    done.catch(() => undefined)
    return { name, stream, done }
  }

  return {
    async add(table, content) {
      if (current?.name !== table) await end()
      current ??= begin(table)
      const { stream, done } = current
      for await (const chunk of content) {
        if (!stream.write(chunk)) {
          await Promise.race([new Promise((resolve) => stream.once('drain', resolve)), done])
        }
      }
    },
    end,
  }
}
