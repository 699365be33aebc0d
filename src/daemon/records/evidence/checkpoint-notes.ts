import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type { PublishedKey } from '../../../shared/evidence/keys.ts'
import { type Checkpoint, NoteError, parseCheckpoint, verifyNote } from '../../../shared/evidence/note.ts'

export type Noted = { checkpoint: Checkpoint; note: string }

/** The notes of a checkpoint file, by log id. */
export type NotesByLog = ReadonlyMap<string, readonly Noted[]>

/**
 * Returns the notes of a file. Skips text that is not a note, such as a partial note after a crash. A missing file
 * contains no notes.
 * @throws errors of the file
 */
export async function readNotes(path: string): Promise<Map<string, Noted[]>> {
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

/** Whether one of these keys has signed the note. */
export function isSignedByUs(note: string, keys: readonly PublishedKey[]): boolean {
  try {
    verifyNote(note, keys)
    return true
  } catch (error) {
    if (error instanceof NoteError) return false
    throw error
  }
}
