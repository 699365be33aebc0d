import type { GuardHit } from '../../../safety/guards/redaction.ts'

/** Why a document cannot be indexed, in words for the one who sent it. */
export class UnreadableDocument extends Error {
  override name = 'UnreadableDocument'
}

/**
 * What becomes of an error while a file of this kind is read. The libraries have errors of their own for every way in which a
 * file can be broken, and some have several.
 */
export const damaged =
  (kind: string) =>
  (error: unknown): never => {
    if (error instanceof UnreadableDocument) throw error
    throw new UnreadableDocument(`This ${kind} is damaged; it could not be read.`, { cause: error })
  }

/** What becomes of a document that a rule blocks: it tells which sort of thing was found, never what. */
export function blockedBy(hits: readonly GuardHit[]): UnreadableDocument {
  const types = new Set(hits.filter(({ action }) => action === 'block').map(({ type }) => type))
  return new UnreadableDocument(
    `It holds what a rule does not let through (${[...types].join(', ')}); leave it out and send it again.`,
  )
}
