// Restores an SQLite store. The current store is replaced only after the new one is complete and verified.
import { createWriteStream } from 'node:fs'
import { copyFile, link, mkdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Clock, isoTime } from '../../shared/time.ts'
import type { Config } from '../config/config.ts'
import { readArchive, readText } from '../platform/db/backup/archive.ts'
import { BackupError } from '../platform/db/backup/backup-error.ts'
import {
  type BackupDescription,
  DESCRIPTION,
  KEY_FILE,
  parseDescription,
  SQLITE_FILE,
} from '../platform/db/backup/description.ts'
import type { Decryption } from '../platform/db/backup/encryption.ts'
import { sqliteFile, syncPath } from '../platform/db/backup/sqlite-backup.ts'
import { lockDataDir } from '../platform/db/data-dir-lock.ts'
import { openDatabase } from '../platform/db/database.ts'
import { migrateDatabase, requireKnownMigrations } from '../platform/db/migrate.ts'
import { sqlite3Driver } from '../platform/db/sqlite-driver.ts'
import { writeSecretFile } from '../platform/secrets/secret-file.ts'
import { checkChains, checkEngine, type Finding } from './check.ts'
import { keyToInstall } from './key-of-backup.ts'
import { requireSound } from './sound.ts'

export type RestoreDeps = {
  config: Config
  source: Readable
  decryption: Decryption
  acceptProblems: boolean
  clock: Clock
}
export type Restored = {
  created_at: string
  checked: Finding[]
  replaced: string | null
  master_key: 'kept' | 'restored'
}

/** The new store is built here. Only the process with the lock of the directory uses it. */
const STAGING = 'restore.new'

/** @throws DataDirInUseError while a daemon runs; BackupError if the backup must not be restored */
export async function restoreSqlite({
  config,
  source,
  decryption,
  acceptProblems,
  clock,
}: RestoreDeps): Promise<Restored> {
  const { dataDir } = config
  const lock = await lockDataDir(dataDir, { clock })
  const staging = join(dataDir, STAGING)
  try {
    // A restore that was killed has left it.
    await rm(staging, { recursive: true, force: true })
    await mkdir(staging, { mode: 0o700 })
    const { description, key } = await unpack(source, decryption, staging)
    const { checked, install } = await prepare(config, { staging, key, acceptProblems })
    // Before the store is replaced. The current store, if there is one, does not use this file.
    if (install !== undefined) await writeSecretFile(join(dataDir, KEY_FILE), install)
    const replaced = await replaceStore(dataDir, sqliteFile(staging), isoTime(clock.now()))
    return {
      created_at: description.created_at,
      checked,
      replaced,
      master_key: install === undefined ? 'kept' : 'restored',
    }
  } finally {
    await rm(staging, { recursive: true, force: true })
    await lock.release()
  }
}

async function unpack(source: Readable, decryption: Decryption, staging: string) {
  let description: BackupDescription | undefined
  let key: string | undefined
  let hasStore = false
  await readArchive(source, decryption, async (file) => {
    if (description === undefined) {
      if (file.name !== DESCRIPTION) throw new BackupError('The archive is not a backup of aigw.')
      description = parseDescription(await readText(file), 'sqlite')
      requireKnownMigrations(description.migrations)
    } else if (file.name === SQLITE_FILE) {
      await pipeline(file.content, createWriteStream(sqliteFile(staging), { mode: 0o600 }))
      hasStore = true
    } else if (file.name === KEY_FILE) key = (await readText(file)).trim()
    else throw new BackupError(`The backup is damaged: the file ${file.name} is unexpected.`)
  })
  if (description === undefined || !hasStore) throw new BackupError('The backup is damaged: it contains no store.')
  return { description, key }
}

/** Migrates and verifies the new store, and closes it. */
async function prepare(
  config: Config,
  { staging, key, acceptProblems }: { staging: string; key: string | undefined; acceptProblems: boolean },
): Promise<{ checked: Finding[]; install: string | undefined }> {
  const db = await openDatabase({ kind: 'sqlite', dataDir: staging })
  try {
    const checked = await checkEngine(db)
    requireSound(checked, acceptProblems)
    await migrateDatabase(db)
    checked.push(...(await checkChains(db)))
    requireSound(checked, acceptProblems)
    return { checked, install: await keyToInstall(db, config, key) }
  } finally {
    await db.destroy()
  }
}

/**
 * Puts the new file in place with one rename. Until then, the current store is complete; afterwards it is in a folder
 * aside, whose path is returned. A kill at any point therefore leaves one of the two stores in place.
 */
async function replaceStore(dataDir: string, replacement: string, at: string): Promise<string | null> {
  const current = sqliteFile(dataDir)
  await syncPath(replacement)
  if (!(await exists(current))) {
    await rename(replacement, current)
    await syncPath(dataDir)
    return null
  }
  await mergeLog(current)
  const aside = join(dataDir, `replaced-${at.replace(/[-:.]/g, '')}`)
  await mkdir(aside, { mode: 0o700 })
  const kept = join(aside, SQLITE_FILE)
  // A second name for the same file. Some file systems have no such names.
  await link(current, kept).catch(() => copyFile(current, kept))
  // A damaged store may keep its log. SQLite would apply the log to the new store, so it must not stay.
  for (const end of ['-wal', '-shm'])
    if (await exists(`${current}${end}`)) await rename(`${current}${end}`, `${kept}${end}`)
  await syncPath(aside)
  await rename(replacement, current)
  await syncPath(dataDir)
  return aside
}

/** Moves the write-ahead log into the file, so that one file is the whole store. */
async function mergeLog(file: string): Promise<void> {
  let isBusy = false
  const connection = await sqlite3Driver.open(file, 'write')
  try {
    const [result] = await connection.all('pragma wal_checkpoint(truncate)', [])
    isBusy = result?.busy === 1
  } catch {
    // The current store is damaged, which may be the reason for the restore.
  } finally {
    await connection.close()
  }
  if (isBusy)
    throw new BackupError(
      'Another program uses the store, for example a backup. Wait until it has ended, and try again.',
    )
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/** Returns the text of a file with a secret. @throws BackupError */
export const readSecretText = (path: string): Promise<string> =>
  readFile(path, 'utf8').catch((cause: Error) => {
    throw new BackupError(`${path} cannot be read: ${cause.message}`, { cause })
  })
