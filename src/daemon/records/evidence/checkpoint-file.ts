import { logId } from '../../../shared/evidence/entry.ts'
import { Frontier } from '../../../shared/evidence/frontier.ts'
import type { PublishedKey } from '../../../shared/evidence/keys.ts'
import { HASH_BYTES } from '../../../shared/evidence/merkle.ts'
import type { Checkpoint } from '../../../shared/evidence/note.ts'
import type { Db } from '../../platform/db/db.ts'
import type { EvidenceCheckpointRow } from '../../platform/db/tables.ts'
import type { Log } from '../../platform/log.ts'
import { createPacer } from '../../platform/pacing.ts'
import { isSignedByUs, readNotes } from './checkpoint-notes.ts'
import type { CheckpointPublisher } from './checkpoint-publisher.ts'
import type { FileMemory } from './file-losses.ts'
import type { FoundLoss } from './found-loss.ts'
import { type Losses, lossOfChain } from './losses.ts'
import { readHashes } from './proofs.ts'
import type { SigningKeys } from './signing-keys.ts'
import { findCheckpoint, type MeasuredChain, measureChains } from './store.ts'

export type FileComparison = {
  /** The first contradiction in each chain. */
  lost: FoundLoss[]
  /** The latest checkpoints of chains whose latest checkpoint is missing from the file. */
  unpublished: EvidenceCheckpointRow[]
}

const ENTRIES_PER_READ = 1_000

/**
 * Compares the store with its checkpoint file at start. The comparison takes about 3 s for 1,000,000 entries. Requests
 * are already served during this time. `checkHistory` has compared the last checkpoint of each chain before.
 */
export type StartComparison = {
  /** Whether the store could not be compared. Resolves when the comparison is complete. */
  hasFailed(): Promise<boolean>
  /** Aborts the comparison. */
  close(): Promise<void>
}

export type StartComparisonDeps = {
  db: Db
  /** The checkpoint file. If this value is undefined, nothing is compared. */
  file: string | undefined
  keys: Pick<SigningKeys, 'published'>
  losses: Pick<Losses, 'report'>
  fileMemory?: Pick<FileMemory, 'failed'> | undefined
  publisher: CheckpointPublisher
  log: Pick<Log, 'error'>
}

/** Compares the store with the file, reports lost history, and publishes checkpoints that are missing from the file. */
export function startComparison({
  db,
  file,
  keys,
  losses,
  fileMemory,
  publisher,
  log,
}: StartComparisonDeps): StartComparison {
  const stop = new AbortController()

  async function compare(path: string): Promise<boolean> {
    try {
      const { lost, unpublished } = await compareWithFile(db, path, await keys.published(), stop.signal)
      await losses.report(lost)
      for (const checkpoint of unpublished) await publisher.publish(checkpoint)
      return false
    } catch (error) {
      if (stop.signal.aborted) return true
      log.error({ error, file }, 'the store could not be compared with its checkpoints')
      // A file that cannot be read is a loss, which an operator can acknowledge.
      return !(await fileMemory?.failed(error).catch(() => false))
    }
  }

  const result = file === undefined ? Promise.resolve(false) : compare(file)
  return {
    hasFailed: () => result,
    async close() {
      stop.abort()
      await result
    },
  }
}

/**
 * Compares all checkpoints of each chain in a file with the store. If entries of the store are missing or different,
 * the store was restored from an old backup or was changed. All hashes up to the last checkpoint are read, because
 * stored tree nodes are not trusted. A missing file is not a contradiction here.
 * @throws errors of the file and the store, and the abort reason of the signal
 */
export async function compareWithFile(
  db: Db,
  path: string,
  keys: readonly PublishedKey[],
  signal?: AbortSignal,
): Promise<FileComparison> {
  const noted = await readNotes(path)
  const lost: FoundLoss[] = []
  const unpublished: EvidenceCheckpointRow[] = []
  for (const chain of await measureChains(db)) {
    const id = logId(chain.tenant_id, chain.chain)
    const checkpoints = (noted.get(id) ?? []).map(({ checkpoint }) => checkpoint).sort((a, b) => a.size - b.size)
    noted.delete(id)
    const first = await firstLost(db, chain, checkpoints, signal)
    if (first) lost.push(first)
    if (chain.checkpointed <= (checkpoints.at(-1)?.size ?? 0)) continue
    const last = await findCheckpoint(db, chain.tenant_id, chain.chain, chain.checkpointed)
    if (last && isSignedByUs(last.note, keys)) unpublished.push(last)
  }
  for (const [id, notes] of noted) {
    // Another gateway may write to the same file. The chains of that gateway are ignored.
    const ours = notes.find(({ note }) => isSignedByUs(note, keys))
    if (ours)
      lost.push({ id, cause: 'log_missing', detail: `${nameOf(ours.checkpoint)}: the store does not contain this log` })
  }
  return { lost, unpublished }
}

/** @param checkpoints in ascending order of size */
async function firstLost(
  db: Db,
  { tenant_id, chain, size }: MeasuredChain,
  checkpoints: readonly Checkpoint[],
  signal: AbortSignal | undefined,
): Promise<FoundLoss | undefined> {
  const tree = new Frontier()
  const { turn: rest } = createPacer()
  for (const checkpoint of checkpoints) {
    if (checkpoint.size > size) return tooShort({ tenant_id, chain, size }, checkpoint)
    const missing = (problem: string) =>
      lossOfChain(tenant_id, chain, 'entries_missing', `${nameOf(checkpoint)}: ${problem}`)
    while (tree.size < checkpoint.size) {
      const [from, to] = [tree.size, Math.min(checkpoint.size, tree.size + ENTRIES_PER_READ)]
      const hashes = await readHashes(db, tenant_id, chain, { from, to })
      if (hashes.length !== (to - from) * HASH_BYTES) {
        return missing(`some of the entries ${from} to ${to - 1} are missing from the store`)
      }
      tree.append(hashes)
      await rest()
      signal?.throwIfAborted()
    }
    if (tree.root().toString('base64') !== checkpoint.root) return differs({ tenant_id, chain }, checkpoint)
  }
  return undefined
}

type ChainName = Pick<MeasuredChain, 'tenant_id' | 'chain'>

/** Returns the loss of a chain that has fewer entries than one of its published checkpoints. */
export const tooShort = (
  { tenant_id, chain, size }: ChainName & { size: number },
  checkpoint: Pick<Checkpoint, 'origin' | 'size'>,
): FoundLoss => {
  const detail = `${nameOf(checkpoint)}: the store contains only ${size} entries of this log`
  return lossOfChain(tenant_id, chain, 'entries_missing', detail)
}

/** Returns the loss of a chain that has another root than one of its published checkpoints. */
export const differs = (
  { tenant_id, chain }: ChainName,
  checkpoint: Pick<Checkpoint, 'origin' | 'size'>,
): FoundLoss => {
  const detail = `${nameOf(checkpoint)}: the entries in the store differ from the checkpoint`
  return lossOfChain(tenant_id, chain, 'entries_changed', detail)
}

const nameOf = ({ origin, size }: Pick<Checkpoint, 'origin' | 'size'>): string =>
  `the checkpoint of ${size} entries of ${origin}`
