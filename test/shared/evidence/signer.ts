import { createPrivateKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { type CommitRow, commitText, rootOfEntries } from '../../../src/shared/evidence/commit.ts'
import { keyIdOf, type PublishedKey } from '../../../src/shared/evidence/keys.ts'
import { checkpointText, signedNote } from '../../../src/shared/evidence/note.ts'

/** A signing key and its published public half. */
export type TestSigner = { published: PublishedKey; sign(text: string): Buffer }

/** A signer with a new key, or with the key of a seed (32 bytes, hex). */
export function testSigner(name: string, seed?: string): TestSigner {
  const privateKey = seed === undefined ? generateKeyPairSync('ed25519').privateKey : toPrivateKey(seed)
  const publicKey = rawPublicKey(privateKey)
  const published = { kid: keyIdOf(publicKey), name, publicKey, createdAt: '2026-01-01T00:00:00.000Z', retiredAt: null }
  return { published, sign: (text) => sign(null, Buffer.from(text), privateKey) }
}

// The PKCS #8 form of an Ed25519 key is this prefix and the seed (RFC 8410).
const toPrivateKey = (seed: string): KeyObject =>
  createPrivateKey({
    key: Buffer.from(`302e020100300506032b657004220420${seed}`, 'hex'),
    format: 'der',
    type: 'pkcs8',
  })

const rawPublicKey = (privateKey: KeyObject): Buffer =>
  Buffer.from(privateKey.export({ format: 'jwk' }).x ?? '', 'base64url')

/** Another base64 text that a lenient decoder reads as the same bytes; for texts that end with padding. */
export const sameBase64 = (text: string): string =>
  text.replace(/.(?==+\n?$)/, (last) => String.fromCharCode(last.charCodeAt(0) + 1))

/** Entry hashes under one signature. */
export function testCommit(id: string, leaves: readonly string[], { published, sign }: TestSigner): CommitRow {
  const root = rootOfEntries(leaves.join(''))
  const commit = { id, kid: published.kid, signer: published.name, tree_size: leaves.length, root }
  return { ...commit, leaves, signature: sign(commitText(commit)).toString('base64') }
}

/** A tree head as a signed note. `root` is in base64. */
export function testNote(origin: string, size: number, root: string, { published, sign }: TestSigner): string {
  const text = checkpointText({ origin, size, root })
  return signedNote(text, published.name, published.publicKey, sign(text))
}
