/**
 * Makes untrusted text (model output, gateway messages, file names) safe for a terminal. Drops control characters and
 * escape sequences, and marks that change the direction of text, but keeps newlines and tabs. Pipes and files get the exact bytes.
 *
 * States and transitions (ECMA-48, as terminals interpret it):
 * ```
 * text      ESC → escape | 0x9b → csi | 0x9d 0x90 0x98 0x9e 0x9f → string | other control → dropped | else kept
 * escape    [ → csi | ] P X ^ _ → string | 0x20-0x2f → escape | else dropped → text
 * csi       0x20-0x3f → csi | 0x40-0x7e dropped → text | else read again as text
 * string    BEL 0x9c CAN SUB → text | ESC → escape | newline kept → text | else dropped
 * ```
 */
type State = 'text' | 'escape' | 'csi' | 'string'

const STRING_INTRODUCERS = new Set([0x9d, 0x90, 0x98, 0x9e, 0x9f])
const ESCAPED_STRING_INTRODUCERS = new Set([']', 'P', 'X', '^', '_'])
const STRING_ENDS = new Set([0x07, 0x9c, 0x18, 0x1a])
/** Marks that change the direction of text could show a line in another order than it has. */
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/

type TerminalText = {
  /** Returns the printable part of `chunk`. Recognises an escape sequence even if it is split across chunks. */
  push(chunk: string): string
}

/** Creates a filter for one text that arrives in chunks. */
export function terminalText(): TerminalText {
  let state: State = 'text'

  const fromText = (char: string, code: number): string => {
    if (code === 0x1b) state = 'escape'
    else if (code === 0x9b) state = 'csi'
    else if (STRING_INTRODUCERS.has(code)) state = 'string'
    else if (!CONTROL.test(char)) return char
    return ''
  }

  const step = (char: string): string => {
    const code = char.charCodeAt(0)
    if (state === 'text') return fromText(char, code)
    if (state === 'escape') {
      if (char === '[') state = 'csi'
      else if (ESCAPED_STRING_INTRODUCERS.has(char)) state = 'string'
      else if (code < 0x20 || code > 0x7e) {
        state = 'text'
        return fromText(char, code)
      } else if (code >= 0x30) state = 'text'
      return ''
    }
    if (state === 'csi') {
      if (code >= 0x20 && code <= 0x3f) return ''
      state = 'text'
      return code >= 0x40 && code <= 0x7e ? '' : fromText(char, code)
    }
    if (STRING_ENDS.has(code)) state = 'text'
    else if (code === 0x1b) state = 'escape'
    else if (char === '\n') {
      // Ends the sequence at the line break, because a terminal would continue the sequence and hide the next lines.
      state = 'text'
      return char
    }
    return ''
  }

  return {
    push(chunk) {
      if (state === 'text' && !CONTROL.test(chunk)) return chunk
      let shown = ''
      for (let at = 0; at < chunk.length; at++) shown += step(chunk.charAt(at))
      return shown
    },
  }
}

/** Makes a complete text safe for a terminal. */
export const forTerminal = (text: string): string => terminalText().push(text)

/** Makes a text safe for a terminal and joins its lines, for table cells and messages. */
export const forTerminalLine = (text: string): string =>
  forTerminal(text)
    .replace(/\s*\n\s*/g, ' ')
    .replaceAll('\t', ' ')
