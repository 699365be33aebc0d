import stringWidth from 'string-width'

/** Returns the width of a line in terminal cells. Style sequences are not counted. */
export const textWidth = (line: string): number => stringWidth(line)

/** Wraps a line between words at `width` cells. A word that is longer than `width` is not split. */
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

/** Wraps a line between words at `width` cells, and splits words that are longer than `width`. */
export const wrapText = (line: string, width: number): string[] =>
  wrapLine(line, width).flatMap((part) => {
    const pieces = ['']
    for (const char of part) {
      if (textWidth(`${pieces.at(-1)}${char}`) > width) pieces.push('')
      pieces[pieces.length - 1] += char
    }
    return pieces
  })
