import { hash } from 'node:crypto'
import { logId } from './entry.ts'
import { compareKeys, isSignedBy, isSignerName, type PublishedKey } from './keys.ts'

/**
 * The head of a tree (C2SP tlog-checkpoint): its origin, its number of leaves, and its root in base64. `key` is set if
 * the signature was verified: the newest of the keys that signed the checkpoint.
 */
export type Checkpoint = { origin: string; size: number; root: string; key?: PublishedKey }

/** One signature line of a signed note. */
export type NoteSignature = { name: string; keyHash: Buffer; signature: Buffer }

/** The error for a text that is not a valid note, or that no known key has signed. The message states the cause. */
export class NoteError extends Error {
  override name = 'NoteError'
}

/**
 * Returns the origin of a chain's checkpoints. It never changes, and it does not reveal the tenant's name or the
 * chain's name.
 */
export const chainOrigin = (name: string, tenantId: string, chain: string): string =>
  `${name}/logs/${logId(tenantId, chain)}`

/** Returns the origin of the tree of one commit. */
export const commitOrigin = (name: string, commitId: string): string => `${name}/commits/${commitId}`

/** Returns the text that is signed for a checkpoint. It has three lines. */
export const checkpointText = ({ origin, size, root }: Checkpoint): string => `${origin}\n${size}\n${root}\n`

/** Returns a text followed by its Ed25519 signature (C2SP signed-note). The text ends with a newline. */
export function signedNote(text: string, name: string, publicKey: Buffer, signature: Buffer): string {
  const line = Buffer.concat([noteKeyHash(name, publicKey), signature]).toString('base64')
  return `${text}\n${SIGNATURE_MARK}${name} ${line}\n`
}

/**
 * Returns the key's hash in a signature line: the first four bytes of SHA-256 over name, newline, the type of the key
 * and the key.
 */
export function keyHashOf(name: string, publicKey: Buffer, type: number): Buffer {
  const bytes = Buffer.concat([Buffer.from(`${name}\n`), Buffer.from([type]), publicKey])
  return Buffer.from(hash('sha256', bytes, 'hex').slice(0, 2 * KEY_HASH_BYTES), 'hex')
}

/** Returns the hash of a key with which a log signs (type 1, Ed25519). */
export const noteKeyHash = (name: string, publicKey: Buffer): Buffer => keyHashOf(name, publicKey, 1)

/** The start of each signature line (C2SP signed-note). */
export const SIGNATURE_MARK = '— '
const KEY_HASH_BYTES = 4
/**
 * Maximum number of signatures per note, far above the number in real notes. The limit bounds the number of signature
 * checks.
 */
const MAX_SIGNATURES = 100

/**
 * Parses a note without checking its signatures. Throws NoteError if the text is not a signed note, or the note does
 * not contain a checkpoint.
 */
export function parseCheckpoint(note: string): { checkpoint: Checkpoint; text: string; signatures: NoteSignature[] } {
  const end = note.lastIndexOf('\n\n')
  if (end < 0 || !note.endsWith('\n')) throw new NoteError('it is not a signed note')
  const text = note.slice(0, end + 1)
  const lines = note.slice(end + 2, -1).split('\n')
  if (lines.length > MAX_SIGNATURES) throw new NoteError(`it has more than ${MAX_SIGNATURES} signatures`)
  return { checkpoint: parseText(text), text, signatures: lines.map(parseSignature) }
}

function parseText(text: string): Checkpoint {
  // Lines after the third are extensions. They are signed, but unused here.
  const [origin = '', sizeText = '', root = '', ...extensions] = text.slice(0, -1).split('\n')
  const size = Number(sizeText)
  if (origin === '' || extensions.includes('')) throw new NoteError('its text is not a checkpoint')
  if (!/^(0|[1-9]\d*)$/.test(sizeText) || !Number.isSafeInteger(size)) throw new NoteError('its size is not a number')
  if (decodeBase64(root)?.length !== 32) throw new NoteError('its root is not 32 bytes in base64')
  return { origin, size, root }
}

function parseSignature(line: string): NoteSignature {
  const [name, base64 = '', ...others] = line.slice(SIGNATURE_MARK.length).split(' ')
  const bytes = decodeBase64(base64)
  const isLine = line.startsWith(SIGNATURE_MARK) && others.length === 0 && isSignerName(name)
  if (!isLine || bytes === undefined || bytes.length <= KEY_HASH_BYTES)
    throw new NoteError('a signature line is broken')
  return { name, keyHash: bytes.subarray(0, KEY_HASH_BYTES), signature: bytes.subarray(KEY_HASH_BYTES) }
}

/** Decodes canonical base64 with padding. Returns undefined for any other text. */
export function decodeBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : undefined
}

/**
 * Parses signature lines without their text, such as the response of a witness. @throws NoteError
 */
export function parseSignatures(lines: string): NoteSignature[] {
  if (!lines.endsWith('\n')) throw new NoteError('a signature line has no newline')
  const list = lines.slice(0, -1).split('\n')
  if (list.length > MAX_SIGNATURES) throw new NoteError(`it has more than ${MAX_SIGNATURES} signatures`)
  return list.map(parseSignature)
}

/** Returns a note with further signature lines. Lines that the note already has are not repeated. */
export function withSignatures(note: string, lines: readonly string[]): string {
  let extended = note
  for (const line of lines) if (!extended.includes(`\n${line}`)) extended += line
  return extended
}

/**
 * Returns the checkpoint of a note that at least one of the keys has signed. Signatures of unknown keys are ignored, as
 * in C2SP signed-note. Throws NoteError if the signature of a known key is wrong, or if no known key has signed the
 * note.
 */
export const verifyNote = (note: string, keys: readonly PublishedKey[]): Checkpoint =>
  signedNoteOf(note, keys).checkpoint

/** Like `verifyNote`, but also returns the names of the keys that have signed the note, and the keys. */
export function signedNoteOf(
  note: string,
  keys: readonly PublishedKey[],
): { checkpoint: Checkpoint; signers: string[]; signedWith: PublishedKey[] } {
  const { checkpoint, text, signatures } = parseCheckpoint(note)
  const signers: PublishedKey[] = []
  for (const { name, keyHash, signature } of signatures) {
    const key = keys.find((known) => known.name === name && noteKeyHash(name, known.publicKey).equals(keyHash))
    if (key === undefined) continue
    if (!isSignedBy(key, text, signature)) throw new NoteError(`the signature of ${name} is wrong`)
    signers.push(key)
  }
  const key = signers.toSorted(compareKeys).at(-1)
  if (key === undefined) throw new NoteError('no trusted key has signed it')
  return {
    checkpoint: { ...checkpoint, key },
    signers: signers.map(({ name }) => name),
    signedWith: signers,
  }
}
