/** Bracketed paste of terminals. */

export const PASTE_ON = '\x1b[?2004h'
export const PASTE_OFF = '\x1b[?2004l'
const BEGIN = '\x1b[200~'
const END = '\x1b[201~'

type Piece = { kind: 'keys' | 'paste'; text: string }

/**
 * Separates pasted input from typed input (xterm, bracketed paste). A paste becomes one `Piece`, even if it arrives in
 * several chunks.
 */
export function createPasteSplitter(): { push(chunk: string): Piece[] } {
  let rest = ''
  let pasted: string | undefined
  return {
    push(chunk) {
      const pieces: Piece[] = []
      rest += chunk
      for (;;) {
        const mark = pasted === undefined ? BEGIN : END
        const at = rest.indexOf(mark)
        const kept = at < 0 ? startOf(mark, rest, pasted === undefined) : 0
        const text = rest.slice(0, at < 0 ? rest.length - kept : at)
        if (pasted !== undefined) pasted += text
        else if (text !== '') pieces.push({ kind: 'keys', text })
        if (at < 0) {
          rest = rest.slice(rest.length - kept)
          return pieces
        }
        rest = rest.slice(at + mark.length)
        if (pasted !== undefined) pieces.push({ kind: 'paste', text: pasted })
        pasted = pasted === undefined ? '' : undefined
      }
    },
  }
}

/**
 * Returns how many characters at the end of the text may be the start of `mark`. In typed input, a single escape
 * character is not counted, because it is the escape key.
 */
function startOf(mark: string, text: string, isTyped: boolean): number {
  const least = isTyped ? 2 : 1
  for (let length = mark.length - 1; length >= least; length--) {
    if (text.endsWith(mark.slice(0, length))) return length
  }
  return 0
}
