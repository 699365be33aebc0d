/** Compares an export with the gateway's statement about it. */
import { ChainCounts, type ExportStatement, type StatedChain } from '../../shared/evidence/export-statement.ts'
import type { Manifest } from './manifest.ts'

/** Returns the reason why a statement does not belong to a manifest, or undefined if it does. */
export function statementProblem(
  statement: ExportStatement,
  manifest: Manifest,
  manifestSha256: string,
): string | undefined {
  if (statement.manifest_sha256 !== manifestSha256) return 'statement.json belongs to another manifest'
  if (statement.tenant_id !== manifest.tenant_id) return 'statement.json belongs to another tenant'
  const stated = statement.chains.filter(({ size }) => size > 0)
  const isSame =
    stated.length === manifest.chains.length &&
    manifest.chains.every(({ chain, size }, at) => stated[at]?.chain === chain && stated[at].size === size)
  return isSame ? undefined : 'the chains of statement.json differ from the manifest'
}

/** The expunged entries and the checkpoints of an export, counted while the export is read or written. */
export class ExportCounts {
  readonly #chains = new Map<string, ChainCounts>()

  #of(chain: string): ChainCounts {
    const known = this.#chains.get(chain)
    if (known !== undefined) return known
    const counts = new ChainCounts()
    this.#chains.set(chain, counts)
    return counts
  }

  addRow({ chain, seq, payload }: { chain: string; seq: number; payload: string | null }): void {
    if (payload === null) this.#of(chain).addExpunged(seq)
  }

  /** `entries` is the size of the chain in the export. The statement contains only checkpoints of fewer entries. */
  addCheckpoint(chain: string, entries: number, { size, root }: { size: number; root: string }): void {
    if (size < entries) this.#of(chain).addCheckpoint(size, root)
  }

  /** Returns the first difference from the statement, or undefined. Call this method only once, at the end. */
  problem({ chains }: ExportStatement): string | undefined {
    for (const stated of chains) {
      const found = this.#of(stated.chain).end()
      const problem = expungedProblem(stated, found) ?? checkpointsProblem(stated, found)
      if (problem !== undefined) return problem
    }
    return undefined
  }
}

type Found = ReturnType<ChainCounts['end']>

function expungedProblem(stated: StatedChain, found: Found): string | undefined {
  if (stated.expunged_sha256 === found.expunged_sha256 && stated.expunged === found.expunged) return undefined
  const ofChain = `${found.expunged} entries of chain ${stated.chain} have no payload`
  if (stated.expunged !== found.expunged)
    return `${ofChain}, but ${stated.expunged} had none in the gateway's store when it signed the export`
  return `${ofChain}, but in the gateway's store others had none when it signed the export`
}

function checkpointsProblem(stated: StatedChain, found: Found): string | undefined {
  if (stated.checkpoints_sha256 === found.checkpoints_sha256 && stated.checkpoints === found.checkpoints)
    return undefined
  return (
    `chain ${stated.chain} has ${found.checkpoints} checkpoints of fewer entries in the export, ` +
    `but ${stated.checkpoints} ${stated.checkpoints === found.checkpoints ? 'others ' : ''}in the gateway's store when it signed the export`
  )
}
