/** Validates the form of evidence. */
import type { ChainRow } from '../../shared/evidence/chain-check.ts'
import type { CommitRow } from '../../shared/evidence/commit.ts'
import { isCount, isHash } from '../../shared/evidence/entry.ts'
import { hasOnly, isObject } from '../../shared/evidence/keys.ts'
import type { ChainHead, CheckpointNote } from './chains.ts'

// Rows from the gateway or from an export may be forged, so these functions validate their form.

export type RowOfChain = Omit<ChainRow, 'tenant_id' | 'chain'>

/** Parses a JSON text. Returns undefined for invalid JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const isText = (value: unknown): value is string => typeof value === 'string'

export const isChainHead = (json: unknown): json is ChainHead =>
  isObject(json) && isText(json.chain) && isCount(json.size) && isText(json.head)

export const isRowOfChain = (json: unknown): json is RowOfChain =>
  isObject(json) &&
  isCount(json.seq) &&
  isCount(json.leaf_index) &&
  (json.payload === null || isText(json.payload)) &&
  [json.id, json.created_at, json.payload_hash, json.entry_hash, json.commit_id].every(isText)

/** Removes members that the hash does not cover, because an export must not contain unverified data. */
export const toChainRow = (tenant_id: string, chain: string, row: RowOfChain): ChainRow => {
  const { seq, id, created_at, payload, payload_hash, entry_hash, commit_id, leaf_index } = row
  return { tenant_id, chain, seq, id, created_at, payload, payload_hash, entry_hash, commit_id, leaf_index }
}

/** Whether the value is an entry of an export. An entry has exactly the members of `toChainRow`. */
export const isChainRow = (json: unknown): json is ChainRow =>
  isObject(json) &&
  isText(json.tenant_id) &&
  isText(json.chain) &&
  isRowOfChain(json) &&
  Object.keys(json).length === ROW_MEMBERS
const ROW_MEMBERS = 10

const COMMIT = new Set(['id', 'created_at', 'kid', 'signer', 'tree_size', 'root', 'leaves', 'signature'])

/** Removes members that belong to no export. */
export const toCommitOfExport = (commit: CommitRow): object =>
  Object.fromEntries(Object.entries(commit).filter(([name]) => COMMIT.has(name)))

/** Whether the value is a commit of an export, without further members. */
export const isCommitOfExport = (json: unknown): json is CommitRow =>
  isCommit(json) && Object.keys(json).every((name) => COMMIT.has(name))

/** Whether the value is a checkpoint of an export, without further members. */
export const isCheckpointOfExport = (json: unknown): json is CheckpointNote =>
  hasOnly(json, ['chain', 'tree_size', 'note']) && isCheckpointNote(json)

/**
 * Whether all texts in a value are valid Unicode. A lone surrogate has the same hash as U+FFFD, so it could replace that
 * character unnoticed.
 */
export const isWellFormed = (json: unknown): boolean =>
  typeof json === 'string'
    ? json.isWellFormed()
    : typeof json !== 'object' || json === null || Object.values(json).every(isWellFormed)

export const isCommit = (json: unknown): json is CommitRow =>
  isObject(json) &&
  [json.id, json.kid, json.signer, json.signature].every(isText) &&
  isCount(json.tree_size) &&
  isHash(json.root) &&
  Array.isArray(json.leaves) &&
  json.leaves.every(isHash)

export const isCheckpointNote = (json: unknown): json is CheckpointNote =>
  isObject(json) && isText(json.chain) && isCount(json.tree_size) && isText(json.note)
