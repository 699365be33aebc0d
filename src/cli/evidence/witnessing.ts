/** Demands that witnesses have cosigned checkpoints. */
import { readFile } from 'node:fs/promises'
import { NoteError } from '../../shared/evidence/note.ts'
import { cosignedNoteOf, parseWitnessPolicy, type WitnessPolicy } from '../../shared/evidence/witness-policy.ts'
import { CliError, EXIT, usageError } from '../errors.ts'
import type { ChainHead, CheckpointNote } from './chains.ts'
import { onlyFile, type TrustedKeys } from './key-set.ts'

export const POLICY_OPTION = [
  '--policy <file>',
  'the witnesses that must have cosigned (C2SP tlog-policy: witness, group, quorum)',
  onlyFile,
] as const

/** The maximum size of a policy file. */
const POLICY_CHARS = 1_048_576

/** Returns the policy in a file. Throws a usage error if the file contains no policy. */
export async function readPolicy(path: string | undefined): Promise<WitnessPolicy | undefined> {
  if (path === undefined) return undefined
  try {
    const text = await readFile(path, 'utf8')
    if (text.length > POLICY_CHARS) throw new Error('it is too large')
    return parseWitnessPolicy(text)
  } catch (error) {
    throw usageError(`${path} is not a policy: ${error instanceof Error ? error.message : error}`, [
      'A policy has lines such as:  witness w1 <verifier key>  and  quorum w1',
    ])
  }
}

/** Finds the largest checkpoint of each chain whose cosignatures satisfy a policy. */
export class Witnessing {
  readonly #policy: WitnessPolicy
  readonly #keys: TrustedKeys['keys']
  readonly #nowMs: number
  readonly #sizes = new Map<string, number>()
  /** The reason why the last checkpoint of a chain does not satisfy the policy. */
  readonly #problems = new Map<string, string>()

  constructor(policy: WitnessPolicy, keys: TrustedKeys['keys'], nowMs: number = Date.now()) {
    this.#policy = policy
    this.#keys = keys
    this.#nowMs = nowMs
  }

  /** Adds a checkpoint. The caller must have verified that the gateway signed it and that it belongs to the chain. */
  add({ chain, tree_size, note }: CheckpointNote): void {
    try {
      cosignedNoteOf(note, { keys: this.#keys, policy: this.#policy, nowMs: this.#nowMs })
      this.#sizes.set(chain, Math.max(tree_size, this.#sizes.get(chain) ?? 0))
    } catch (error) {
      if (!(error instanceof NoteError)) throw error
      this.#problems.set(chain, error.message)
    }
  }

  /** Throws an error with exit code 10 if a chain with entries has no such checkpoint. */
  assertCosigned(heads: readonly ChainHead[]): void {
    const bare = heads.find(({ chain, size }) => size > 0 && !this.#sizes.has(chain))
    if (bare === undefined) return
    const why = this.#problems.get(bare.chain) ?? 'it has no checkpoint'
    const message = `no checkpoint of chain ${bare.chain} satisfies the policy: ${why}`
    throw new CliError(EXIT.checkFailed, message, { code: 'COSIGNATURES_MISSING' })
  }

  /** Describes how many entries the cosigned checkpoints cover. */
  coverage(heads: readonly ChainHead[]): string {
    const total = heads.reduce((sum, { size }) => sum + size, 0)
    const covered = heads.reduce((sum, { chain, size }) => sum + Math.min(size, this.#sizes.get(chain) ?? 0), 0)
    return `cosigned checkpoints cover ${covered} of ${total} entries`
  }
}
