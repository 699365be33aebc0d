// Finds characters that a terminal executes or that people do not see.

/**
 * Matches escape sequences of terminals (CSI, OSC with its text, two-character sequences), other control characters,
 * and Unicode tags. Tabs and line ends are text. Tags that spell a flag, such as that of Scotland, are text too.
 */
const SEQUENCES = new RegExp(
  [
    String.raw`(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]`,
    String.raw`(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,512}(?:\x07|\x1b\\|\x9c)`,
    String.raw`\x1b[ -/]{0,8}[0-~]`,
    String.raw`[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]`,
    String.raw`\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{1,6}\u{e007f}`,
    String.raw`[\u{e0000}-\u{e007f}]+`,
  ].join('|'),
  'gu',
)
/** Matches a sequence that more text may complete. */
const UNFINISHED = new RegExp(
  [
    String.raw`(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}$`,
    String.raw`(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,512}\x1b?$`,
    String.raw`\x1b[ -/]{0,8}$`,
    // The text may end in the middle of a character outside the BMP.
    String.raw`(?:\u{1f3f4})?[\u{e0000}-\u{e007f}]*[\ud83c\udb40]?$`,
  ].join('|'),
  'u',
)
const ANY = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud83c\udb40\u{1f3f4}\u{e0000}-\u{e007f}]/u
const UNFINISHED_CHARS = 600
const FLAG = '\u{1f3f4}'

/** Whether the text has any character of a control sequence: a cheap test that nearly all texts fail. */
export const mayContainSequence = (text: string): boolean => ANY.test(text)

/** Returns the positions of control sequences. */
export function controlSequences(text: string): { start: number; end: number }[] {
  if (!mayContainSequence(text)) return []
  const found: { start: number; end: number }[] = []
  for (const { 0: sequence, index } of text.matchAll(SEQUENCES)) {
    if (!sequence.startsWith(FLAG)) found.push({ start: index, end: index + sequence.length })
  }
  return found
}

/** Returns the start of a sequence that more text may complete, or `text.length` if there is none. */
export function unfinishedSequenceFrom(text: string): number {
  const from = Math.max(0, text.length - UNFINISHED_CHARS)
  const tail = text.slice(from)
  if (!ANY.test(tail)) return text.length
  const start = UNFINISHED.exec(tail)?.index
  return start === undefined ? text.length : from + start
}
