import { createHash, type Hash } from 'node:crypto'
import { toCanonicalJson } from '../canonical-json.ts'
import { isCount, isHash } from './entry.ts'
import { hasOnly } from './keys.ts'

/** The gateway's own counts of a chain in its store, at the time when it signed an export. */
export type StatedChain = {
  chain: string
  /** The number of entries in the store. Entries from `size` on were written while the export ran. */
  entries: number
  /** The number of entries in the export. */
  size: number
  /** The number of entries in the export whose payload the store no longer has, and the digest of their positions. */
  expunged: number
  expunged_sha256: string
  /** The number of checkpoints that cover fewer entries than the export, and their digest. */
  checkpoints: number
  checkpoints_sha256: string
}

/** A log of the tenant that has lost history. The export does not contain its whole history. */
export type StatedLoss = {
  chain: string
  /** For example `entries_missing` (docs/evidence.md, Lost history). */
  cause: string
  found_at: string
  /** Null if no operator has acknowledged the loss yet. */
  acknowledged_at: string | null
  /** The log that continues this log. Null if it is not closed. */
  successor: string | null
}

/**
 * What a gateway states about an export. The signature of the export covers this statement (docs/evidence.md, Exports).
 */
export type ExportStatement = {
  version: 1
  /** The time of the gateway. */
  signed_at: string
  tenant_id: string
  manifest_sha256: string
  /** All chains of the tenant, sorted by name. */
  chains: StatedChain[]
  /** Only present if logs of the tenant have lost history. */
  losses?: StatedLoss[]
}

export const statementText = (statement: ExportStatement): string => toCanonicalJson(statement)

const STATEMENT = ['version', 'signed_at', 'tenant_id', 'manifest_sha256', 'chains']
const COUNTS = ['entries', 'size', 'expunged', 'checkpoints']
const DIGESTS = ['expunged_sha256', 'checkpoints_sha256']

export const isStatement = (json: unknown): json is ExportStatement =>
  (hasOnly(json, STATEMENT) || (hasOnly(json, [...STATEMENT, 'losses']) && isLosses(json.losses))) &&
  json.version === 1 &&
  typeof json.signed_at === 'string' &&
  typeof json.tenant_id === 'string' &&
  isHash(json.manifest_sha256) &&
  Array.isArray(json.chains) &&
  json.chains.every(isStatedChain)

const isStatedChain = (json: unknown): json is StatedChain =>
  hasOnly(json, ['chain', ...COUNTS, ...DIGESTS]) &&
  typeof json.chain === 'string' &&
  COUNTS.every((name) => isCount(json[name])) &&
  DIGESTS.every((name) => isHash(json[name]))

const isLosses = (json: unknown): json is StatedLoss[] => Array.isArray(json) && json.length > 0 && json.every(isLoss)

const isLoss = (json: unknown): json is StatedLoss =>
  hasOnly(json, ['chain', 'cause', 'found_at', 'acknowledged_at', 'successor']) &&
  [json.chain, json.cause, json.found_at].every((value) => typeof value === 'string') &&
  [json.acknowledged_at, json.successor].every((value) => value === null || typeof value === 'string')

/** Returns a sentence for each log that has lost history, for the reader of an export. */
export const lossesIn = ({ chains, losses = [] }: ExportStatement): string[] =>
  losses.map(({ chain, cause, acknowledged_at: acknowledged, successor }) => {
    const size = chains.find((stated) => stated.chain === chain)?.size ?? 0
    const state = acknowledged === null ? 'not acknowledged' : `acknowledged at ${acknowledged}`
    const next = successor === null ? '' : `; it continues in ${successor}`
    return `the log ${chain} has lost history (${cause}, ${state}); the export contains ${size} of its entries${next}`
  })

/** Counts lines, and computes the SHA-256 over them. Each line ends with a newline. */
class LineDigest {
  count = 0
  readonly #hash: Hash = createHash('sha256')

  add(line: string): void {
    this.count += 1
    this.#hash.update(`${line}\n`)
  }

  /** Returns the digest of all lines in hex. Call this method only once. */
  end(): string {
    return this.#hash.digest('hex')
  }
}

/** Counts the expunged entries and the checkpoints of one chain, as a statement contains them. */
export class ChainCounts {
  readonly #expunged = new LineDigest()
  readonly #checkpoints = new LineDigest()

  /** Call this method for each expunged entry, in the order of the chain. */
  addExpunged(seq: number): void {
    this.#expunged.add(String(seq))
  }

  /** Call this method for each checkpoint of fewer entries than the export has, in ascending order. Root in base64. */
  addCheckpoint(size: number, root: string): void {
    this.#checkpoints.add(`${size} ${root}`)
  }

  /** Call this method only once, after all entries and checkpoints. */
  end(): Omit<StatedChain, 'chain' | 'entries' | 'size'> {
    return {
      expunged: this.#expunged.count,
      expunged_sha256: this.#expunged.end(),
      checkpoints: this.#checkpoints.count,
      checkpoints_sha256: this.#checkpoints.end(),
    }
  }
}
