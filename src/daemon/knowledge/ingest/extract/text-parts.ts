import { UnreadableDocument } from './unreadable.ts'

/** The maximum length of the text of one document, in characters. */
export const EXTRACT_TEXT_CHARS = 67_108_864

/** Assembles a text from parts, with a size limit. A small file may expand to a very long text. */
export type TextParts = { add(part: string): void; readonly length: number; toString(): string }

const PIECE_CHARS = 65_536

/** Creates an empty text. `add` throws UnreadableDocument if the text exceeds EXTRACT_TEXT_CHARS. */
export function createTextParts(): TextParts {
  const pieces: string[] = []
  // Short parts are joined into larger pieces. Otherwise millions of long-lived short strings would keep the garbage
  // collector busy, even on other threads.
  let parts: string[] = []
  let partsLength = 0
  let length = 0
  return {
    add(part) {
      length += part.length
      if (length > EXTRACT_TEXT_CHARS) {
        throw new UnreadableDocument(`The file contains more than ${EXTRACT_TEXT_CHARS} characters of text; split it.`)
      }
      parts.push(part)
      partsLength += part.length
      if (partsLength < PIECE_CHARS) return
      pieces.push(parts.join(''))
      parts = []
      partsLength = 0
    },
    get length() {
      return length
    },
    toString: () => pieces.join('') + parts.join(''),
  }
}

/** Escapes a line of text if it would otherwise be parsed as a Markdown heading, code or front matter. */
export const plainLine = (line: string): string =>
  /^\s{0,3}(?:#{1,6}(?:\s|$)|`{3}|~{3}|-{3,}\s*$)/.test(line) ? `\\${line}` : line
