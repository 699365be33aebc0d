import { randomBytes } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../db/db.ts'
import { engineOf } from '../db/engine.ts'
import type { Log } from '../log.ts'
import {
  createMasterKey,
  type MasterKey,
  openSecret,
  SealBrokenError,
  type SealedLocation,
  sealSecret,
} from './seal.ts'
import { writeSecretFile } from './secret-file.ts'

/** The path of the generated master key. */
export const masterKeyFile = (dataDir: string): string => join(dataDir, 'master.key')

export type MasterKeyOptions = {
  /**
   * The configured key, 64 hex characters. If undefined, `<dataDir>/master.key` is used, and created if it is missing.
   */
  configured: string | undefined
  dataDir: string
  clock: Clock
  log: Pick<Log, 'warn'>
}

/** Thrown if the master key is missing, or cannot decrypt the secrets of the store. */
export class MasterKeyError extends Error {
  override name = 'MasterKeyError'
}

const CHECK: SealedLocation = { purpose: 'check', table: 'master_key_check', row: 'check', tenant: '' }
const CHECK_TEXT = 'aigw'

/**
 * Returns the master key of this store. The store contains a check text that was encrypted with this key. A daemon with
 * a different key cannot decrypt it and fails here, before it encrypts anything. This function is safe at every start,
 * in concurrent daemons, and after a start that was killed at any point.
 * @throws MasterKeyError
 */
export function openMasterKey(db: Db, { configured, dataDir, clock, log }: MasterKeyOptions): Promise<MasterKey> {
  return db.transaction().execute(async (tx) => {
    // Only one daemon may continue at a time. On SQLite, transactions are already exclusive.
    if (engineOf(tx).name === 'postgres') await sql`lock table master_key_check in exclusive mode`.execute(tx)
    const check = await tx
      .selectFrom('master_key_check')
      .select('sealed')
      .where('id', '=', CHECK.row)
      .executeTakeFirst()
    const found = configured ?? (await readMasterKey(dataDir, log))
    if (check === undefined) {
      const masterKey = createMasterKey(found ?? (await newMasterKey(dataDir)))
      const sealed = sealSecret(masterKey, CHECK, CHECK_TEXT)
      const created_at = isoTime(clock.now())
      await tx.insertInto('master_key_check').values({ id: CHECK.row, sealed, created_at }).execute()
      return masterKey
    }
    const path = masterKeyFile(dataDir)
    if (found === undefined) {
      throw new MasterKeyError(
        `The store contains sealed secrets, but their master key is missing: ${path} does not exist and AIGW_MASTER_KEY_FILE is ` +
          'not set. Give every daemon of one database the same file.',
      )
    }
    const masterKey = createMasterKey(found)
    requireOpens(masterKey, check.sealed, configured === undefined ? path : 'the file of AIGW_MASTER_KEY_FILE')
    return masterKey
  })
}

function requireOpens(masterKey: MasterKey, sealed: string, where: string): void {
  try {
    openSecret(masterKey, CHECK, sealed)
  } catch (cause) {
    if (!(cause instanceof SealBrokenError)) throw cause
    throw new MasterKeyError(
      `The master key in ${where} differs from the one that sealed the secrets of this store. Give every daemon of ` +
        'one database the same file, and restore it together with the database.',
      { cause },
    )
  }
}

async function readMasterKey(dataDir: string, log: Pick<Log, 'warn'>): Promise<string | undefined> {
  const file = masterKeyFile(dataDir)
  const found = await readWithMode(file).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined
    throw new MasterKeyError(`Cannot read the master key file ${file}: ${cause.message}`, { cause })
  })
  if (found === undefined) return undefined
  if ((found.mode & 0o077) !== 0)
    log.warn(
      { file, mode: (found.mode & 0o777).toString(8) },
      'other users can read the master key file; run chmod 600',
    )
  const key = found.text.trim()
  if (!/^[0-9a-f]{64}$/.test(key)) {
    throw new MasterKeyError(`${file} does not contain a master key (64 characters 0-9a-f). Restore it from a backup.`)
  }
  return key
}

async function readWithMode(path: string): Promise<{ text: string; mode: number }> {
  const file = await open(path, 'r')
  try {
    return { text: await file.readFile('utf8'), mode: (await file.stat()).mode }
  } finally {
    await file.close()
  }
}

/** The file is written before the key encrypts anything. */
async function newMasterKey(dataDir: string): Promise<string> {
  const key = randomBytes(32).toString('hex')
  await writeSecretFile(masterKeyFile(dataDir), key)
  return key
}
