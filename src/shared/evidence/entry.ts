import { hash } from 'node:crypto'

/** What stands before the first entry of a chain, in place of a hash. */
export const GENESIS_HASH = '0'.repeat(64)

/** SHA-256 as it is written, in lower case. */
export const HASH_PATTERN = /^[0-9a-f]{64}$/

/** The chain of administrative changes; those of requests are called `requests-…`. */
export const CHANGES_CHAIN = 'changes'

/** What an entry is beside its payload (docs/evidence.md, Entries). `seq` counts from 0 in its chain. */
export type EntryFields = {
  tenant_id: string
  chain: string
  seq: number
  id: string
  /** ISO 8601 with milliseconds and `Z`. */
  created_at: string
}

/** Texts with their lengths before them, so that no two lists of texts give the same bytes. Lengths are of UTF-8. */
export function netstrings(texts: readonly string[]): string {
  let all = ''
  for (const text of texts) all += `${text.length}:${text},`
  // Nearly always ASCII, and one look at all of it tells so.
  if (Buffer.byteLength(all) === all.length) return all
  return texts.map((text) => `${Buffer.byteLength(text)}:${text},`).join('')
}

/** SHA-256 of a payload, hex. The payload is canonical JSON already (RFC 8785). */
export const payloadHash = (canonicalJson: string): string => hash('sha256', canonicalJson, 'hex')

/** What stands for texts in a tree: the hash of a leaf (RFC 6962, section 2.1) that holds their netstrings, hex. */
export const leafHash = (texts: readonly string[]): string => hash('sha256', `\0${netstrings(texts)}`, 'hex')

/**
 * The hash that chains an entry to the one before it and is its leaf in every tree, hex. `prevHash` is GENESIS_HASH for the
 * first one.
 */
export function entryHash(fields: EntryFields, prevHash: string, payloadHash: string): string {
  const { tenant_id, chain, seq, id, created_at } = fields
  return leafHash(['aigw-entry-v1', tenant_id, chain, String(seq), id, created_at, prevHash, payloadHash])
}

/** What a published checkpoint calls a chain, 32 hex. Whoever guesses tenant and chain can tell that it is theirs. */
export const logId = (tenantId: string, chain: string): string =>
  hash('sha256', netstrings([tenantId, chain]), 'hex').slice(0, 32)
