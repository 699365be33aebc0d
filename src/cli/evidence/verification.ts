/** Verifies all chains of a source. */
import { type Checkpoint, chainOrigin, signedNoteOf } from '../../shared/evidence/note.ts'
import type { CliContext } from '../context.ts'
import { CliError, EXIT } from '../errors.ts'
import { createProgress } from '../output/progress.ts'
import { type CheckedChain, type CheckpointNote, checkChain, type EvidenceSource, type SignedRow } from './chains.ts'
import { type TrustedKeys, withKeys } from './key-set.ts'

type Given = {
  trusted: TrustedKeys
  /** Checkpoints from outside the source. The caller must have verified their signatures. */
  outside?: readonly Checkpoint[]
  onRow?: (seen: SignedRow) => Promise<void> | void
  onCheckpoint?: (checkpoint: CheckpointNote) => Promise<void> | void
  /**
   * If this function is given, invalid checkpoints are skipped, and the function is called with the error for each
   * skipped checkpoint.
   */
  onBroken?: ((problem: CliError) => void) | undefined
}

/**
 * Verifies the chains one after the other and shows the progress on stderr. If `onBroken` is not given, throws an error
 * with exit code 10 at the first invalid checkpoint.
 */
export async function checkEvidence(
  context: CliContext,
  source: EvidenceSource,
  { trusted, outside = [], onRow, onCheckpoint, onBroken }: Given,
): Promise<CheckedChain[]> {
  const { tenantId, heads } = source
  const total = heads.reduce((sum, { size }) => sum + size, 0)
  const progress = createProgress(context.io, await context.settings())
  const checked: CheckedChain[] = []
  let seen = 0
  try {
    for (const head of heads) {
      const own: Checkpoint[] = []
      for await (const checkpoint of source.checkpoints(head)) {
        try {
          own.push(await checkedNote(checkpoint, tenantId, trusted))
        } catch (error) {
          if (onBroken === undefined || !(error instanceof CliError)) throw error
          onBroken(error)
        }
        await onCheckpoint?.(checkpoint)
      }
      const checkpoints = [...outside, ...own]
      const report = await checkChain({ tenantId, head, trusted, checkpoints }, source.rows(head), async (row) => {
        seen += 1
        if (seen % 1_000 === 1) progress.show(`Checked ${seen - 1} of ${total} entries`)
        await onRow?.(row)
      })
      checked.push(report)
    }
  } finally {
    progress.end()
  }
  return checked
}

/**
 * Returns the checkpoint in a note. Throws an error with exit code 10 if no trusted key has signed it, or if it belongs
 * to another chain.
 */
export async function checkedNote(
  { chain, tree_size, note }: CheckpointNote,
  tenantId: string,
  trusted: TrustedKeys,
): Promise<Checkpoint> {
  const fail = (why: string) =>
    new CliError(EXIT.checkFailed, `the checkpoint of ${tree_size} entries of chain ${chain} is invalid: ${why}`, {
      code: 'CHECKPOINT_INVALID',
    })
  let signed: ReturnType<typeof signedNoteOf>
  try {
    signed = await withKeys(trusted, (keys) => signedNoteOf(note, keys))
  } catch (error) {
    throw fail(error instanceof Error ? error.message : String(error))
  }
  const { checkpoint, signers } = signed
  const isOfChain = signers.some((name) => checkpoint.origin === chainOrigin(name, tenantId, chain))
  if (!isOfChain || checkpoint.size !== tree_size) throw fail('it belongs to another chain')
  return checkpoint
}

/** Returns the printed result of one chain. */
export const toRow = ({ chain, ok, size, head, root, expunged, checkpointsHeld, firstBad }: CheckedChain) => ({
  chain,
  ok,
  entries: size,
  expunged,
  checkpoints: checkpointsHeld,
  first_bad: firstBad?.seq ?? null,
  problem: firstBad?.problem ?? null,
  head,
  root,
})

/** If a chain is invalid, throws an error with exit code 10 that names the first invalid entry. */
export function assertValid(checked: readonly CheckedChain[]): void {
  const [violation] = violationsOf(checked)
  if (violation !== undefined) throw violation
}

/** Returns one error for each invalid chain, with exit code 10. */
export const violationsOf = (checked: readonly CheckedChain[]): CliError[] =>
  checked.flatMap(({ chain, firstBad }) => {
    if (firstBad === undefined) return []
    const message = `chain ${chain} is invalid from entry ${firstBad.seq} on: ${firstBad.problem}`
    const hints = ['The entries before that one are valid.']
    return [new CliError(EXIT.checkFailed, message, { code: 'CHAIN_VIOLATED', hints })]
  })
