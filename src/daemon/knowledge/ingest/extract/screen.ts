import { screenDocument } from '../../../safety/guards/documents.ts'
import type { GuardHit } from '../../../safety/guards/redaction.ts'
import type { Extracted } from './extract.ts'
import { blockedBy, UnreadableDocument } from './unreadable.ts'

/**
 * Applies the rules to the text of a file.
 * @param rules from `DocumentScreening`
 * @param hits a list. This function adds the matches of the rules to the list.
 * @throws UnreadableDocument if a rule blocks the document, or if rules remove all of its words
 */
export async function screenExtracted(extracted: Extracted, rules: string, hits: GuardHit[]): Promise<Extracted> {
  const { hits: found, isBlocked, ...document } = await screenDocument(extracted, rules)
  hits.push(...found)
  if (isBlocked) throw blockedBy(hits)
  if (!/[\p{L}\p{N}]/u.test(document.text)) {
    throw new UnreadableDocument('The rules remove all words of this document.')
  }
  return { ...extracted, ...document }
}
