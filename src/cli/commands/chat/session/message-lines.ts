const QUOTES = '"""'

/** What one more line made of a message: complete, or open for another. */
export type MessageSoFar = { text: string; isOpen: boolean }

/**
 * Puts a message together from lines: `"""` opens and closes a message of several, and a line that ends with `\` goes on
 * with the next one.
 */
export function addLine(before: MessageSoFar | undefined, line: string): MessageSoFar {
  const text = before === undefined ? line : `${before.text}\n${line}`
  if (text.startsWith(QUOTES)) {
    const isClosed = text.length >= 2 * QUOTES.length && text.trimEnd().endsWith(QUOTES)
    if (!isClosed) return { text, isOpen: true }
    return {
      text: text
        .trimEnd()
        .slice(QUOTES.length, -QUOTES.length)
        .replace(/^\n|\n$/g, ''),
      isOpen: false,
    }
  }
  return text.endsWith('\\') ? { text: text.slice(0, -1), isOpen: true } : { text, isOpen: false }
}
