const QUOTES = '"""'

/** A message of one or more lines. `isOpen` means that the message continues on the next line. */
export type MessageSoFar = { text: string; isOpen: boolean }

/**
 * Adds a line to a message. `"""` opens and closes a message of several lines. After a line that ends with `\`, the
 * message continues on the next line.
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
