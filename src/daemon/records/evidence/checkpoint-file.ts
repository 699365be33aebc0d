import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { logId } from '../../../shared/evidence/entry.ts'
import { Frontier } from '../../../shared/evidence/frontier.ts'
import type { PublishedKey } from '../../../shared/evidence/keys.ts'
import { HASH_BYTES } from '../../../shared/evidence/merkle.ts'
import { type Checkpoint, NoteError, parseCheckpoint, verifyNote } from '../../../shared/evidence/note.ts'
import type { Db } from '../../platform/db/db.ts'
import type { EvidenceCheckpointRow } from '../../platform/db/tables.ts'
import type { Log } from '../../platform/log.ts'
import { createPacer } from '../../platform/pacing.ts'
import type { CheckpointPublisher } from './checkpoint-publisher.ts'
import { readHashes } from './proofs.ts'
import type { SigningKeys } from './signing-keys.ts'
import { findCheckpoint, type MeasuredChain, measureChains } from './store.ts'

/** A checkpoint in the file that contradicts the store. */
export type LostHistory = { origin: string; size: number; problem: string }

export type FileComparison = {
  /** The first contradiction in each chain. */
  lost: LostHistory[]
  /** The latest checkpoints of chains whose latest checkpoint is missing from the file. */
  unpublished: EvidenceCheckpointRow[]
}

const ENTRIES_PER_READ = 1_000

/**
 * Compares the store with its checkpoint file at start. The comparison takes about 3 s for 1,000,000 entries. Requests
 * are already served during this time.
 */
export type StartComparison = {
  /**
   * Whether the store has lost published history or could not be compared. Resolves when the comparison is complete.
   */
  hasLost(): Promise<boolean>
  /** Aborts the comparison. */
  close(): Promise<void>
}

export type StartComparisonDeps = {
  db: Db
  /** The checkpoint file. If this value is undefined, nothing is compared. */
  file: string | undefined
  keys: Pick<SigningKeys, 'published'>
  publisher: CheckpointPublisher
  log: Pick<Log, 'error'>
}

/** Compares the store with the file, logs lost history, and publishes checkpoints that are missing from the file. */
export function startComparison({ db, file, keys, publisher, log }: StartComparisonDeps): StartComparison {
  const stop = new AbortController()

  async function compare(path: string): Promise<boolean> {
    try {
      const { lost, unpublished } = await compareWithFile(db, path, await keys.published(), stop.signal)
      if (lost.length > 0) log.error({ file, lostHistory: lost }, 'the store lacks entries that its checkpoints cover')
      for (const checkpoint of unpublished) await publisher.publish(checkpoint)
      return lost.length > 0
    } catch (error) {
      if (!stop.signal.aborted) log.error({ error, file }, 'the store could not be compared with its checkpoints')
      return true
    }
  }

  const result = file === undefined ? Promise.resolve(false) : compare(file)
  return {
    hasLost: () => result,
    async close() {
      stop.abort()
      await result
    },
  }
}

/**
 * Compares all checkpoints of each chain in a file with the store. If entries of the store are missing or different,
 * the store was restored from an old backup or was changed. All hashes up to the last checkpoint are read, because
 * stored tree nodes are not trusted. A missing file is not a contradiction.
 * @throws errors of the file and the store, and the abort reason of the signal
 */
export async function compareWithFile(
  db: Db,
  path: string,
  keys: readonly PublishedKey[],
  signal?: AbortSignal,
): Promise<FileComparison> {
  const noted = await readNotes(path)
  const lost: LostHistory[] = []
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
  for (const notes of noted.values()) {
    // Another gateway may write to the same file. The chains of that gateway are ignored.
    const ours = notes.find(({ note }) => isSignedByUs(note, keys))
    if (ours) lost.push({ ...extentOf(ours.checkpoint), problem: 'the store does not contain this log' })
  }
  return { lost, unpublished }
}

/** @param checkpoints in ascending order of size */
async function firstLost(
  db: Db,
  { tenant_id, chain, size }: MeasuredChain,
  checkpoints: readonly Checkpoint[],
  signal: AbortSignal | undefined,
): Promise<LostHistory | undefined> {
  const tree = new Frontier()
  const { turn: rest } = createPacer()
  for (const checkpoint of checkpoints) {
    const lost = (problem: string) => ({ ...extentOf(checkpoint), problem })
    if (checkpoint.size > size) return lost(`the store contains only ${size} entries of this log`)
    while (tree.size < checkpoint.size) {
      const [from, to] = [tree.size, Math.min(checkpoint.size, tree.size + ENTRIES_PER_READ)]
      const hashes = await readHashes(db, tenant_id, chain, { from, to })
      if (hashes.length !== (to - from) * HASH_BYTES) {
        return lost(`some of the entries ${from} to ${to - 1} are missing from the store`)
      }
      tree.append(hashes)
      await rest()
      signal?.throwIfAborted()
    }
    if (tree.root().toString('base64') !== checkpoint.root)
      return lost('the entries in the store differ from the checkpoint')
  }
  return undefined
}

const extentOf = ({ origin, size }: Checkpoint) => ({ origin, size })

function isSignedByUs(note: string, keys: readonly PublishedKey[]): boolean {
  try {
    verifyNote(note, keys)
    return true
  } catch (error) {
    if (error instanceof NoteError) return false
    throw error
  }
}

type Noted = { checkpoint: Checkpoint; note: string }

/** Returns the notes of a file, by log id. Skips text that is not a note, such as a partial note after a crash. */
async function readNotes(path: string): Promise<Map<string, Noted[]>> {
  const noted = new Map<string, Noted[]>()
  let lines: string[] = []
  for await (const line of linesOf(path)) {
    // A note has three lines, an empty line and the signature. Parsing tries every line as the start of a note, so that
    // a partial note cannot hide the next note.
    lines = [...lines.slice(-4), line]
    const note = `${lines.join('\n')}\n`
    const checkpoint = lines[3] === '' && line !== '' ? toCheckpoint(note) : undefined
    const id = checkpoint?.origin.split('/').at(-1)
    if (!checkpoint || id === undefined) continue
    const ofLog = noted.get(id)
    if (ofLog) ofLog.push({ checkpoint, note })
    else noted.set(id, [{ checkpoint, note }])
  }
  return noted
}

async function* linesOf(path: string): AsyncGenerator<string> {
  const stream = createReadStream(path, 'utf8')
  try {
    yield* createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY })
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
  } finally {
    stream.destroy()
  }
}

function toCheckpoint(note: string): Checkpoint | undefined {
  try {
    return parseCheckpoint(note).checkpoint
  } catch (error) {
    if (error instanceof NoteError) return undefined
    throw error
  }
}
