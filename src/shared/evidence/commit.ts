import { HASH_PATTERN } from './entry.ts'
import { checkSignature, isSignedBy, type PublishedKey } from './keys.ts'
import { treeRoot } from './merkle.ts'
import { checkpointText, commitOrigin, decodeBase64 } from './note.ts'

/** The entries of one commit under one signature (docs/evidence.md, Commits). */
export type CommitRow = {
  id: string
  kid: string
  /** The name of the signer. The signature also covers this name. */
  signer: string
  tree_size: number
  /** Hex. */
  root: string
  /**
   * The hex hashes of all entries in the commit, in the order of the tree. The entries may belong to different chains.
   */
  leaves: readonly string[]
  /** Base64. */
  signature: string
}

/** Returns the text that the signature of a commit covers. `root` is hex. */
export const commitText = ({
  signer,
  id,
  tree_size,
  root,
}: Pick<CommitRow, 'signer' | 'id' | 'tree_size' | 'root'>): string =>
  checkpointText({
    origin: commitOrigin(signer, id),
    size: tree_size,
    root: Buffer.from(root, 'hex').toString('base64'),
  })

/** Computes the root over entries, in hex. `leaves` contains the concatenated hex hashes of the entries. */
export const rootOfEntries = (leaves: string): string => treeRoot(Buffer.from(leaves, 'hex')).toString('hex')

/**
 * Returns the first fault of a commit: a wrong number of leaves, a wrong root or a wrong signature. Returns undefined
 * if the commit is valid.
 */
export const commitProblem = (commit: CommitRow, keys: readonly PublishedKey[]): string | undefined =>
  treeProblem(commit) ?? signatureProblem(commit, keys)

/** Like `commitProblem`, but does not check the signature. */
export function treeProblem({ leaves, tree_size: size, root }: CommitRow): string | undefined {
  if (leaves.length !== size) return `names ${size} entries but contains ${leaves.length}`
  if (!leaves.every((leaf) => HASH_PATTERN.test(leaf))) return 'contains an invalid hash'
  return rootOfEntries(leaves.join('')) === root ? undefined : 'has a root that does not match its entries'
}

type Signed = Omit<CommitRow, 'leaves'>

/**
 * Checks only the signature of a commit's root. Returns the fault, or undefined if a trusted key has signed the root.
 */
export function signatureProblem(commit: Signed, keys: readonly PublishedKey[]): string | undefined {
  const found = findSigner(commit, keys)
  if (typeof found === 'string') return found
  return isSignedBy(found.key, commitText(commit), found.signature) ? undefined : WRONG_SIGNATURE
}

/** The asynchronous variant of `signatureProblem`. It checks the signature on libuv's thread pool. */
export function checkCommitSignature(
  commit: Signed,
  keys: readonly PublishedKey[],
  done: (problem: string | undefined) => void,
): void {
  const found = findSigner(commit, keys)
  if (typeof found === 'string') done(found)
  else {
    checkSignature(found.key, commitText(commit), found.signature, (holds) => done(holds ? undefined : WRONG_SIGNATURE))
  }
}

const WRONG_SIGNATURE = 'has a wrong signature'

/**
 * Finds the key that a commit names, and decodes the signature. If either is invalid, returns a text that describes the
 * fault.
 */
function findSigner(
  { kid, signer, signature }: Signed,
  keys: readonly PublishedKey[],
): { key: PublishedKey; signature: Buffer } | string {
  const key = keys.find((known) => known.kid === kid)
  if (key === undefined) return `is signed with a key that is not trusted (${kid})`
  if (key.name !== signer) return `is signed as ${signer} with the key of ${key.name}`
  const bytes = decodeBase64(signature)
  return bytes === undefined ? WRONG_SIGNATURE : { key, signature: bytes }
}
