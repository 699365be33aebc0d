import { createTextParts, plainLine } from './text-parts.ts'

/** The cells of a table, row by row. */
export type Rows = Iterable<readonly string[]>

/** Converts a table to text with one line per row. Each line can be understood on its own. */
export function tableText(rows: Rows): string {
  const text = createTextParts()
  let header: string[] | undefined
  let first = true
  for (const row of rows) {
    const cells = row.map((cell) => cell.replace(/\s+/g, ' ').trim())
    if (cells.every((cell) => cell === '')) continue
    if (first && isHeader(cells)) header = cells
    else text.add(`${plainLine(rowText(cells, header))}\n\n`)
    first = false
  }
  // If the table has only a header, returns the header as text.
  if (text.length === 0 && header) text.add(rowText(header, undefined))
  return text.toString()
}

/** Returns a row with the column name before each cell, so that the row can be found and understood on its own. */
function rowText(cells: readonly string[], header: readonly string[] | undefined): string {
  if (!header) return cells.filter((cell) => cell !== '').join(', ')
  return cells.flatMap((cell, at) => (cell === '' ? [] : header[at] ? `${header[at]}: ${cell}` : cell)).join('; ')
}

/** Whether these cells are column names: short, all different, and not numbers. */
function isHeader(cells: readonly string[]): boolean {
  const names = cells.filter((cell) => cell !== '')
  if (names.length < 2 || new Set(names).size < names.length) return false
  return names.every((name) => name.length <= HEADER_CHARS && /\p{L}/u.test(name) && !/^[\d\s.,:/-]+$/.test(name))
}

const HEADER_CHARS = 100
