// Restores a PostgreSQL store into an empty database, in one transaction: all of it, or nothing.
import { Kysely, sql } from 'kysely'
import type { Client } from 'pg'
import { isoTime } from '../../shared/time.ts'
import { readArchive, readText } from '../platform/db/backup/archive.ts'
import { BackupError } from '../platform/db/backup/backup-error.ts'
import {
  type BackupDescription,
  DESCRIPTION,
  KEY_FILE,
  parseDescription,
  TABLES,
} from '../platform/db/backup/description.ts'
import { createTableLoader, findTables, type TableLoader, withPostgres } from '../platform/db/backup/postgres-backup.ts'
import type { Db } from '../platform/db/db.ts'
import { createMigrationTables, migrationState, requireKnownMigrations, runMigrations } from '../platform/db/migrate.ts'
import { dialectOfConnection } from '../platform/db/postgres.ts'
import type { Tables } from '../platform/db/tables.ts'
import { masterKeyFile } from '../platform/secrets/master-key.ts'
import { writeSecretFile } from '../platform/secrets/secret-file.ts'
import { checkChains, checkEngine } from './check.ts'
import { keyToInstall } from './key-of-backup.ts'
import type { RestoreDeps, Restored } from './restore-sqlite.ts'
import { requireSound } from './sound.ts'

/** @throws BackupError if the database is not empty, or the backup must not be restored */
export function restorePostgres({
  url,
  config,
  source,
  decryption,
  acceptProblems,
  clock,
}: RestoreDeps & { url: string }): Promise<Restored> {
  return withPostgres(url, async (client) => {
    await client.query('begin')
    const db: Db = new Kysely<Tables>({ dialect: dialectOfConnection(client) })
    // Two restores at once would both find the database empty.
    await client.query('select pg_advisory_xact_lock(4027431337)')
    const existing = await findTables(client)
    if (existing.length > 0)
      throw new BackupError(
        `The database is not empty: it contains the table ${existing[0]?.name}. Create an empty database, and name it in database.url or AIGW_DATABASE_URL.`,
      )
    const { description, key } = await load(client, db, { source, decryption })
    const { pending } = await migrationState(db)
    await runMigrations(db, pending, { at: isoTime(clock.now()) })
    // The planner knows nothing about the new rows yet.
    await client.query('analyze')
    const checked = [...(await checkEngine(db)), ...(await checkChains(db))]
    requireSound(checked, acceptProblems)
    const install = await keyToInstall(db, config, key)
    if (install !== undefined) await writeSecretFile(masterKeyFile(config.dataDir), install)
    await client.query('commit')
    const { created_at } = description
    return { created_at, checked, replaced: null, master_key: install === undefined ? 'kept' : 'restored' }
  })
}

async function load(client: Client, db: Db, { source, decryption }: Pick<RestoreDeps, 'source' | 'decryption'>) {
  let description: BackupDescription | undefined
  let key: string | undefined
  let loader: TableLoader | undefined
  await readArchive(source, decryption, async (file) => {
    if (description === undefined) {
      if (file.name !== DESCRIPTION) throw new BackupError('The archive is not a backup of aigw.')
      description = parseDescription(await readText(file), 'postgres')
      requireKnownMigrations(description.migrations)
      await createSchema(client, db, description)
      loader = await createTableLoader(client, description.tables)
    } else if (file.name.startsWith(TABLES))
      await loader?.add(file.name.slice(TABLES.length).split('/')[0] ?? '', file.content)
    else if (file.name === KEY_FILE) key = (await readText(file)).trim()
    else throw new BackupError(`The backup is damaged: the file ${file.name} is unexpected.`)
  })
  if (description === undefined) throw new BackupError('The backup is damaged: it contains no store.')
  await loader?.end()
  return { description, key }
}

/** Creates the tables as they were when the backup was made. Some migrations insert rows, which the backup contains. */
async function createSchema(client: Client, db: Db, { migrations, tables }: BackupDescription): Promise<void> {
  await createMigrationTables(db)
  await runMigrations(db, migrations)
  const created = await findTables(client)
  const names = created.map(({ name }) => name)
  const missing = tables.find(({ name }) => !names.includes(name))
  if (missing !== undefined)
    throw new BackupError(`The backup contains the table ${missing.name}, which is not part of aigw.`)
  await sql`truncate ${sql.join(names.map((name) => sql.table(name)))}`.execute(db)
}
