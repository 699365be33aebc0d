// Writes a backup of the store of either engine.
import { INTERFACE_VERSION as version } from '../../../../shared/spec-limits.ts'
import { type AddFile, addText } from './archive.ts'
import { BackupError } from './backup-error.ts'
import { DESCRIPTION, describeBackup, KEY_FILE } from './description.ts'
import { addTables, beginSnapshot, findTables, withPostgres } from './postgres-backup.ts'
import { addSqliteCopy } from './sqlite-backup.ts'

type Facts = { migrations: readonly string[]; created_at: string }

/** Adds a copy of an SQLite store, with its description. */
export async function addSqliteStore(add: AddFile, { copy, migrations, ...facts }: Facts & { copy: string }) {
  const description = describeBackup({ ...facts, version, engine: 'sqlite', migrations: [...migrations] })
  await addText(add, DESCRIPTION, description)
  await addSqliteCopy(add, copy)
}

/** Adds all rows of a PostgreSQL store from one snapshot, with their description. */
export function addPostgresStore(add: AddFile, { url, ...facts }: Omit<Facts, 'migrations'> & { url: string }) {
  return withPostgres(url, async (client) => {
    await beginSnapshot(client)
    const tables = await findTables(client)
    if (!tables.some(({ name }) => name === 'kysely_migration'))
      throw new BackupError('The database contains no store of aigw. Check database.url or AIGW_DATABASE_URL.')
    const { rows } = await client.query<{ name: string }>('select name from kysely_migration order by name')
    const migrations = rows.map(({ name }) => name)
    await addText(add, DESCRIPTION, describeBackup({ ...facts, version, engine: 'postgres', migrations, tables }))
    await addTables(client, tables, add)
  })
}

/** Adds the master key. Whoever decrypts the backup can then read all secrets of the store. */
export const addMasterKey = (add: AddFile, hex: string): Promise<void> => addText(add, KEY_FILE, `${hex}\n`)
