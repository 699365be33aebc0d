/** Validates the form of evidence. */
import type { ChainRow } from '../../shared/evidence/chain-check.ts'
import type { CommitRow } from '../../shared/evidence/commit.ts'
import { isCount, isHash } from '../../shared/evidence/entry.ts'
import { isObject } from '../../shared/evidence/keys.ts'
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

export const isCommit = (json: unknown): json is CommitRow =>
  isObject(json) &&
  [json.id, json.kid, json.signer, json.signature].every(isText) &&
  isCount(json.tree_size) &&
  isHash(json.root) &&
  Array.isArray(json.leaves) &&
  json.leaves.every(isHash)

export const isCheckpointNote = (json: unknown): json is CheckpointNote =>
  isObject(json) && isText(json.chain) && isCount(json.tree_size) && isText(json.note)
