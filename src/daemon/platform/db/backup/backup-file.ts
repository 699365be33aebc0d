// Backups as files of a directory: their names, and how many are kept.
import { createWriteStream } from 'node:fs'
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Writable } from 'node:stream'
import { syncPath } from './sqlite-backup.ts'

/** The name contains the time, so the order of the names is the order of the backups. */
export const backupName = (prefix: string, at: string, isEncrypted: boolean): string =>
  `${prefix}-${at.replace(/[-:.]/g, '')}.tar.gz${isEncrypted ? '.age' : ''}`

/**
 * Writes a file under a temporary name, and renames it when it is complete and on the disk. Only complete backups
 * therefore have the name of a backup. Returns its size.
 */
export async function writeWhole(path: string, write: (out: Writable) => Promise<void>): Promise<number> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const partial = `${path}.partial`
  try {
    await write(createWriteStream(partial, { mode: 0o600 }))
    await syncPath(partial)
    const { size } = await stat(partial)
    await rename(partial, path)
    await syncPath(dirname(path))
    return size
  } catch (error) {
    await rm(partial, { force: true })
    throw error
  }
}

/** Returns the backups of a directory with this prefix, oldest first. */
export async function findBackups(directory: string, prefix: string): Promise<string[]> {
  const names = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  return names.filter((name) => name.startsWith(`${prefix}-`) && /\.tar\.gz(\.age)?$/.test(name)).sort()
}

/** Removes all but the newest backups. Returns the names of the removed files. */
export async function keepNewest(directory: string, prefix: string, count: number): Promise<string[]> {
  const names = await findBackups(directory, prefix)
  const old = names.slice(0, Math.max(0, names.length - count))
  for (const name of old) await rm(join(directory, name), { force: true })
  return old
}
