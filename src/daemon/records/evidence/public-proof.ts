import { commitProblem } from '../../../shared/evidence/commit.ts'
import { entryHash, HASH_PATTERN, logId, payloadHash } from '../../../shared/evidence/entry.ts'
import type { PublishedKey } from '../../../shared/evidence/keys.ts'
import { inclusionPath, rootOfInclusion } from '../../../shared/evidence/merkle.ts'
import { commitOrigin, NoteError, verifyNote } from '../../../shared/evidence/note.ts'
import type { PublicProof } from '../../../shared/wire/evidence.ts'
import type { Db } from '../../platform/db/db.ts'
import type { EvidenceCheckpointRow } from '../../platform/db/tables.ts'
import { withCosignatures } from './cosignatures.ts'
import { proveInclusion } from './proofs.ts'
import { findCheckpointOver, findCommit, findPublicEntry, type StoredEntry } from './store.ts'

/**
 * Returns the public proof of a request, for anyone who has its bundle id. The proof contains hashes, positions and
 * times, but neither the tenant nor any content. Returns undefined if the id is unknown. Stored data is verified before
 * a layer is reported as valid. Each layer depends on the previous layer: if one layer fails, all later layers fail.
 * @param keys the published keys
 */
export async function findPublicProof(
  db: Db,
  keys: readonly PublishedKey[],
  bundleId: string,
): Promise<PublicProof | undefined> {
  // Ids of changes can be guessed, so changes are not served here.
  const entry = bundleId.startsWith('jti-') ? await findPublicEntry(db, bundleId) : undefined
  if (!entry) return undefined
  const isWhole = isAsHashed(entry)
  const layer2 = await inCommit(db, keys, entry, isWhole)
  return {
    bundle_id: bundleId,
    layer1: {
      current_hash: hashOrNull(entry.entry_hash),
      // `entry.prev_hash` is empty if the previous entry is missing.
      prev_hash: hashOrNull(entry.prev_hash),
      payload_hash: hashOrNull(entry.payload_hash),
      seq: entry.seq,
      recorded_at: entry.created_at,
      state: isWhole ? (entry.payload === null ? 'expunged' : 'present') : 'failed',
    },
    layer2,
    layer3: await inLog(db, keys, entry, layer2.state === 'verified'),
  }
}

/** Whether the hashes of an entry match its content. */
function isAsHashed(entry: StoredEntry): boolean {
  const { payload, payload_hash, prev_hash, entry_hash } = entry
  if (payload !== null && payloadHash(payload) !== payload_hash) return false
  return entryHash(entry, prev_hash, payload_hash) === entry_hash
}

/** The second layer: the position of the entry in its commit. All entries of a commit share one signature. */
async function inCommit(
  db: Db,
  keys: readonly PublishedKey[],
  { commit_id, leaf_index, entry_hash }: StoredEntry,
  isWhole: boolean,
): Promise<PublicProof['layer2']> {
  const commit = await findCommit(db, commit_id)
  const holds = commit && commitProblem(commit, keys) === undefined && commit.leaves[leaf_index] === entry_hash
  const path = holds ? inclusionPath(commit.leaves.map(toBytes), leaf_index) : []
  return {
    leaf_hash: hashOrNull(entry_hash),
    leaf_index,
    merkle_root: commit?.root ?? null,
    tree_size: commit?.tree_size ?? null,
    path: path.map(toHex),
    origin: commit ? commitOrigin(commit.signer, commit.id) : null,
    signature: commit?.signature ?? null,
    kid: commit?.kid ?? null,
    signer: commit?.signer ?? null,
    state: holds && isWhole ? 'verified' : 'failed',
  }
}

/** The third layer: the position of the entry in its log, proven by the first checkpoint that covers the entry. */
async function inLog(
  db: Db,
  keys: readonly PublishedKey[],
  entry: StoredEntry,
  isVerified: boolean,
): Promise<PublicProof['layer3']> {
  const { tenant_id, chain, seq, entry_hash } = entry
  const checkpoint = await findCheckpointOver(db, tenant_id, chain, seq)
  if (!checkpoint) return isVerified ? PENDING : { ...PENDING, state: 'failed' }
  const { tree_size, root, created_at } = checkpoint
  const [{ note } = checkpoint] = await withCosignatures(db, tenant_id, [checkpoint])
  const path = isVerified && isSigned(checkpoint, keys) ? await pathTo(db, entry, checkpoint) : undefined
  return {
    log_index: seq,
    uuid: isVerified ? logId(tenant_id, chain) + entry_hash : null,
    integrated_time: created_at,
    tree_size,
    root,
    path: (path ?? []).map(toHex),
    note,
    state: path === undefined ? 'failed' : 'anchored',
  }
}

/** Whether the note of a checkpoint is correctly signed, belongs to its chain, and matches its row. */
function isSigned({ tenant_id, chain, tree_size, root, note }: EvidenceCheckpointRow, keys: readonly PublishedKey[]) {
  try {
    const signed = verifyNote(note, keys)
    return (
      signed.origin.endsWith(`/logs/${logId(tenant_id, chain)}`) &&
      signed.size === tree_size &&
      signed.root === Buffer.from(root, 'hex').toString('base64')
    )
  } catch (error) {
    if (error instanceof NoteError) return false
    throw error
  }
}

/**
 * Returns the path from an entry to the root of a checkpoint. Returns undefined if the stored tree is incomplete or has
 * another root.
 */
async function pathTo(
  db: Db,
  { tenant_id, chain, seq, entry_hash }: StoredEntry,
  { tree_size, root }: EvidenceCheckpointRow,
): Promise<Buffer[] | undefined> {
  try {
    const path = await proveInclusion(db, tenant_id, chain, seq, tree_size)
    return rootOfInclusion(toBytes(entry_hash), seq, tree_size, path)?.toString('hex') === root ? path : undefined
  } catch (error) {
    // A RangeError means that the store lacks entries that the checkpoint covers.
    if (error instanceof RangeError) return undefined
    throw error
  }
}

const PENDING: PublicProof['layer3'] = {
  log_index: null,
  uuid: null,
  integrated_time: null,
  tree_size: null,
  root: null,
  path: [],
  note: null,
  state: 'pending',
}

/** Returns null for a stored value that is not a hash, so that only hashes are shown. */
const hashOrNull = (stored: string): string | null => (HASH_PATTERN.test(stored) ? stored : null)

const toBytes = (hash: string): Buffer => Buffer.from(hash, 'hex')
const toHex = (hash: Buffer): string => hash.toString('hex')
