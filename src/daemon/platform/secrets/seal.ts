import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto'

/** Purposes of encrypted texts. Each purpose has its own key, which is derived from the master key. */
export type SealPurpose =
  | 'check'
  | 'webhook-signing'
  | 'pseudonyms'
  | 'canaries'
  | 'evidence-signing'
  | 'stored-responses'
  | 'stored-replays'
  | 'answer-cache'
  | 'answer-cache-keys'

/**
 * The location of an encrypted text. The text can be decrypted only for this location, so copying it to another row
 * reveals nothing.
 */
export type SealedLocation = { purpose: SealPurpose; table: string; row: string; tenant: string }

/** The key that encrypts secrets in the store. Its bytes never appear in logs or JSON. */
export type MasterKey = { keyFor(purpose: SealPurpose): KeyObject }

/** Thrown if a text cannot be decrypted: the master key or the location is wrong, or the text was changed. */
export class SealBrokenError extends Error {
  override name = 'SealBrokenError'
}

const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** The version prefix of the format. */
const FORM = 'v1.'

/** @param hex 64 hex characters */
export function createMasterKey(hex: string): MasterKey {
  const master = createSecretKey(hex, 'hex')
  const keys = new Map<SealPurpose, KeyObject>()
  return {
    keyFor(purpose) {
      let key = keys.get(purpose)
      if (key === undefined) {
        // HKDF (RFC 5869) is used without a salt, because the master key is already random.
        key = createSecretKey(new Uint8Array(hkdfSync('sha256', master, '', `aigw/${purpose}`, 32)))
        keys.set(purpose, key)
      }
      return key
    },
  }
}

/** Encrypts a text for the store with AES-256-GCM and a random nonce, bound to its location. */
export function sealSecret(masterKey: MasterKey, location: SealedLocation, text: string): string {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, masterKey.keyFor(location.purpose), nonce).setAAD(toAad(location))
  const sealed = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
  return FORM + sealed.toString('base64url')
}

/**
 * Decrypts a text that was encrypted for this location. @throws SealBrokenError; the error reveals nothing about the
 * text
 */
export function openSecret(masterKey: MasterKey, location: SealedLocation, sealed: string): string {
  const bytes = Buffer.from(sealed.slice(FORM.length), 'base64url')
  if (!sealed.startsWith(FORM) || bytes.length < NONCE_BYTES + TAG_BYTES) throw broken(location)
  const tagAt = bytes.length - TAG_BYTES
  const decipher = createDecipheriv(CIPHER, masterKey.keyFor(location.purpose), bytes.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  })
  decipher.setAAD(toAad(location)).setAuthTag(bytes.subarray(tagAt))
  const text = decipher.update(bytes.subarray(NONCE_BYTES, tagAt))
  try {
    return Buffer.concat([text, decipher.final()]).toString('utf8')
  } catch (cause) {
    throw broken(location, cause)
  }
}

const toAad = ({ purpose, table, row, tenant }: SealedLocation): Buffer =>
  Buffer.from(JSON.stringify([purpose, table, row, tenant]))

const broken = ({ table, row }: SealedLocation, cause?: unknown) =>
  new SealBrokenError(
    `The secret of ${table} ${row} cannot be decrypted: another master key sealed it, or it was changed.`,
    {
      cause,
    },
  )
