import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import type { DatabaseOptions } from '../src/daemon/platform/db/database.ts'
import { sqlite3Driver } from '../src/daemon/platform/db/sqlite-driver.ts'
import { secretWatch } from './secret-watch.ts'

/** Where texts of customers belong: documents, rules about words, answers that wait for a repeat. They may hold no key either. */
const OF_CUSTOMERS = new Set(['documents', 'passages', 'guard_rules', 'shield_policies', 'idempotency_results'])

/** Of each table. Tests that write more write the same again and again. */
const ROWS = 1_000

type Query = (sql: string) => Promise<Record<string, unknown>[]>

const TEXT_COLUMNS = {
  sqlite: `select m.name as place, group_concat(c.name) as columns
    from sqlite_master m join pragma_table_info(m.name) c
    where m.type = 'table' and c.type = 'TEXT' and m.name not like 'passages_fts%' group by m.name`,
  postgres: `select table_name as place, string_agg(column_name, ',') as columns
    from information_schema.columns where table_schema = 'public' and data_type = 'text' group by table_name`,
}

/** Tells the watch all texts of a store that no daemon has open. One that was never made has none, nor has a broken file. */
export async function sayStore(options: DatabaseOptions): Promise<void> {
  await withStore(options, async (query) => {
    const tables = await query(TEXT_COLUMNS[options.kind])
    const texts = tables.map(
      ({ place, columns }) =>
        `select '${place}' as place, text from (select concat_ws(' ', ${columns}) as text from ${place} limit ${ROWS}) as kept`,
    )
    if (texts.length === 0) return
    for (const { place, text } of await query(texts.join(' union all '))) {
      secretWatch.say(`the table ${place}`, String(text), { mayHoldWords: OF_CUSTOMERS.has(String(place)) })
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

/** Files whose only content is a secret, for nobody but the daemon. */
const SECRET_FILES = new Set(['admin.key', 'master.key'])

/**
 * Tells the watch the bytes of every file in the directory of a daemon that has ended, also those of pages that its store
 * uses no more; the secrets in it are watched for from now on.
 */
export async function sayFiles(dataDir: string): Promise<void> {
  for (const name of (await readdir(dataDir).catch(ignoreAbsent)) ?? []) {
    const text = await readFile(join(dataDir, name), 'latin1').catch(ignoreAbsent)
    if (text === undefined) continue
    if (SECRET_FILES.has(name)) secretWatch.addSecret(name, text.trim())
    else secretWatch.say(`the file ${name}`, text, { mayHoldWords: true })
  }
}

const ABSENT = ['ENOENT', 'ENOTDIR', 'EISDIR', 'SQLITE_CANTOPEN', 'SQLITE_NOTADB']

function ignoreAbsent(error: NodeJS.ErrnoException): undefined {
  if (!ABSENT.includes(error.code ?? '')) throw error
}
