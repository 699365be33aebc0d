import { HASH_PATTERN } from './entry.ts'
import { isSignedBy, type PublishedKey } from './keys.ts'
import { leafHash, treeRoot } from './merkle.ts'
import { checkpointText, commitOrigin, decodeBase64 } from './note.ts'

/** The entries of one commit under one signature (docs/evidence.md, Commits). */
export type CommitRow = {
  id: string
  kid: string
  /** The name that signed, which is part of what is signed. */
  signer: string
  tree_size: number
  /** Hex. */
  root: string
  /** Entry hashes in hex, in the order of the tree; also those of others that were written at once. */
  leaves: readonly string[]
  /** Base64. */
  signature: string
}

/** What the signature of a commit covers. `root` is hex. */
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

/** What is wrong with a commit as a whole: its number of leaves, its root or its signature. Undefined for a good one. */
export function commitProblem(commit: CommitRow, keys: readonly PublishedKey[]): string | undefined {
  const { leaves, tree_size: size, root } = commit
  if (leaves.length !== size) return `names ${size} entries and holds ${leaves.length}`
  if (!leaves.every((leaf) => HASH_PATTERN.test(leaf))) return 'holds what is not a hash'
  if (treeRoot(leaves.map(leafHash)).toString('hex') !== root) return 'has another root than its entries'
  return signatureProblem(commit, keys)
}

/** What is wrong with the signature under a commit's root alone; undefined for a good one of a key that is trusted. */
export function signatureProblem(commit: Omit<CommitRow, 'leaves'>, keys: readonly PublishedKey[]): string | undefined {
  const { kid, signer } = commit
  const key = keys.find((known) => known.kid === kid)
  if (key === undefined) return `is signed with a key that is not trusted (${kid})`
  if (key.name !== signer) return `is signed as ${signer} with the key of ${key.name}`
  const signature = decodeBase64(commit.signature)
  return signature !== undefined && isSignedBy(key, commitText(commit), signature) ? undefined : 'has a wrong signature'
}
