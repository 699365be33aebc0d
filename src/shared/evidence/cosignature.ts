import { isSignedBy, type KeyWindow } from './keys.ts'
import { type NoteSignature, SIGNATURE_MARK } from './note.ts'
import type { VerifierKey } from './verifier-key.ts'

/** A key whose cosignatures are trusted, and the times at which it may cosign. */
export type WitnessKey = VerifierKey & { window: KeyWindow }

/** The window of a key without limits. */
export const ALWAYS: KeyWindow = { fromMs: Number.NEGATIVE_INFINITY, untilMs: Number.POSITIVE_INFINITY }

const TIMESTAMP_BYTES = 8
/** The length of a cosignature: a timestamp and an Ed25519 signature. */
const COSIGNATURE_BYTES = TIMESTAMP_BYTES + 64

/** Returns the text that a witness signs (C2SP tlog-cosignature): the time, and the text of the checkpoint. */
export const cosignatureText = (timeSeconds: number, checkpointText: string): string =>
  `cosignature/v1\ntime ${timeSeconds}\n${checkpointText}`

/** Returns the signature line of a cosignature, with a newline. */
export function cosignatureLine({ name, keyHash }: VerifierKey, timeSeconds: number, signature: Buffer): string {
  const time = Buffer.alloc(TIMESTAMP_BYTES)
  time.writeBigUInt64BE(BigInt(timeSeconds))
  return `${SIGNATURE_MARK}${name} ${Buffer.concat([keyHash, time, signature]).toString('base64')}\n`
}

/** Whether a signature line names this key. */
export const isOfKey = ({ name, keyHash }: NoteSignature, key: Pick<VerifierKey, 'name' | 'keyHash'>): boolean =>
  name === key.name && keyHash.equals(key.keyHash)

/**
 * Returns the time of a cosignature in milliseconds since 1970. Returns undefined unless the key has signed this text.
 */
export function cosignedAtMs({ signature }: NoteSignature, text: string, key: VerifierKey): number | undefined {
  if (signature.length !== COSIGNATURE_BYTES) return undefined
  const timeSeconds = Number(signature.readBigUInt64BE())
  if (!Number.isSafeInteger(timeSeconds * 1000)) return undefined
  const isSigned = isSignedBy(key, cosignatureText(timeSeconds, text), signature.subarray(TIMESTAMP_BYTES))
  return isSigned ? timeSeconds * 1000 : undefined
}
