import { createTextParts, plainLine } from './text-parts.ts'

/** Cells of a table, row by row. */
export type Rows = Iterable<readonly string[]>

/** Rows of a table that say by themselves what is what. */
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
  // A table of nothing but its header still says something.
  if (text.length === 0 && header) text.add(rowText(header, undefined))
  return text.toString()
}

/** With the name of its column before each cell, a row is found and understood on its own. */
function rowText(cells: readonly string[], header: readonly string[] | undefined): string {
  if (!header) return cells.filter((cell) => cell !== '').join(', ')
  return cells.flatMap((cell, at) => (cell === '' ? [] : header[at] ? `${header[at]}: ${cell}` : cell)).join('; ')
}

/** Names of columns: short, all different, and none of them a number. */
function isHeader(cells: readonly string[]): boolean {
  const names = cells.filter((cell) => cell !== '')
  if (names.length < 2 || new Set(names).size < names.length) return false
  return names.every((name) => name.length <= HEADER_CHARS && /\p{L}/u.test(name) && !/^[\d\s.,:/-]+$/.test(name))
}

const HEADER_CHARS = 100
