import type { Db } from '../db/db.ts'
import type { MasterKeyRotationRow } from '../db/tables.ts'
import { HASH_PURPOSES, type MasterKey, openSecret, SealBrokenError, type SealedLocation, sealSecret } from './seal.ts'
import type { SealedColumn } from './sealed-column.ts'

export const ROTATION = 'rotation'

/** The location of a key that is encrypted under the other key of a rotation. */
export const keyLocation = (row: 'old' | 'new'): SealedLocation => ({
  purpose: 'master-key-rotation',
  table: 'master_key_rotation',
  row,
  tenant: '',
})

export const findRotation = (db: Db): Promise<MasterKeyRotationRow | undefined> =>
  db.selectFrom('master_key_rotation').selectAll().where('id', '=', ROTATION).executeTakeFirst()

const HASH_KEYS: SealedLocation = { purpose: 'derived-keys', table: 'master_key_check', row: 'derived', tenant: '' }

/** Reads the keys of keyed hashes from the store, if an earlier rotation has put them there. */
export async function loadHashKeys(db: Db, masterKey: MasterKey): Promise<void> {
  const row = await db
    .selectFrom('master_key_check')
    .select('sealed')
    .where('id', '=', HASH_KEYS.row)
    .executeTakeFirst()
  if (row !== undefined) masterKey.keepHashKeys(JSON.parse(openSecret(masterKey, HASH_KEYS, row.sealed)))
}

/**
 * Puts the keys of keyed hashes into the store, unless an earlier rotation has done so. Pseudonyms, canaries and keys of
 * the answer cache therefore stay valid under every later master key.
 */
export async function keepHashKeys(tx: Db, masterKey: MasterKey, createdAt: string): Promise<void> {
  const keys = HASH_PURPOSES.map((purpose) => [purpose, masterKey.keyFor(purpose).export().toString('base64')] as const)
  const sealed = sealSecret(masterKey, HASH_KEYS, JSON.stringify(Object.fromEntries(keys)))
  await tx
    .insertInto('master_key_check')
    .values({ id: HASH_KEYS.row, sealed, created_at: createdAt })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute()
}

/** The keys of keyed hashes are encrypted too. */
export const HASH_KEYS_COLUMN: SealedColumn = {
  table: 'master_key_check',
  column: 'sealed',
  key: ['id'],
  only: HASH_KEYS.row,
  isShort: true,
  locationOf: () => HASH_KEYS,
}

/**
 * Reads the running rotation, and accepts both of its keys. A daemon needs one of the two for this. Encrypts with the
 * new key once all daemons know it. Returns the rotation. Undefined if there is none, or if its keys are unknown here.
 */
export async function takeKeysOf(db: Db, masterKey: MasterKey): Promise<MasterKeyRotationRow | undefined> {
  const row = await findRotation(db)
  if (row === undefined) return undefined
  for (const [which, sealed] of [
    ['new', row.new_under_old],
    ['old', row.old_under_new],
  ] as const) {
    try {
      masterKey.accept(openSecret(masterKey, keyLocation(which), sealed))
    } catch (error) {
      if (!(error instanceof SealBrokenError)) throw error
    }
  }
  const isKnown = masterKey.openingKeys(row.new_id, 'check').length > 0
  if (!isKnown) return undefined
  await loadHashKeys(db, masterKey)
  masterKey.sealWith(row.phase === 'reseal' ? row.new_id : row.old_id)
  return row
}
