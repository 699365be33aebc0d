import { toCanonicalJson } from '../canonical-json.ts'
import { type CommitRow, signatureProblem } from './commit.ts'
import { type EntryFields, entryHash, isCount, isHash, payloadHash } from './entry.ts'
import { hasOnly, isObject, type PublishedKey, validityProblem } from './keys.ts'
import { inclusionPath, rootOfInclusion } from './merkle.ts'
import { commitOrigin } from './note.ts'

/** An entry with its hashes and its position in the tree of its commit. */
export type HashedEntry = EntryFields & {
  prev_hash: string
  payload_hash: string
  entry_hash: string
  leaf_index: number
}

/** The members that a receipt adds to the payload of its entry. */
const EVIDENCE = ['entry', 'proof', 'alg', 'kid', 'signer', 'signature'] as const
const ENTRY = ['tenant_id', 'chain', 'seq', 'id', 'created_at', 'prev_hash', 'payload_hash', 'entry_hash'] as const
const PROOF = ['origin', 'tree_size', 'leaf_index', 'path', 'root'] as const

/**
 * Returns the receipt of an entry (docs/evidence.md, Receipts): the entry's payload, and a proof that anyone can verify
 * with the public keys. Throws TypeError if the payload already contains a member of EVIDENCE, and RangeError if the
 * leaf is outside the commit.
 */
export function toReceipt(payload: object, entry: HashedEntry, commit: CommitRow): object {
  const taken = EVIDENCE.find((name) => Object.hasOwn(payload, name))
  if (taken !== undefined) throw new TypeError(`a payload must not have a member ${taken}`)
  const { tenant_id, chain, seq, id, created_at, prev_hash, payload_hash, entry_hash, leaf_index } = entry
  const path = inclusionPath(commit.leaves.map(toBytes), leaf_index)
  return {
    ...payload,
    entry: { tenant_id, chain, seq, id, created_at, prev_hash, payload_hash, entry_hash },
    proof: {
      origin: commitOrigin(commit.signer, commit.id),
      tree_size: commit.tree_size,
      leaf_index,
      path: path.map((node) => node.toString('hex')),
      root: commit.root,
    },
    alg: 'Ed25519',
    kid: commit.kid,
    signer: commit.signer,
    signature: commit.signature,
  }
}

/**
 * Verifies that one of the keys has signed this receipt. If the receipt is invalid, returns the first fault. Never
 * throws.
 */
export function verifyReceipt(
  receipt: unknown,
  keys: readonly PublishedKey[],
): { ok: true } | { ok: false; problem: string } {
  const problem = receiptProblem(receipt, keys)
  return problem === undefined ? { ok: true } : { ok: false, problem }
}

function receiptProblem(receipt: unknown, keys: readonly PublishedKey[]): string | undefined {
  if (!isObject(receipt)) return 'it is not a receipt'
  const { entry, proof, alg, kid, signer, signature, ...payload } = receipt
  if (!isEntry(entry)) return 'its entry is not complete'
  if (!isProof(proof)) return 'its proof is not complete'
  if (typeof kid !== 'string' || typeof signer !== 'string' || typeof signature !== 'string') return 'it is not signed'
  if (alg !== 'Ed25519') return 'its algorithm is not Ed25519'
  const canonical = canonicalOf(payload)
  // Rejects lone surrogates, because the texts are hashed as UTF-8, which cannot encode them.
  if (canonical === undefined || canonicalOf(entry) === undefined) return 'it has no canonical JSON'
  if (payloadHash(canonical) !== entry.payload_hash) return 'its contents do not match its payload_hash'
  if (entryHash(entry, entry.prev_hash, entry.payload_hash) !== entry.entry_hash) return 'its entry_hash is wrong'
  const path = proof.path.map(toBytes)
  const root = rootOfInclusion(toBytes(entry.entry_hash), proof.leaf_index, proof.tree_size, path)
  if (root?.toString('hex') !== proof.root) return 'its path does not lead to the root'
  const id = proof.origin.slice(commitOrigin(signer, '').length)
  if (id === '' || proof.origin !== commitOrigin(signer, id)) return 'its origin is not a commit of the signer'
  const wrong = signatureProblem({ id, kid, signer, tree_size: proof.tree_size, root: proof.root, signature }, keys)
  const fault = wrong ?? validityProblem(kid, keys, entry.created_at)
  return fault === undefined ? undefined : `it ${fault}`
}

const toBytes = (hash: string): Buffer => Buffer.from(hash, 'hex')

function canonicalOf(value: object): string | undefined {
  try {
    return toCanonicalJson(value)
  } catch {
    return undefined
  }
}

type ReceiptEntry = Omit<HashedEntry, 'leaf_index'>
type ReceiptProof = { origin: string; tree_size: number; leaf_index: number; path: string[]; root: string }

const isEntry = (value: unknown): value is ReceiptEntry =>
  hasOnly(value, ENTRY) &&
  isCount(value.seq) &&
  [value.tenant_id, value.chain, value.id, value.created_at].every((text) => typeof text === 'string') &&
  [value.prev_hash, value.payload_hash, value.entry_hash].every(isHash)

const isProof = (value: unknown): value is ReceiptProof =>
  hasOnly(value, PROOF) &&
  typeof value.origin === 'string' &&
  isCount(value.tree_size) &&
  isCount(value.leaf_index) &&
  isHash(value.root) &&
  Array.isArray(value.path) &&
  value.path.every(isHash)
