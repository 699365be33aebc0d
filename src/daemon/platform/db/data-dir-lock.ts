import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { type Clock, isoTime, systemClock } from '../../../shared/time.ts'
import { type SqliteConnection, sqlite3Driver } from './sqlite-driver.ts'

/** The daemon that has locked a data directory. `url` is null until that daemon listens. */
export type DataDirHolder = { pid: number; host: string; since: string; url: string | null }

export type DataDirLock = {
  /** Records where the daemon listens, for the error message of a second daemon. */
  describe(info: { url: string }): Promise<void>
  release(): Promise<void>
}

/**
 * Thrown if another daemon uses the data directory. `holder` is undefined until that daemon has written its details.
 */
export class DataDirInUseError extends Error {
  override name = 'DataDirInUseError'
  readonly holder: DataDirHolder | undefined

  constructor(dataDir: string, holder: DataDirHolder | undefined) {
    const who = holder && `process ${holder.pid} on ${holder.host}, since ${holder.since}`
    const where = holder?.url ? `, listening on ${holder.url}` : ''
    super(
      `The data directory ${dataDir} is in use by another aigwd${who ? ` (${who}${where})` : ''}. ` +
        'Stop that process, or choose another directory with --data-dir.',
    )
    this.holder = holder
  }
}

/**
 * Creates the data directory, readable by this user only, if it does not exist.
 * @throws Error with a message that names the directory and the reason.
 */
export async function makeDataDir(dataDir: string): Promise<void> {
  try {
    await makeWithParents(dataDir)
  } catch (error) {
    const code = codeOf(error)
    const reason =
      code === 'EEXIST' || code === 'ENOTDIR'
        ? 'the path or a part of it is a file, not a directory'
        : String(code ?? error)
    throw new Error(`Cannot create the data directory ${dataDir}: ${reason}.`, { cause: error })
  }
}

// Replaces Node's recursive mkdir, which never returns if mkdir fails with ENOENT although the parent exists, as in
// /proc.
async function makeWithParents(directory: string): Promise<void> {
  try {
    await mkdir(directory, { mode: 0o700 })
  } catch (error) {
    if (codeOf(error) === 'EEXIST' && (await stat(directory)).isDirectory()) return
    if (codeOf(error) !== 'ENOENT' || dirname(directory) === directory) throw error
    await makeWithParents(dirname(directory))
    await mkdir(directory, { mode: 0o700 })
  }
}

const codeOf = (error: unknown) => (error instanceof Error && 'code' in error ? error.code : undefined)

/**
 * Locks the data directory for this process; creates the directory if missing. The lock is an operating-system lock,
 * which SQLite takes on a file. The lock therefore ends with the process, even after a crash.
 * @throws DataDirInUseError if another process, or another daemon in this process, has the lock.
 */
export async function lockDataDir(
  dataDir: string,
  { clock = systemClock }: { clock?: Clock } = {},
): Promise<DataDirLock> {
  await makeDataDir(dataDir)
  // The holder is written to a separate file: POSIX drops a process's lock as soon as the process closes any handle of
  // the locked file.
  const holderFile = join(dataDir, 'aigwd.holder.json')
  const connection = await sqlite3Driver.open(join(dataDir, 'aigwd.lock'), 'write')
  try {
    await takeLock(connection)
  } catch (error) {
    await connection.close()
    if (!(error instanceof Error && 'code' in error && error.code === 'SQLITE_BUSY')) throw error
    throw new DataDirInUseError(dataDir, await readHolder(holderFile))
  }
  const holder: DataDirHolder = { pid: process.pid, host: hostname(), since: isoTime(clock.now()), url: null }
  const lock: DataDirLock = {
    async describe({ url }) {
      await writeHolder(holderFile, { ...holder, url })
    },
    async release() {
      await rm(holderFile, { force: true })
      await connection.close()
    },
  }
  try {
    await writeHolder(holderFile, holder)
  } catch (error) {
    await lock.release()
    throw error
  }
  return lock
}

function takeLock(connection: SqliteConnection): Promise<void> {
  return connection.exec('pragma busy_timeout = 0; pragma journal_mode = delete; begin exclusive')
}

async function writeHolder(file: string, holder: DataDirHolder): Promise<void> {
  // The file is written under a temporary name and then renamed, so that other daemons never read a partial file.
  await writeFile(`${file}.new`, `${JSON.stringify(holder)}\n`, { mode: 0o600 })
  await rename(`${file}.new`, file)
}

async function readHolder(file: string): Promise<DataDirHolder | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as DataDirHolder
  } catch {
    // The file may be missing or incomplete while the other daemon starts or stops. Only the lock shows whether the
    // directory is in use.
    return undefined
  }
}
