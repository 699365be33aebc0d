import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { logId } from '../../shared/evidence/entry.ts'
import type { PublishedKey } from '../../shared/evidence/keys.ts'
import { type Checkpoint, NoteError, parseCheckpoint, verifyNote } from '../../shared/evidence/note.ts'
import type { Db } from '../db/database.ts'
import { rootOfChain } from './proofs.ts'
import { measureChains } from './store.ts'

/** A checkpoint of the file that the store does not agree with. */
export type LostHistory = { origin: string; size: number; problem: string }

/**
 * Compares the last checkpoint of each chain in a file with the store: one that has fewer entries than were published, or
 * others, is an old database that was put back, or one that was changed. A file that is not there yet says nothing.
 */
export async function compareWithFile(
  db: Db,
  path: string | undefined,
  keys: readonly PublishedKey[],
): Promise<readonly LostHistory[]> {
  if (path === undefined) return []
  const last = await lastCheckpoints(path)
  const chains = new Map((await measureChains(db)).map((chain) => [logId(chain.tenant_id, chain.chain), chain]))
  const lost: LostHistory[] = []
  for (const [id, { checkpoint, note }] of last) {
    const { origin, size, root } = checkpoint
    const chain = chains.get(id)
    if (chain === undefined) {
      // A chain of another gateway that writes to the same file is none of ours.
      if (isSignedByUs(note, keys)) lost.push({ origin, size, problem: 'the store has no such log' })
    } else if (chain.size < size) {
      lost.push({ origin, size, problem: `the store has only ${chain.size} entries of it` })
    } else if ((await rootOfChain(db, chain.tenant_id, chain.chain, size)).toString('base64') !== root) {
      lost.push({ origin, size, problem: 'the store has other entries' })
    }
  }
  return lost
}

function isSignedByUs(note: string, keys: readonly PublishedKey[]): boolean {
  try {
    verifyNote(note, keys)
    return true
  } catch (error) {
    if (error instanceof NoteError) return false
    throw error
  }
}

/** By log id, the largest checkpoint. What is no note, such as the half of one that a crash has left, is passed over. */
async function lastCheckpoints(path: string): Promise<Map<string, { checkpoint: Checkpoint; note: string }>> {
  const last = new Map<string, { checkpoint: Checkpoint; note: string }>()
  let note = ''
  for await (const line of linesOf(path)) {
    // Three lines, an empty one, the signature, and an empty one that ends the note.
    const isEnd = line === '' && note.includes('\n\n')
    if (!isEnd) {
      note += `${line}\n`
      continue
    }
    const checkpoint = toCheckpoint(note)
    const id = checkpoint?.origin.split('/').at(-1)
    if (checkpoint && id !== undefined && !((last.get(id)?.checkpoint.size ?? -1) > checkpoint.size)) {
      last.set(id, { checkpoint, note })
    }
    note = ''
  }
  return last
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
