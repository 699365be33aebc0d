// Copies an SQLite store into a backup while the daemon runs.
import { createReadStream } from 'node:fs'
import { access, open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { sqlite3Driver } from '../sqlite-driver.ts'
import type { AddFile } from './archive.ts'
import { BackupError } from './backup-error.ts'
import { SQLITE_FILE } from './description.ts'

export const sqliteFile = (dataDir: string): string => join(dataDir, SQLITE_FILE)

/** The name of a copy contains the process that makes it. */
const COPY = /^aigw\.db\.copy-(\d+)$/
const CHUNK_BYTES = 1024 * 1024

/**
 * Makes a copy of the store from one snapshot, and passes it to `use`. Neither readers nor writers of the store wait: a
 * reader of the write-ahead log locks nobody out. The copy is removed at the end.
 */
export async function withSqliteCopy<T>(dataDir: string, use: (copy: string) => Promise<T>): Promise<T> {
  await requireStore(dataDir)
  await removeAbandonedCopies(dataDir)
  const copy = join(dataDir, `${SQLITE_FILE}.copy-${process.pid}`)
  await rm(copy, { force: true })
  try {
    const connection = await sqlite3Driver.open(sqliteFile(dataDir), 'read')
    try {
      await connection.exec(`pragma busy_timeout = 30000; vacuum into '${copy.replaceAll("'", "''")}'`)
    } finally {
      await connection.close()
    }
    return await use(copy)
  } finally {
    await rm(copy, { force: true })
  }
}

/** Adds a copy of `withSqliteCopy` to an archive. */
export async function addSqliteCopy(add: AddFile, copy: string): Promise<void> {
  const { size } = await stat(copy)
  await add(SQLITE_FILE, size, createReadStream(copy, { highWaterMark: CHUNK_BYTES }))
}

/** @throws BackupError */
export async function requireStore(dataDir: string): Promise<void> {
  const path = sqliteFile(dataDir)
  await access(path).catch((cause) => {
    throw new BackupError(`There is no store: ${path} does not exist. Check --data-dir or AIGW_DATA_DIR.`, { cause })
  })
}

/** Removes copies of backups that were killed. They contain the whole store. */
export async function removeAbandonedCopies(dataDir: string): Promise<void> {
  for (const name of await readdir(dataDir)) {
    const pid = COPY.exec(name)?.[1]
    if (pid !== undefined && !isRunning(Number(pid))) await rm(join(dataDir, name), { force: true })
  }
}

function isRunning(pid: number): boolean {
  if (pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: the process belongs to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Writes a file or the names in a directory to the disk, so that a power cut does not lose them. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
