// Encrypts and decrypts backups in the format of age (age-encryption.org/v1).
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { BackupError, messageOf } from './backup-error.ts'

/** Who can decrypt a backup. `none`: everyone who can read the file. */
export type Encryption =
  | { kind: 'recipients'; recipients: readonly string[] }
  | { kind: 'passphrase'; passphrase: string }
  | { kind: 'none' }

/** The secrets that may decrypt a backup. */
export type Decryption = { passphrase?: string | undefined; identities?: readonly string[] }

/** The first bytes of an encrypted file. */
export const AGE_MAGIC = 'age-encryption.org/'

/** A stream of the library. Its type belongs to the browser, and is the same object in Node. */
type AgeStream = Parameters<InstanceType<typeof import('age-encryption').Encrypter>['encrypt']>[0]

const toAge = (source: Readable): AgeStream => Readable.toWeb(source) as unknown as AgeStream
const fromAge = (stream: unknown): Readable => Readable.fromWeb(stream as ReadableStream)

/** Returns the encrypted bytes of a stream. @throws BackupError if a recipient is invalid */
export async function encrypt(plain: Readable, encryption: Encryption): Promise<Readable> {
  if (encryption.kind === 'none') return plain
  // Imported here, because a daemon that makes no backup does not need the library.
  const { Encrypter } = await import('age-encryption')
  const encrypter = new Encrypter()
  if (encryption.kind === 'passphrase') encrypter.setPassphrase(encryption.passphrase)
  else for (const recipient of encryption.recipients) addRecipient(encrypter, recipient)
  return fromAge(await encrypter.encrypt(toAge(plain) as never))
}

function addRecipient(encrypter: { addRecipient(recipient: string): void }, recipient: string): void {
  try {
    encrypter.addRecipient(recipient)
  } catch (cause) {
    throw new BackupError(
      `"${recipient}" is not a recipient of age. A recipient begins with age1; age-keygen prints one.`,
      { cause },
    )
  }
}

/**
 * Returns the decrypted bytes of a stream. The stream ends with an error if a byte was changed or is missing.
 * @throws BackupError if no secret decrypts the stream
 */
export async function decrypt(encrypted: Readable, { passphrase, identities = [] }: Decryption): Promise<Readable> {
  if (passphrase === undefined && identities.length === 0)
    throw new BackupError(
      'The backup is encrypted. Set AIGW_BACKUP_PASSPHRASE, or pass --passphrase-file FILE or --identity FILE.',
    )
  const { Decrypter } = await import('age-encryption')
  const decrypter = new Decrypter()
  if (passphrase !== undefined) decrypter.addPassphrase(passphrase)
  for (const identity of identities) addIdentity(decrypter, identity)
  try {
    return fromAge(await decrypter.decrypt(toAge(encrypted) as never))
  } catch (cause) {
    throw new BackupError(
      `The backup cannot be decrypted: ${messageOf(cause)}. Check the passphrase or the identity; the file may also be damaged.`,
      { cause },
    )
  }
}

function addIdentity(decrypter: { addIdentity(identity: string): void }, identity: string): void {
  try {
    decrypter.addIdentity(identity)
  } catch (cause) {
    // The message must not contain the identity, because it is secret.
    throw new BackupError('An identity is invalid. An identity of age begins with AGE-SECRET-KEY-1.', { cause })
  }
}
