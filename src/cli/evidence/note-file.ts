/** Reads checkpoints from files that contain signed notes. */
import { readFile } from 'node:fs/promises'
import { type Checkpoint, SIGNATURE_MARK, verifyNote } from '../../shared/evidence/note.ts'
import type { CliContext } from '../context.ts'
import { CliError, EXIT, failedToRead, usageError } from '../errors.ts'
import { type TrustedKeys, withKeys } from './key-set.ts'

/** The Base64 length of a key hash together with an Ed25519 signature. If a line is shorter, it was truncated. */
const SIGNATURE_CHARS = 92

/** The notes of a file: the complete notes, and the notes that were truncated by a crash. */
export type Notes = { whole: string[]; halves: string[] }

/**
 * Parses the notes of a text and returns them in the order in which they were appended. A note is its text, an empty
 * line and its signatures (C2SP signed-note). Empty lines between notes are ignored.
 */
export function splitNotes(text: string): Notes {
  const notes: Notes = { whole: [], halves: [] }
  let lines: string[] = []
  let isSigned = false
  const end = () => {
    const last = lines.findLast((line) => line !== '')
    if (last !== undefined) notes[isWholeSignature(last) ? 'whole' : 'halves'].push(`${lines.join('\n')}\n`)
    lines = []
    isSigned = false
  }
  for (const line of text.split(/\r?\n/)) {
    const isSignature = line.startsWith(SIGNATURE_MARK)
    const isText = !isSignature && line !== ''
    if (isSigned ? !isSignature : isText && lines.at(-1) === '') end()
    if (line === '' && lines.length === 0) continue
    lines.push(line)
    isSigned ||= isSignature
  }
  end()
  return notes
}

/** Whether a line contains a complete signature. The signature itself is not verified. */
const isWholeSignature = (line: string): boolean =>
  line.startsWith(SIGNATURE_MARK) && line.length - line.lastIndexOf(' ') > SIGNATURE_CHARS

/**
 * Returns the checkpoints in note files. Skips truncated notes and prints a warning. Throws a usage error if a file
 * contains no notes. Throws an error with exit code 10 if a note has no trusted signature, or if all notes are
 * truncated.
 */
export async function readCheckpointFiles(
  { note: warn }: Pick<CliContext, 'note'>,
  paths: readonly string[],
  trusted: TrustedKeys,
): Promise<Checkpoint[]> {
  const checkpoints: Checkpoint[] = []
  for (const path of paths) {
    const { whole, halves } = await readNotes(path)
    for (const half of halves) {
      await warn(`warning: ${path} has a truncated checkpoint, which is skipped: ${JSON.stringify(firstOf(half))}`)
    }
    if (whole.length === 0 && halves.length === 0) throw usageError(`${path} contains no checkpoint`)
    if (whole.length === 0) throw invalid(`${path} contains no complete checkpoint`)
    for (const note of whole) {
      try {
        checkpoints.push(await withKeys(trusted, (keys) => verifyNote(note, keys)))
      } catch (error) {
        throw invalid(`a checkpoint in ${path} is invalid: ${error instanceof Error ? error.message : error}`)
      }
    }
  }
  return checkpoints
}

/**
 * Accepts invalid UTF-8, because a truncated note may end within a character. Invalid UTF-8 in a complete note makes
 * its signature invalid.
 */
const readNotes = async (path: string): Promise<Notes> =>
  splitNotes((await readFile(path).catch(failedToRead(path))).toString())

/** Returns the part of a truncated note's origin that was written. */
const firstOf = (half: string): string => half.slice(0, Math.min(half.indexOf('\n'), 100))

const invalid = (message: string): CliError => new CliError(EXIT.checkFailed, message, { code: 'CHECKPOINT_INVALID' })
