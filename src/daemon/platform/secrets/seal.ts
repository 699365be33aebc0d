import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto'
import { GatewayError } from '../../../shared/errors.ts'

/** Purposes of encrypted texts. Each purpose has its own key, which is derived from the master key. */
export type SealPurpose =
  | 'check'
  | 'derived-keys'
  | 'master-key-rotation'
  | 'webhook-signing'
  | 'evidence-signing'
  | 'stored-responses'
  | 'stored-replays'
  | 'answer-cache'

/** Purposes of keyed hashes. Their keys stay the same when the master key is rotated. */
export const HASH_PURPOSES = ['pseudonyms', 'canaries', 'answer-cache-keys'] as const
export type HashPurpose = (typeof HASH_PURPOSES)[number]

/**
 * The location of an encrypted text. The text can be decrypted only for this location, so copying it to another row
 * reveals nothing.
 */
export type SealedLocation = { purpose: SealPurpose; table: string; row: string; tenant: string }

/**
 * The key that encrypts secrets in the store. During a rotation there are two: one encrypts, both decrypt. The bytes of
 * the keys never appear in logs or JSON.
 */
export type MasterKey = {
  /** The id of the key that encrypts. It reveals nothing about the key. */
  readonly id: string
  /** Returns the key of a keyed hash. */
  keyFor(purpose: HashPurpose): KeyObject
  /** Whether the store has another key than this daemon knows. Nothing is encrypted then. */
  isOutdated: boolean
  /** Returns the key that encrypts texts for this purpose. @throws MASTER_KEY_OUTDATED */
  sealingKey(purpose: SealPurpose): KeyObject
  /** Returns the keys that may decrypt a text: the key with this id, or every key if the text names no key. */
  openingKeys(id: string | undefined, purpose: SealPurpose): KeyObject[]
  /** Accepts another key for decryption. Returns its id. @param hex 64 hex characters */
  accept(hex: string): string
  /** Encrypts with this accepted key from now on. */
  sealWith(id: string): void
  /** The accepted keys, for their rotation. */
  exportHex(id: string): string
  /** Sets the keys of the keyed hashes, base64 by purpose. */
  keepHashKeys(keys: Readonly<Record<string, string>>): void
}

/** Thrown if a text cannot be decrypted: the master key or the location is wrong, or the text was changed. */
export class SealBrokenError extends Error {
  override name = 'SealBrokenError'
}

const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16
const ID_BYTES = 8
/** The prefix of the format, and the id of the key. The first version named no key. */
const FORM = /^(?:v1\.|v2\.([0-9a-f]{16})\.)([A-Za-z0-9_-]+)$/

/** The beginning of every text that the key with this id has encrypted. */
export const sealedPrefix = (id: string): string => `v2.${id}.`

/** The length of `sealedPrefix`. */
export const SEALED_PREFIX_CHARS = sealedPrefix('0'.repeat(2 * ID_BYTES)).length

/** Returns the id of the key that has encrypted a text. Undefined if the text names no key. */
export const keyIdOfSealed = (sealed: string): string | undefined => /^v2\.([0-9a-f]{16})\./.exec(sealed)?.[1]

type Ring = { id: string; hex: string; keyFor(purpose: string): KeyObject }

/** @param hex 64 hex characters */
export function createMasterKey(hex: string): MasterKey {
  let sealing = openKey(hex)
  const ring = new Map([[sealing.id, sealing]])
  let hashKeys: ReadonlyMap<string, KeyObject> = new Map()
  const get = (id: string): Ring => {
    const key = ring.get(id)
    if (key === undefined) throw new Error(`the master key ${id} is not known`)
    return key
  }
  let isOutdated = false
  return {
    get id() {
      return sealing.id
    },
    get isOutdated() {
      return isOutdated
    },
    set isOutdated(value) {
      isOutdated = value
    },
    keyFor: (purpose) => hashKeys.get(purpose) ?? sealing.keyFor(purpose),
    sealingKey(purpose) {
      if (isOutdated) throw outdatedKey()
      return sealing.keyFor(purpose)
    },
    openingKeys(id, purpose) {
      const keys = id === undefined ? [...ring.values()] : [ring.get(id)]
      return keys.flatMap((key) => (key === undefined ? [] : [key.keyFor(purpose)]))
    },
    accept(other) {
      const key = openKey(other)
      if (!ring.has(key.id)) ring.set(key.id, key)
      return key.id
    },
    sealWith(id) {
      sealing = get(id)
    },
    exportHex: (id) => get(id).hex,
    keepHashKeys(keys) {
      hashKeys = new Map(Object.entries(keys).map(([name, key]) => [name, createSecretKey(key, 'base64')]))
    },
  }
}

function openKey(hex: string): Ring {
  const master = createSecretKey(hex, 'hex')
  const keys = new Map<string, KeyObject>()
  // HKDF (RFC 5869) is used without a salt, because the master key is already random.
  const derive = (purpose: string, bytes: number) =>
    new Uint8Array(hkdfSync('sha256', master, '', `aigw/${purpose}`, bytes))
  return {
    id: Buffer.from(derive('key-id', ID_BYTES)).toString('hex'),
    get hex() {
      return master.export().toString('hex')
    },
    keyFor(purpose) {
      let key = keys.get(purpose)
      if (key === undefined) {
        key = createSecretKey(derive(purpose, 32))
        keys.set(purpose, key)
      }
      return key
    },
  }
}

/** Encrypts a text for the store with AES-256-GCM and a random nonce, bound to its location. */
export function sealSecret(masterKey: MasterKey, location: SealedLocation, text: string): string {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, masterKey.sealingKey(location.purpose), nonce).setAAD(toAad(location))
  const sealed = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
  return sealedPrefix(masterKey.id) + sealed.toString('base64url')
}

/**
 * Decrypts a text that was encrypted for this location. @throws SealBrokenError; the error reveals nothing about the
 * text
 */
export function openSecret(masterKey: MasterKey, location: SealedLocation, sealed: string): string {
  const [, id, text = ''] = FORM.exec(sealed) ?? []
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.length < NONCE_BYTES + TAG_BYTES) throw broken(location)
  let cause: unknown
  for (const key of masterKey.openingKeys(id, location.purpose)) {
    try {
      return decrypt(key, location, bytes)
    } catch (error) {
      cause = error
    }
  }
  throw broken(location, cause)
}

function decrypt(key: KeyObject, location: SealedLocation, bytes: Buffer): string {
  const tagAt = bytes.length - TAG_BYTES
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
  decipher.setAAD(toAad(location)).setAuthTag(bytes.subarray(tagAt))
  const text = decipher.update(bytes.subarray(NONCE_BYTES, tagAt))
  return Buffer.concat([text, decipher.final()]).toString('utf8')
}

/** The store has another master key than this daemon knows. */
export const outdatedKey = (): GatewayError =>
  new GatewayError(
    'MASTER_KEY_OUTDATED',
    'The master key was rotated while this daemon was away. Restart this daemon with the master key of the other daemons.',
  )

const toAad = ({ purpose, table, row, tenant }: SealedLocation): Buffer =>
  Buffer.from(JSON.stringify([purpose, table, row, tenant]))

const broken = ({ table, row }: SealedLocation, cause?: unknown) =>
  new SealBrokenError(
    `The secret of ${table} ${row} cannot be decrypted: another master key sealed it, or it was changed.`,
    {
      cause,
    },
  )
