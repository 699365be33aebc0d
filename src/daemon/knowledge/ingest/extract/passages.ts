import { chunkText, type Passage } from '../chunking.ts'
import type { Extracted } from './extract.ts'

/** Cuts the text of a file into passages, lazily as in `chunkText`. */
export function cut(extracted: Extracted): { title: string; passages: Iterable<Passage> } {
  const { text, format, pageStarts } = extracted
  const { title, passages } = chunkText(text, format)
  return {
    title: extracted.title || title,
    passages: pageStarts ? withPages(passages, text, pageStarts) : passages,
  }
}

/**
 * Adds page numbers by searching the text for each passage. The search works because each plain-text passage is a
 * substring of the text and begins after the start of the previous passage.
 */
function* withPages(passages: Iterable<Passage>, text: string, pageStarts: readonly number[]): Generator<Passage> {
  let from = 0
  let page = 1
  for (const passage of passages) {
    const start = text.indexOf(passage.body, from)
    if (start >= 0) from = start + 1
    while ((pageStarts[page] ?? Number.POSITIVE_INFINITY) < from) page++
    yield { ...passage, page }
  }
}
