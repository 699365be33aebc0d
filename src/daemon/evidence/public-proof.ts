import { commitProblem } from '../../shared/evidence/commit.ts'
import { logId } from '../../shared/evidence/entry.ts'
import type { PublishedKey } from '../../shared/evidence/keys.ts'
import { inclusionPath, leafHash } from '../../shared/evidence/merkle.ts'
import { commitOrigin } from '../../shared/evidence/note.ts'
import type { PublicProof } from '../../shared/wire/evidence.ts'
import type { Db } from '../db/database.ts'
import { proveInclusion } from './proofs.ts'
import { findCheckpointOver, findCommit, findPublicEntry, type StoredEntry } from './store.ts'

/**
 * What anybody may know of a request who knows its bundle id: hashes, places and times, and nothing of whose it is or what it
 * was about. Undefined when there is none of that id.
 * @param keys those that are published
 */
export async function findPublicProof(
  db: Db,
  keys: readonly PublishedKey[],
  bundleId: string,
): Promise<PublicProof | undefined> {
  // Ids of changes can be guessed, so these stay unknown here.
  const entry = bundleId.startsWith('jti-') ? await findPublicEntry(db, bundleId) : undefined
  if (!entry) return undefined
  const [layer2, layer3] = await Promise.all([inCommit(db, keys, entry), inLog(db, entry)])
  return {
    bundle_id: bundleId,
    layer1: {
      current_hash: entry.entry_hash,
      prev_hash: entry.prev_hash,
      payload_hash: entry.payload_hash,
      seq: entry.seq,
      recorded_at: entry.created_at,
      state: entry.payload === null ? 'expunged' : 'present',
    },
    layer2,
    layer3,
  }
}

/** Its place among what was written at once, under one signature. */
async function inCommit(
  db: Db,
  keys: readonly PublishedKey[],
  { commit_id, leaf_index, entry_hash }: StoredEntry,
): Promise<PublicProof['layer2']> {
  const commit = await findCommit(db, commit_id)
  if (!commit) throw new Error(`the commit ${commit_id} is not in the store`)
  const holds = commitProblem(commit, keys) === undefined && commit.leaves[leaf_index] === entry_hash
  const path = holds ? inclusionPath(commit.leaves.map(leafHash), leaf_index) : []
  return {
    leaf_hash: leafHash(entry_hash).toString('hex'),
    leaf_index,
    merkle_root: commit.root,
    tree_size: commit.tree_size,
    path: path.map(toHex),
    origin: commitOrigin(commit.signer, commit.id),
    signature: commit.signature,
    kid: commit.kid,
    signer: commit.signer,
    state: holds ? 'verified' : 'failed',
  }
}

/** Its place in its log as the first checkpoint has it that covers it. */
async function inLog(db: Db, { tenant_id, chain, seq, entry_hash }: StoredEntry): Promise<PublicProof['layer3']> {
  const checkpoint = await findCheckpointOver(db, tenant_id, chain, seq)
  if (!checkpoint) return PENDING
  const { tree_size, root, note, created_at } = checkpoint
  const path = await proveInclusion(db, tenant_id, chain, seq, tree_size)
  return {
    log_index: seq,
    uuid: logId(tenant_id, chain) + leafHash(entry_hash).toString('hex'),
    integrated_time: created_at,
    tree_size,
    root,
    path: path.map(toHex),
    note,
    state: 'anchored',
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

const toHex = (hash: Buffer): string => hash.toString('hex')
