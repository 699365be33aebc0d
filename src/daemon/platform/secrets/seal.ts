import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto'

/** Purposes of sealed texts; each has its own key. */
export type SealPurpose = 'check' | 'webhook-signing' | 'pseudonyms' | 'canaries' | 'evidence-signing'

/** The location of a sealed text. The text opens only there, so a copied row reveals nothing. */
export type SealedLocation = { purpose: SealPurpose; table: string; row: string; tenant: string }

/** The key that seals secrets in the store. Its bytes are hidden from logs and JSON. */
export type MasterKey = { keyFor(purpose: SealPurpose): KeyObject }

/** This master key or location does not open the sealed text, or the text was changed. */
export class SealBrokenError extends Error {
  override name = 'SealBrokenError'
}

const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** The version of the format. */
const FORM = 'v1.'

/** @param hex 64 hex characters */
export function createMasterKey(hex: string): MasterKey {
  const master = createSecretKey(hex, 'hex')
  const keys = new Map<SealPurpose, KeyObject>()
  return {
    keyFor(purpose) {
      let key = keys.get(purpose)
      if (key === undefined) {
        // RFC 5869; no salt, because the master key is already random.
        key = createSecretKey(new Uint8Array(hkdfSync('sha256', master, '', `aigw/${purpose}`, 32)))
        keys.set(purpose, key)
      }
      return key
    },
  }
}

/** Seals a text for the store: AES-256-GCM with a random nonce, bound to its location. */
export function sealSecret(masterKey: MasterKey, location: SealedLocation, text: string): string {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, masterKey.keyFor(location.purpose), nonce).setAAD(toAad(location))
  const sealed = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
  return FORM + sealed.toString('base64url')
}

/** Opens the text that was sealed for this location. @throws SealBrokenError, which reveals nothing of the text */
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
