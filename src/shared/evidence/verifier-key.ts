import { isStrongPoint } from './keys.ts'
import { decodeBase64, keyHashOf } from './note.ts'

/** The type byte of a key in signed notes: a log signs with Ed25519, a witness cosigns with timestamps. */
export const KEY_TYPE = { log: 1, witness: 4 } as const

/** A public key in the notation of verifiers (C2SP signed-note): `<name>+<key hash>+<base64 of type and key>`. */
export type VerifierKey = { name: string; keyHash: Buffer; type: number; publicKey: Buffer }

/** The error for a text that is not a verifier key. */
export class VerifierKeyError extends Error {
  override name = 'VerifierKeyError'
}

/** Returns the verifier key of an Ed25519 key. */
export const toVerifierKey = (name: string, publicKey: Buffer, type: number = KEY_TYPE.log): string =>
  `${name}+${keyHashOf(name, publicKey, type).toString('hex')}+${Buffer.concat([Buffer.from([type]), publicKey]).toString('base64')}`

/**
 * Parses the verifier key of a witness: type 4, Ed25519 with timestamps (C2SP tlog-cosignature).
 * @throws VerifierKeyError
 */
export function parseWitnessKey(text: string): VerifierKey {
  // The base64 may also contain a plus.
  const [, name = '', hash = '', base64 = ''] = /^([^+\s\p{Cc}]{1,256})\+([0-9a-f]{8})\+(\S{1,2048})$/u.exec(text) ?? []
  if (name === '') throw new VerifierKeyError('must be <name>+<hash>+<key>, as the witness publishes it')
  const bytes = decodeBase64(base64)
  const [type = 0] = bytes ?? []
  if (bytes === undefined || type !== KEY_TYPE.witness || bytes.length !== 33) {
    throw new VerifierKeyError('must be the key of a witness: Ed25519 cosignatures (type 4)')
  }
  const publicKey = bytes.subarray(1)
  if (!isStrongPoint(publicKey)) throw new VerifierKeyError('is not a canonical point of large order')
  const keyHash = keyHashOf(name, publicKey, type)
  if (keyHash.toString('hex') !== hash) throw new VerifierKeyError('has a hash that does not match its name and key')
  return { name, keyHash, type, publicKey }
}
