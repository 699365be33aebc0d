// The backup that the daemon makes before it migrates an SQLite store.
import { join } from 'node:path'
import { type Clock, isoTime } from '../../../../shared/time.ts'
import { writeArchive } from './archive.ts'
import { messageOf } from './backup-error.ts'
import { backupName, keepNewest, writeWhole } from './backup-file.ts'
import { withSqliteCopy } from './sqlite-backup.ts'
import { addSqliteStore } from './store-backup.ts'

export const MIGRATION_PREFIX = 'before-migration'
export const migrationBackups = (dataDir: string): string => join(dataDir, 'backups')

/**
 * Backs up a store before its migration, and keeps the newest `keep` of these backups. They are not encrypted: they are
 * in the directory of the store, with the same protection. Returns the path. @throws Error that says how to go on
 */
export async function backUpBeforeMigration({
  dataDir,
  keep,
  migrations,
  clock,
}: {
  dataDir: string
  keep: number
  migrations: readonly string[]
  clock: Pick<Clock, 'now'>
}): Promise<string> {
  const directory = migrationBackups(dataDir)
  const createdAt = isoTime(clock.now())
  const path = join(directory, backupName(MIGRATION_PREFIX, createdAt, false))
  try {
    await withSqliteCopy(dataDir, (copy) =>
      writeWhole(path, (out) =>
        writeArchive(out, { kind: 'none' }, (add) => addSqliteStore(add, { copy, migrations, created_at: createdAt })),
      ),
    )
  } catch (cause) {
    throw new Error(
      `The store needs a migration, but its backup failed: ${messageOf(cause)}. Nothing was changed. Free some disk space, or set database.backups_before_migration to 0.`,
      { cause },
    )
  }
  await keepNewest(directory, MIGRATION_PREFIX, keep)
  return path
}
