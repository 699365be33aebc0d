import { hash } from 'node:crypto'

/** The value of `prevHash` for a chain's first entry. */
export const GENESIS_HASH = '0'.repeat(64)

/** SHA-256 in lower-case hex. */
export const HASH_PATTERN = /^[0-9a-f]{64}$/
export const isHash = (value: unknown): value is string => typeof value === 'string' && HASH_PATTERN.test(value)
/** Whether the value can be a number of entries, or a position in a tree. */
export const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0

/** The chain of administrative changes. The chains of requests are named `requests-…`. */
export const CHANGES_CHAIN = 'changes'
/** Whether a chain contains administrative changes. After a loss of history, `changes-<4 hex>` continues `changes`. */
export const isChangesChain = (chain: string): boolean => chain === CHANGES_CHAIN || chain.startsWith('changes-')

/** An entry without its payload (docs/evidence.md, Entries). `seq` counts from 0 in its chain. */
export type EntryFields = {
  tenant_id: string
  chain: string
  seq: number
  id: string
  /** ISO 8601 with milliseconds and `Z`. */
  created_at: string
}

/**
 * Joins texts with length prefixes, so that two different lists never give the same bytes. Lengths are in UTF-8 bytes.
 */
export function netstrings(texts: readonly string[]): string {
  let all = ''
  for (const text of texts) all += `${text.length}:${text},`
  // In the usual case, all texts are ASCII, so their lengths in bytes and in characters are equal.
  if (Buffer.byteLength(all) === all.length) return all
  return texts.map((text) => `${Buffer.byteLength(text)}:${text},`).join('')
}

/** Returns the SHA-256 of a payload, in hex. The payload must be canonical JSON (RFC 8785). */
export const payloadHash = (canonicalJson: string): string => hash('sha256', canonicalJson, 'hex')

/** Returns the leaf hash (RFC 6962, section 2.1) over the netstrings of the texts, in hex. */
export const leafHash = (texts: readonly string[]): string => hash('sha256', `\0${netstrings(texts)}`, 'hex')

/**
 * Returns the hash of an entry, in hex. It links the entry to the previous entry, and is the entry's leaf in every
 * tree. `prevHash` is GENESIS_HASH for the first entry.
 */
export function entryHash(fields: EntryFields, prevHash: string, payloadHash: string): string {
  const { tenant_id, chain, seq, id, created_at } = fields
  return leafHash(['aigw-entry-v1', tenant_id, chain, String(seq), id, created_at, prevHash, payloadHash])
}

/**
 * Returns the public id of a chain in checkpoints: 32 hex characters. Anyone who knows the tenant and the chain can
 * compute it.
 */
export const logId = (tenantId: string, chain: string): string =>
  hash('sha256', netstrings([tenantId, chain]), 'hex').slice(0, 32)
