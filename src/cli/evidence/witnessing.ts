/** Demands that witnesses have cosigned checkpoints. */
import type { ChainRow } from '../../shared/evidence/chain-check.ts'
import { isChangesChain, logId } from '../../shared/evidence/entry.ts'
import { isObject, KEY_WINDOW_SLACK_MS, timeOf } from '../../shared/evidence/keys.ts'
import { NoteError } from '../../shared/evidence/note.ts'
import { cosignedNoteOf, parseWitnessPolicy, type WitnessPolicy } from '../../shared/evidence/witness-policy.ts'
import { EVIDENCE_UNCOSIGNED_MS } from '../../shared/spec-limits.ts'
import { CliError, EXIT, usageError } from '../errors.ts'
import { readText } from '../input/text-input.ts'
import type { ChainHead, CheckpointNote } from './chains.ts'
import { onlyFile, type TrustedKeys } from './key-set.ts'
import { isText, parseJson } from './shapes.ts'

export const POLICY_OPTION = [
  '--policy <file>',
  'the witnesses that must have cosigned (C2SP tlog-policy: witness, group, quorum)',
  onlyFile,
] as const

/** The maximum size of a policy file. */
const POLICY_CHARS = 1_048_576
const UNCOSIGNED_MINUTES = EVIDENCE_UNCOSIGNED_MS / 60_000

/** Returns the policy in a file. Throws a usage error if the file contains no policy. */
export async function readPolicy(path: string | undefined): Promise<WitnessPolicy | undefined> {
  if (path === undefined) return undefined
  try {
    const text = await readText(path)
    if (text.length > POLICY_CHARS) throw new Error('it is too large')
    return parseWitnessPolicy(text)
  } catch (error) {
    throw usageError(`${path} is not a policy: ${error instanceof Error ? error.message : error}`, [
      'A policy has lines such as:  witness w1 <verifier key>  and  quorum w1',
    ])
  }
}

type Options = {
  policy: WitnessPolicy
  keys: TrustedKeys['keys']
  tenantId: string
  /** The time at which the source was read: now, or the time at which the gateway signed the export. */
  readAtMs: number
  nowMs?: number
}
/** The times of the entries of a chain that no cosigned checkpoint covers. */
type Tail = { oldestMs: number; newestMs: number }
/** An entry which records that a log is closed: an operator has acknowledged that its history is lost. */
type Closing = { chain: string; seq: number; atMs: number }

/**
 * Checks that the cosigned checkpoints cover each chain to its end. Only the last entries of a chain may lack
 * cosignatures: entries that are younger than EVIDENCE_UNCOSIGNED_MS, and entries of a closed log.
 */
export class Witnessing {
  readonly #options: Required<Options>
  /** The size of the largest checkpoint that satisfies the policy, by chain. */
  readonly #sizes = new Map<string, number>()
  /** The largest checkpoint that does not satisfy the policy, and the reason, by chain. */
  readonly #uncosigned = new Map<string, { size: number; problem: string }>()
  readonly #tails = new Map<string, Tail>()
  /** The closings, by log id. */
  readonly #closings = new Map<string, Closing[]>()

  constructor({ nowMs = Date.now(), ...options }: Options) {
    // Entries from the future would never become old.
    this.#options = { ...options, nowMs, readAtMs: Math.min(options.readAtMs, nowMs) }
  }

  /**
   * Adds a checkpoint. The caller must have verified that the gateway signed it and that it belongs to the chain. Add
   * all checkpoints of a chain before its rows.
   */
  add({ chain, tree_size, note }: CheckpointNote): void {
    try {
      cosignedNoteOf(note, this.#options)
      this.#sizes.set(chain, Math.max(tree_size, this.#sizes.get(chain) ?? 0))
    } catch (error) {
      if (!(error instanceof NoteError)) throw error
      const largest = this.#uncosigned.get(chain)?.size ?? -1
      if (tree_size > largest) this.#uncosigned.set(chain, { size: tree_size, problem: error.message })
    }
  }

  addRow(row: ChainRow): void {
    const { chain, seq, created_at } = row
    this.#addClosing(row)
    if (seq < (this.#sizes.get(chain) ?? 0)) return
    const atMs = timeOf(created_at)
    const { oldestMs, newestMs } = this.#tails.get(chain) ?? { oldestMs: atMs, newestMs: atMs }
    this.#tails.set(chain, { oldestMs: Math.min(oldestMs, atMs), newestMs: Math.max(newestMs, atMs) })
  }

  #addClosing({ chain, seq, created_at, payload }: ChainRow): void {
    if (!isChangesChain(chain) || !payload?.includes('"operation":"acknowledge_loss"')) return
    const content = parseJson(payload)
    if (!isObject(content) || content.type !== 'evidence_management' || content.operation !== 'acknowledge_loss') return
    const log = content.resource_id
    if (!isText(log)) return
    this.#closings.set(log, [...(this.#closings.get(log) ?? []), { chain, seq, atMs: timeOf(created_at) }])
  }

  /** Throws an error with exit code 10 if a chain has entries that should have been cosigned. */
  assertCosigned(heads: readonly ChainHead[]): void {
    for (const head of heads) {
      if (this.#lacking(head) === 0 || this.#isYoung(head.chain) || this.#closingOf(head.chain)) continue
      throw new CliError(EXIT.checkFailed, this.#problemOf(head), { code: 'COSIGNATURES_MISSING' })
    }
  }

  /** Returns the number of entries of a chain that no cosigned checkpoint covers. */
  #lacking({ chain, size }: ChainHead): number {
    return Math.max(0, size - (this.#sizes.get(chain) ?? 0))
  }

  /** A chain whose only checkpoints lack cosignatures does not satisfy the policy at any age. */
  #isYoung(chain: string): boolean {
    const tail = this.#tails.get(chain)
    const { readAtMs } = this.#options
    return (
      tail !== undefined &&
      (this.#sizes.has(chain) || !this.#uncosigned.has(chain)) &&
      tail.oldestMs >= readAtMs - EVIDENCE_UNCOSIGNED_MS &&
      tail.newestMs <= readAtMs + KEY_WINDOW_SLACK_MS
    )
  }

  /**
   * Returns the entry that closes a chain. A closed log gets no further checkpoints and cosignatures, ever. The entry
   * must be covered by a cosigned checkpoint, so that the gateway cannot claim to one party that a log is closed. The
   * closed log must not have later entries.
   */
  #closingOf(chain: string): Closing | undefined {
    const newestMs = this.#tails.get(chain)?.newestMs ?? Number.NaN
    const closings = this.#closings.get(logId(this.#options.tenantId, chain)) ?? []
    return closings.find(
      (closing) =>
        closing.chain !== chain &&
        closing.seq < (this.#sizes.get(closing.chain) ?? 0) &&
        newestMs <= closing.atMs + KEY_WINDOW_SLACK_MS,
    )
  }

  #problemOf({ chain }: ChainHead): string {
    const covered = this.#sizes.get(chain)
    const uncosigned = this.#uncosigned.get(chain)
    if (covered === undefined) {
      const why =
        uncosigned?.problem ?? `it has no checkpoint, and entries that are older than ${UNCOSIGNED_MINUTES} min`
      return `no checkpoint of chain ${chain} satisfies the policy: ${why}`
    }
    const why =
      uncosigned && uncosigned.size > covered
        ? `the checkpoint of ${uncosigned.size}: ${uncosigned.problem}`
        : 'there is no later checkpoint'
    return `the checkpoints of chain ${chain} that satisfy the policy cover only ${covered} entries, and later ones are older than ${UNCOSIGNED_MINUTES} min: ${why}`
  }

  /** Describes how many entries the cosigned checkpoints cover, and why others are accepted. */
  coverage(heads: readonly ChainHead[]): string {
    const total = heads.reduce((sum, { size }) => sum + size, 0)
    const lacking = heads.filter((head) => this.#lacking(head) > 0)
    const covered = total - lacking.reduce((sum, head) => sum + this.#lacking(head), 0)
    const reasons = lacking.map((head) => {
      const closing = this.#isYoung(head.chain) ? undefined : this.#closingOf(head.chain)
      const entries = `${this.#lacking(head)} of chain ${head.chain} accepted without cosignature`
      return closing
        ? `${entries}: the log is closed, as the cosigned entry ${closing.seq} of ${closing.chain} records`
        : `${entries}: younger than ${UNCOSIGNED_MINUTES} min`
    })
    return [`cosigned checkpoints cover ${covered} of ${total} entries`, ...reasons].join('; ')
  }
}
