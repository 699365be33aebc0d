import { randomBytes } from 'node:crypto'
import { open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../db/db.ts'
import { engineOf } from '../db/engine.ts'
import type { Log } from '../log.ts'
import { loadHashKeys, takeKeysOf } from './rotation-row.ts'
import {
  createMasterKey,
  keyIdOfSealed,
  type MasterKey,
  openSecret,
  SealBrokenError,
  type SealedLocation,
  sealedPrefix,
  sealSecret,
} from './seal.ts'
import { writeSecretFile } from './secret-file.ts'

/** The path of the generated master key. */
export const masterKeyFile = (dataDir: string): string => join(dataDir, 'master.key')
/** The path of the key to which a rotation changes. It replaces `master.key` at the end of the rotation. */
const nextKeyFile = (dataDir: string): string => join(dataDir, 'master.key.next')
/** The path of the earlier key after a rotation. Backups from before the rotation need it. */
const formerKeyFile = (dataDir: string): string => join(dataDir, 'master.key.old')

export type MasterKeyOptions = {
  /**
   * The configured key, 64 hex characters. If undefined, `<dataDir>/master.key` is used, and created if it is missing.
   */
  configured: string | undefined
  /** The configured key to which a rotation changes. */
  next?: string | undefined
  dataDir: string
  clock: Clock
  log: Pick<Log, 'warn'>
}

/** Thrown if the master key is missing, or cannot decrypt the secrets of the store. */
export class MasterKeyError extends Error {
  override name = 'MasterKeyError'
}

export const CHECK: SealedLocation = { purpose: 'check', table: 'master_key_check', row: 'check', tenant: '' }
export const CHECK_TEXT = 'aigw'

/**
 * Returns the master key of this store. The store contains a check text that was encrypted with this key. A daemon with
 * a different key cannot decrypt it and fails here, before it encrypts anything. During a rotation, either key is
 * sufficient. This function is safe at every start, in concurrent daemons, and after a start that was killed at any
 * point.
 * @throws MasterKeyError
 */
export function openMasterKey(db: Db, options: MasterKeyOptions): Promise<MasterKey> {
  const { configured, next, dataDir, clock, log } = options
  return db.transaction().execute(async (tx) => {
    // Only one daemon may continue at a time. On SQLite, transactions are already exclusive.
    if (engineOf(tx).name === 'postgres') await sql`lock table master_key_check in exclusive mode`.execute(tx)
    const check = await tx
      .selectFrom('master_key_check')
      .select('sealed')
      .where('id', '=', CHECK.row)
      .executeTakeFirst()
    const found = configured ?? (await readKeyFile(masterKeyFile(dataDir), log))
    if (check === undefined) {
      const masterKey = createMasterKey(found ?? (await newKeyFile(masterKeyFile(dataDir))))
      const sealed = sealSecret(masterKey, CHECK, CHECK_TEXT)
      const created_at = isoTime(clock.now())
      await tx.insertInto('master_key_check').values({ id: CHECK.row, sealed, created_at }).execute()
      return masterKey
    }
    const path = masterKeyFile(dataDir)
    const other = configured === undefined ? await readKeyFile(nextKeyFile(dataDir), log) : next
    if (found === undefined && other === undefined) {
      throw new MasterKeyError(
        `The store contains sealed secrets, but their master key is missing: ${path} does not exist and AIGW_MASTER_KEY_FILE is ` +
          'not set. Give every daemon of one database the same file.',
      )
    }
    const where = configured === undefined ? path : 'the file of AIGW_MASTER_KEY_FILE'
    const { masterKey, isRotating } = await openingKey(tx, [found, other], check.sealed, where)
    const isOwn = found !== undefined && masterKey.id === createMasterKey(found).id
    if (!isOwn && !isRotating) await noteChangedKey(masterKey, options)
    await loadHashKeys(tx, masterKey)
    return masterKey
  })
}

/**
 * Returns the key that decrypts the secrets of a store, and changes nothing. The candidates are the keys of this daemon,
 * and `further`. Returns undefined if the store has no secrets yet. @throws MasterKeyError if no key fits
 */
export async function findKeyOf(
  db: Db,
  { configured, next, dataDir, log }: Omit<MasterKeyOptions, 'clock'>,
  further: readonly string[] = [],
): Promise<{ masterKey: MasterKey; isRotating: boolean } | undefined> {
  const check = await db.selectFrom('master_key_check').select('sealed').where('id', '=', CHECK.row).executeTakeFirst()
  if (check === undefined) return undefined
  const own =
    configured === undefined
      ? await Promise.all([masterKeyFile(dataDir), nextKeyFile(dataDir)].map((file) => readKeyFile(file, log)))
      : [configured, next]
  const where = configured === undefined ? masterKeyFile(dataDir) : 'the file of AIGW_MASTER_KEY_FILE'
  return openingKey(db, [...own, ...further], check.sealed, where)
}

/** Returns the first key that decrypts the check text, alone or with the other key of a running rotation. */
async function openingKey(
  tx: Db,
  candidates: readonly (string | undefined)[],
  sealed: string,
  where: string,
): Promise<{ masterKey: MasterKey; isRotating: boolean }> {
  let cause: unknown
  for (const hex of candidates) {
    if (hex === undefined) continue
    const masterKey = createMasterKey(hex)
    const rotation = await takeKeysOf(tx, masterKey)
    try {
      openSecret(masterKey, CHECK, sealed)
      return { masterKey, isRotating: rotation !== undefined }
    } catch (error) {
      if (!(error instanceof SealBrokenError)) throw error
      cause = error
    }
  }
  throw new MasterKeyError(
    `The master key in ${where} differs from the one that sealed the secrets of this store. Give every daemon of ` +
      'one database the same file, and restore it together with the database.',
    { cause },
  )
}

/**
 * Compares the key with the check text, if no rotation is running. A rotation may have ended while this daemon was away.
 * Encrypts with the key of the check text from then on, if that key is accepted already or is one of this daemon's other
 * keys. Returns false if the key of the store is unknown here.
 */
export async function followCheckText(
  db: Db,
  masterKey: MasterKey,
  { configured, next, dataDir, log }: Omit<MasterKeyOptions, 'clock'>,
): Promise<boolean> {
  const { sealed } = await db
    .selectFrom('master_key_check')
    .select('sealed')
    .where('id', '=', CHECK.row)
    .executeTakeFirstOrThrow()
  if (sealed.startsWith(sealedPrefix(masterKey.id))) return true
  if (!mayOpen(masterKey, sealed)) {
    const files = [nextKeyFile(dataDir), masterKeyFile(dataDir)]
    const others = configured === undefined ? await Promise.all(files.map((file) => readKeyFile(file, log))) : [next]
    for (const hex of others) if (hex !== undefined) masterKey.accept(hex)
    if (!mayOpen(masterKey, sealed)) return false
    await loadHashKeys(db, masterKey)
  }
  masterKey.sealWith(keyIdOfSealed(sealed) ?? masterKey.id)
  return true
}

function mayOpen(masterKey: MasterKey, sealed: string): boolean {
  try {
    openSecret(masterKey, CHECK, sealed)
    return true
  } catch (error) {
    if (error instanceof SealBrokenError) return false
    throw error
  }
}

/** The rotation has ended, but this daemon still has the earlier key as its own. */
async function noteChangedKey(masterKey: MasterKey, { configured, dataDir, log }: MasterKeyOptions): Promise<void> {
  if (configured === undefined) await replaceKeyFile(dataDir, masterKey)
  else
    log.warn(
      { key: masterKey.id },
      'the secrets of the store are sealed under next_master_key; make it the master key, and remove next_master_key',
    )
}

/**
 * Returns the key of `master.key.next`, and creates this file if it is missing. A rotation that was killed before its
 * start has left the file.
 */
export async function nextKeyOf(dataDir: string, log: Pick<Log, 'warn'>): Promise<string> {
  return (await readKeyFile(nextKeyFile(dataDir), log)) ?? (await newKeyFile(nextKeyFile(dataDir)))
}

/** Stores a key that another daemon has generated, so that the next start of this daemon finds it. */
export const keepNextKey = (dataDir: string, hex: string): Promise<void> => writeSecretFile(nextKeyFile(dataDir), hex)

/**
 * Makes the sealing key the key of `master.key`. The earlier key is kept as `master.key.old`. Safe to repeat, and after
 * a kill at any point.
 */
export async function replaceKeyFile(dataDir: string, masterKey: MasterKey): Promise<void> {
  const path = masterKeyFile(dataDir)
  const current = await readKeyFile(path, { warn: () => {} })
  if (current !== undefined && createMasterKey(current).id === masterKey.id) return
  if (current !== undefined) await writeSecretFile(formerKeyFile(dataDir), current)
  await writeSecretFile(nextKeyFile(dataDir), masterKey.exportHex(masterKey.id))
  await rename(nextKeyFile(dataDir), path)
}

async function readKeyFile(file: string, log: Pick<Log, 'warn'>): Promise<string | undefined> {
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
async function newKeyFile(path: string): Promise<string> {
  const key = randomBytes(32).toString('hex')
  await writeSecretFile(path, key)
  return key
}
