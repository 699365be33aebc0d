// What every verb of `aigwd db` gets: its flags, the configuration and the store.
import type { Readable, Writable } from 'node:stream'
import { parseArgs } from 'node:util'
import type { Clock } from '../../shared/time.ts'
import type { Config } from '../config/config.ts'
import { requireStore } from '../platform/db/backup/sqlite-backup.ts'
import { lockDataDir } from '../platform/db/data-dir-lock.ts'
import { openDatabase } from '../platform/db/database.ts'
import type { Db } from '../platform/db/db.ts'

const EXIT_USAGE = 2

const OPTIONS = {
  config: { type: 'string' },
  'data-dir': { type: 'string' },
  to: { type: 'string' },
  keep: { type: 'string' },
  recipient: { type: 'string', multiple: true },
  'passphrase-file': { type: 'string' },
  unencrypted: { type: 'boolean' },
  'with-master-key': { type: 'boolean' },
  from: { type: 'string' },
  identity: { type: 'string', multiple: true },
  'accept-problems': { type: 'boolean' },
} as const

export type DbFlags = ReturnType<typeof parseDbFlags>['values']
/** @throws TypeError for an unknown flag */
export const parseDbFlags = (argv: readonly string[]) =>
  parseArgs({ args: [...argv], options: OPTIONS, strict: true, allowPositionals: true })

export type DbCommandDeps = {
  /** Reads the configuration from these flags. */
  load(argv: readonly string[]): Config
  env: NodeJS.ProcessEnv
  stdin: Readable
  stdout: Writable
  clock?: Clock
}
export type DbContext = Omit<DbCommandDeps, 'load' | 'clock'> & { config: Config; flags: DbFlags; clock: Clock }

/** A fault of the command line. */
export class UsageError extends Error {
  override name = 'UsageError'
  readonly exitCode = EXIT_USAGE
}

/** Opens the store, and closes it at the end. @throws BackupError if there is none */
export async function withStore<T>({ config }: DbContext, use: (db: Db) => Promise<T>): Promise<T> {
  if (config.database.kind === 'sqlite') await requireStore(config.dataDir)
  const db = await openStore(config)
  try {
    return await use(db)
  } finally {
    await db.destroy()
  }
}

const openStore = ({ database, dataDir }: Config): Promise<Db> =>
  openDatabase(database.kind === 'sqlite' ? { kind: 'sqlite', dataDir } : database)

/** Opens the store. With SQLite, no daemon may use it. @throws DataDirInUseError */
export async function withStoppedStore<T>({ config, clock }: DbContext, use: (db: Db) => Promise<T>): Promise<T> {
  const isSqlite = config.database.kind === 'sqlite'
  if (isSqlite) await requireStore(config.dataDir)
  const lock = isSqlite ? await lockDataDir(config.dataDir, { clock }) : undefined
  try {
    const db = await openStore(config)
    try {
      return await use(db)
    } finally {
      await db.destroy()
    }
  } finally {
    await lock?.release()
  }
}
