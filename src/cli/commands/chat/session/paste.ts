export const PASTE_ON = '\x1b[?2004h'
export const PASTE_OFF = '\x1b[?2004l'
const BEGIN = '\x1b[200~'
const END = '\x1b[201~'

type Piece = { kind: 'keys' | 'paste'; text: string }

/**
 * Tells what was pasted from what was typed, in input that may be cut anywhere (xterm, bracketed paste). A paste is one
 * piece, however many chunks it came in.
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
        const held = at < 0 ? beginOf(mark, rest, pasted === undefined) : 0
        const text = rest.slice(0, at < 0 ? rest.length - held : at)
        if (pasted !== undefined) pasted += text
        else if (text !== '') pieces.push({ kind: 'keys', text })
        if (at < 0) {
          rest = rest.slice(rest.length - held)
          return pieces
        }
        rest = rest.slice(at + mark.length)
        if (pasted !== undefined) pieces.push({ kind: 'paste', text: pasted })
        pasted = pasted === undefined ? '' : undefined
      }
    },
  }
}

/** How much of the text's end may be the begin of `mark`. A lone escape among keys is the escape key. */
function beginOf(mark: string, text: string, isTyped: boolean): number {
  const least = isTyped ? 2 : 1
  for (let length = mark.length - 1; length >= least; length--) {
    if (text.endsWith(mark.slice(0, length))) return length
  }
  return 0
}
