// The master key of a backup: which key the store needs, and whether this machine has it.
import { stat } from 'node:fs/promises'
import type { Config } from '../config/config.ts'
import { BackupError } from '../platform/db/backup/backup-error.ts'
import type { Db } from '../platform/db/db.ts'
import { findKeyOf, MasterKeyError, masterKeyFile } from '../platform/secrets/master-key.ts'

const silent = { warn: () => {} }
const keysOf = ({ masterKey, nextMasterKey, dataDir }: Config) => ({
  configured: masterKey,
  next: nextMasterKey,
  dataDir,
  log: silent,
})

/**
 * Returns the key of the backup if it must be written to `master.key`. Returns undefined if this machine has the key of
 * the store. @throws BackupError if the daemon could not read the secrets of the restored store
 */
export async function keyToInstall(db: Db, config: Config, ofBackup: string | undefined): Promise<string | undefined> {
  try {
    await findKeyOf(db, keysOf(config))
    return undefined
  } catch (cause) {
    if (!(cause instanceof MasterKeyError)) throw cause
    const path = masterKeyFile(config.dataDir)
    if (ofBackup === undefined)
      throw new BackupError(
        `The backup was not restored, because this machine does not have its master key. Copy the key of the backup to ${path} (or set AIGW_MASTER_KEY_FILE), and restore again.`,
        { cause },
      )
    await findKeyOf(db, keysOf(config), [ofBackup])
    if (config.masterKey !== undefined)
      throw new BackupError(
        'The backup was not restored: it contains its master key, but the configuration names another one. Configure the key of the backup, or remove the setting.',
        { cause },
      )
    if (await stat(path).catch(() => undefined))
      throw new BackupError(
        `The backup was not restored: it contains its master key, but ${path} contains another one, which the current store needs. Move both to another place, and restore again.`,
        { cause },
      )
    return ofBackup
  }
}

/** Returns the master key of a store, 64 hex characters. @throws BackupError during a rotation */
export async function exportKeyOf(db: Db, config: Config): Promise<string> {
  const found = await findKeyOf(db, keysOf(config))
  if (found === undefined) throw new BackupError('The store has no master key yet. Start the daemon once.')
  if (found.isRotating)
    throw new BackupError('The master key is being rotated. Wait until "aigw secrets status" reports the end.')
  return found.masterKey.exportHex(found.masterKey.id)
}
