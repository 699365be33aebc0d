/** Reads checkpoints from files of signed notes. */
import { readFile } from 'node:fs/promises'
import { type Checkpoint, SIGNATURE_MARK, verifyNote } from '../../shared/evidence/note.ts'
import type { CliContext } from '../context.ts'
import { CliError, EXIT, failedToRead, usageError } from '../errors.ts'
import { type TrustedKeys, withKeys } from './key-set.ts'

/** The length of a key hash and an Ed25519 signature in Base64. A shorter signature is truncated. */
const SIGNATURE_CHARS = 92

/** The complete notes of a file, and the notes that a crash truncated. */
export type Notes = { whole: string[]; halves: string[] }

/**
 * Parses the notes of a text, in the order in which they were appended. A note is its text, an empty line and its
 * signatures (C2SP signed-note). Empty lines between notes are ignored.
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

/** Whether a line is a complete signature, which need not be valid. */
const isWholeSignature = (line: string): boolean =>
  line.startsWith(SIGNATURE_MARK) && line.length - line.lastIndexOf(' ') > SIGNATURE_CHARS

/**
 * The checkpoints of note files. Truncated notes are skipped with a warning. Throws a usage error for a file without
 * notes. Throws exit 10 if a note has no trusted signature, or if all notes are truncated.
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
 * A truncated note may end within a character, so invalid UTF-8 is allowed. Invalid UTF-8 in a complete note makes its
 * signature invalid.
 */
const readNotes = async (path: string): Promise<Notes> =>
  splitNotes((await readFile(path).catch(failedToRead(path))).toString())

/** The origin of a truncated note, as far as it was written. */
const firstOf = (half: string): string => half.slice(0, Math.min(half.indexOf('\n'), 100))

const invalid = (message: string): CliError => new CliError(EXIT.checkFailed, message, { code: 'CHECKPOINT_INVALID' })
