import type { GuardHit } from '../../../safety/guards/redaction.ts'

/** The reason why a document cannot be indexed, worded for its sender. */
export class UnreadableDocument extends Error {
  override name = 'UnreadableDocument'
}

/**
 * Returns a function that converts an error of a library to an UnreadableDocument. Each library has its own errors for
 * broken files, and some have several.
 */
export const damaged =
  (kind: string) =>
  (error: unknown): never => {
    if (error instanceof UnreadableDocument) throw error
    throw new UnreadableDocument(`This ${kind} is damaged; it could not be read.`, { cause: error })
  }

/**
 * Returns the error for a document that a rule blocks. The message names the kind of match, but never contains the
 * matched text.
 */
export function blockedBy(hits: readonly GuardHit[]): UnreadableDocument {
  const types = new Set(hits.filter(({ action }) => action === 'block').map(({ type }) => type))
  return new UnreadableDocument(
    `Blocked: it contains data that a rule forbids (${[...types].join(', ')}). Remove it and send the document again.`,
  )
}
