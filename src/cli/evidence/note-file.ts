import { type Checkpoint, verifyNote } from '../../shared/evidence/note.ts'
import { CliError, EXIT, usageError } from '../errors.ts'
import { readText } from '../text-input.ts'
import { type TrustedKeys, withKeys } from './key-set.ts'

const SIGNATURE_MARK = '— '

/**
 * The notes of a text, one after the other as a gateway appends them to a file: each is its text, an empty line and its
 * signatures (C2SP signed-note). Empty lines between them do not count.
 */
export function splitNotes(text: string): string[] {
  const notes: string[] = []
  let lines: string[] = []
  let signed = false
  const end = () => {
    if (lines.length > 0) notes.push(`${lines.join('\n')}\n`)
    lines = []
    signed = false
  }
  for (const line of text.split(/\r?\n/)) {
    const isSignature = line.startsWith(SIGNATURE_MARK)
    if (signed && !isSignature) end()
    if (line === '' && lines.length === 0) continue
    lines.push(line)
    signed ||= isSignature
  }
  if (lines.some((line) => line !== '')) end()
  return notes
}

/** The checkpoints of note files. Throws a usage error for a file without any, exit 10 for one that is not signed by a trusted key. */
export async function readCheckpointFiles(paths: readonly string[], trusted: TrustedKeys): Promise<Checkpoint[]> {
  const checkpoints: Checkpoint[] = []
  for (const path of paths) {
    const notes = splitNotes(await readText(path))
    if (notes.length === 0) throw usageError(`${path} holds no checkpoint`)
    for (const note of notes) {
      try {
        checkpoints.push(await withKeys(trusted, (keys) => verifyNote(note, keys)))
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error)
        throw new CliError(EXIT.checkFailed, `a checkpoint in ${path} does not hold: ${why}`, {
          code: 'CHECKPOINT_INVALID',
        })
      }
    }
  }
  return checkpoints
}
