import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import type { DatabaseOptions } from '../src/daemon/platform/db/database.ts'
import { sqlite3Driver } from '../src/daemon/platform/db/sqlite-driver.ts'
import { secretWatch } from './secret-watch.ts'

/** Tables that may contain texts of customers: documents, word rules, stored answers for repeats. No keys. */
const CUSTOMER_TABLES = new Set(['documents', 'passages', 'guard_rules', 'shield_policies', 'idempotency_results'])

/** Maximum number of rows searched per table. Tests with more rows repeat the same rows. */
const MAX_ROWS = 1_000

type Query = (sql: string) => Promise<Record<string, unknown>[]>

const TEXT_COLUMNS = {
  sqlite: `select m.name as name, group_concat(c.name) as columns
    from sqlite_master m join pragma_table_info(m.name) c
    where m.type = 'table' and c.type = 'TEXT' and m.name not like 'passages_fts%' group by m.name`,
  postgres: `select table_name as name, string_agg(column_name, ',') as columns
    from information_schema.columns where table_schema = 'public' and data_type = 'text' group by table_name`,
}

/** Passes all texts of a closed store to the secret watch. Missing stores and broken files have none. */
export async function watchStore(options: DatabaseOptions): Promise<void> {
  await withStore(options, async (query) => {
    const tables = await query(TEXT_COLUMNS[options.kind])
    const texts = tables.map(
      ({ name, columns }) =>
        `select '${name}' as name, text from (select concat_ws(' ', ${columns}) as text from ${name} limit ${MAX_ROWS}) as stored`,
    )
    if (texts.length === 0) return
    for (const { name, text } of await query(texts.join(' union all '))) {
      secretWatch.record(`the table ${name}`, String(text), { mayContainText: CUSTOMER_TABLES.has(String(name)) })
    }
  })
}

async function withStore(options: DatabaseOptions, use: (query: Query) => Promise<void>): Promise<void> {
  if (options.kind === 'sqlite') {
    const file = await sqlite3Driver.open(join(options.dataDir, 'aigw.db'), 'read').catch(ignoreAbsent)
    if (!file) return
    await use((sql) => file.all(sql, []))
      .catch(ignoreAbsent)
      .finally(() => file.close())
  } else {
    const client = new pg.Client({ connectionString: options.url })
    await client.connect()
    await use(async (sql) => (await client.query(sql)).rows).finally(() => client.end())
  }
}

/** Files that contain only a secret, readable only by the daemon. */
const SECRET_FILES = /^(?:admin\.key|master\.key(?:\.next|\.old)?(?:\.new)?)$/

/**
 * Passes the bytes of all files of a stopped daemon to the secret watch, including unused pages of its store. Registers
 * the secrets in secret files.
 */
export async function watchFiles(dataDir: string): Promise<void> {
  for (const name of (await readdir(dataDir).catch(ignoreAbsent)) ?? []) {
    const text = await readFile(join(dataDir, name), 'latin1').catch(ignoreAbsent)
    if (text === undefined) continue
    if (SECRET_FILES.test(name)) secretWatch.addSecret(name, text.trim())
    else secretWatch.record(`the file ${name}`, text, { mayContainText: true })
  }
}

const ABSENT = ['ENOENT', 'ENOTDIR', 'EISDIR', 'SQLITE_CANTOPEN', 'SQLITE_NOTADB']

function ignoreAbsent(error: NodeJS.ErrnoException): undefined {
  if (!ABSENT.includes(error.code ?? '')) throw error
}
