import { stripVTControlCharacters } from 'node:util'

const graphemes = new Intl.Segmenter()
// East Asian Wide and Fullwidth (UAX 11), and emoji: two cells.
const WIDE =
  /^(?:[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\p{Emoji}\ufe0f)/u
const NARROW = /^[\x20-\x7e]*$/
const NO_WIDTH = /^[\p{M}\p{Cf}]+$/u

/** Cells that a terminal needs for a line; styles need none. */
export function textWidth(line: string): number {
  const text = stripVTControlCharacters(line)
  if (NARROW.test(text)) return text.length
  let width = 0
  for (const { segment } of graphemes.segment(text)) width += WIDE.test(segment) ? 2 : NO_WIDTH.test(segment) ? 0 : 1
  return width
}

/** A line as lines of at most `width` cells, broken between words; a word that is longer stays whole. */
export function wrapLine(line: string, width: number): string[] {
  if (textWidth(line) <= width) return [line]
  const lines: string[] = []
  let current: string | undefined
  for (const word of line.split(' ')) {
    const longer: string = current === undefined ? word : `${current} ${word}`
    if (current !== undefined && textWidth(longer) > width) {
      lines.push(current)
      current = word
    } else current = longer
  }
  return [...lines, current ?? '']
}
