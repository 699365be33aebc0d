import { readFile } from 'node:fs/promises'
import { type Checkpoint, SIGNATURE_MARK, verifyNote } from '../../shared/evidence/note.ts'
import type { CliContext } from '../context.ts'
import { CliError, EXIT, unreadable, usageError } from '../errors.ts'
import { type TrustedKeys, withKeys } from './key-set.ts'

/** Base64 of a key hash and a signature with Ed25519: what is shorter was not written to its end. */
const SIGNATURE_CHARS = 92

/** The notes of a file, and what a crash has left of others. */
export type Notes = { whole: string[]; halves: string[] }

/**
 * The notes of a text, one after the other as a gateway appends them to a file: each is its text, an empty line and its
 * signatures (C2SP signed-note). Empty lines between them do not count.
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

/** Whether a line is a signature that was written to its end; it may still be a wrong one. */
const isWholeSignature = (line: string): boolean =>
  line.startsWith(SIGNATURE_MARK) && line.length - line.lastIndexOf(' ') > SIGNATURE_CHARS

/**
 * The checkpoints of note files; of half a note the caller is warned. Throws a usage error for a file without any, exit 10 for
 * one that is not signed by a trusted key, and for a file of nothing but halves.
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
      await warn(`warning: ${path} has half a checkpoint, which is passed over: ${JSON.stringify(firstOf(half))}`)
    }
    if (whole.length === 0 && halves.length === 0) throw usageError(`${path} holds no checkpoint`)
    if (whole.length === 0) throw invalid(`${path} holds no whole checkpoint`)
    for (const note of whole) {
      try {
        checkpoints.push(await withKeys(trusted, (keys) => verifyNote(note, keys)))
      } catch (error) {
        throw invalid(`a checkpoint in ${path} does not hold: ${error instanceof Error ? error.message : error}`)
      }
    }
  }
  return checkpoints
}

/** Half a note may end within a character, which costs no other: bytes that are no UTF-8 are in none that is signed. */
async function readNotes(path: string): Promise<Notes> {
  const bytes = await readFile(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
  return splitNotes(bytes.toString())
}

/** What half a note is called by: its origin, if it came as far. */
const firstOf = (half: string): string => half.slice(0, Math.min(half.indexOf('\n'), 100))

const invalid = (message: string): CliError => new CliError(EXIT.checkFailed, message, { code: 'CHECKPOINT_INVALID' })
