// Describes a store and its backups.
import { join } from 'node:path'
import type { Config } from '../config/config.ts'
import { findBackups } from '../platform/db/backup/backup-file.ts'
import { MIGRATION_PREFIX, migrationBackups } from '../platform/db/backup/migration-backup.ts'
import { sqliteFile } from '../platform/db/backup/sqlite-backup.ts'
import type { Db } from '../platform/db/db.ts'
import { migrationState, requireKnownMigrations } from '../platform/db/migrate.ts'
import { sizeOf } from './maintain.ts'

/** @throws NewerSchemaError */
export async function storeStatus(db: Db, { database, dataDir }: Config) {
  const { applied, pending } = await migrationState(db)
  requireKnownMigrations(applied)
  const directory = migrationBackups(dataDir)
  const backups = database.kind === 'sqlite' ? await findBackups(directory, MIGRATION_PREFIX) : []
  return {
    engine: database.kind,
    // The URL without the password.
    store:
      database.kind === 'sqlite'
        ? sqliteFile(dataDir)
        : `${new URL(database.url).host}${new URL(database.url).pathname}`,
    bytes: await sizeOf(db),
    migration: applied.at(-1) ?? null,
    pending,
    backups: backups.map((name) => join(directory, name)),
  }
}
