import stringWidth from 'string-width'

/** Cells that a terminal needs for a line; styles need none. */
export const textWidth = (line: string): number => stringWidth(line)

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
